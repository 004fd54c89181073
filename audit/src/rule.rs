//! `Rule`: id, severity, data sources, check and page of a rule.

use super::context::Context;
use super::fact::Statement;
use super::finding::Severity;
use super::findings::{FindingBuilder, Findings};
use super::kubelet_config;
use super::selection::{Selection, group_of};
use crate::kubelet_start::Target;
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use nodelife_core::snapshot::Source;

#[derive(Debug)]
pub struct Rule {
    /// `NL-RES-001`; never given to another rule.
    pub id: &'static str,
    /// The default; a finding may override it.
    pub severity: Severity,
    /// The data that the rule needs; without it the rule is skipped.
    pub sources: &'static [Source],
    pub check: Check,
    /// `docs/rules/ID.md`.
    pub(crate) page: &'static str,
}

/// The rules of a group, a row each: id, severity, [`Source`]s and [`Check`].
macro_rules! rules {
    ($($id:literal $severity:ident [$($source:ident),*] $kind:ident($check:expr),)*) => {
        &[$($crate::Rule {
            id: $id,
            severity: $crate::Severity::$severity,
            sources: &[$(nodelife_core::snapshot::Source::$source),*],
            check: $crate::Check::$kind($check),
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rules/", $id, ".md")),
        }),*]
    };
}
pub(crate) use rules;

#[derive(Clone, Copy, Debug)]
pub enum Check {
    All(fn(&Context<'_>, &mut Findings<'_>)),
    /// The whole cluster: skipped if the input has only some of its nodes.
    Cluster(fn(&Context<'_>, &mut Findings<'_>)),
    /// One node, with at most one finding.
    Node(for<'a> fn(&Context<'a>, &'a Node) -> Option<FindingBuilder<'a>>),
    /// As `Node`, but only nodes whose owner configures the machine: no Fargate, no virtual kubelets.
    Machine(for<'a> fn(&Context<'a>, &'a Node) -> Option<FindingBuilder<'a>>),
    EachNode(fn(&Context<'_>, &Node, &mut Findings<'_>)),
    /// The configuration of one kubelet. Nodes of which it says the same share one finding.
    Configuration(fn(&Node, &KubeletConfiguration) -> Option<Statement>),
    /// The nodes, as kubelets of another version would run them: only if a version is given.
    Target(fn(&Context<'_>, Target, &mut Findings<'_>)),
}

impl Rule {
    /// The fault, in a few words.
    pub fn title(&self) -> &'static str {
        self.text_after(": ")
    }

    /// The consequences.
    pub fn why(&self) -> &'static str {
        self.text_after("\n\n")
    }

    /// How to see the fault with one's own eyes.
    pub fn confirm(&self) -> &'static str {
        self.text_after("\n## Confirm\n\n")
    }

    pub fn commands(&self) -> impl Iterator<Item = &'static str> {
        let (_, confirm) = self.page.split_once("\n## Confirm\n").unwrap_or_default();
        let (confirm, _) = confirm.split_once("\n## ").unwrap_or_default();
        let mut blocks = confirm.split("\n```").skip(1);
        blocks.next().unwrap_or_default().lines().skip(1)
    }

    pub fn fix(&self) -> &'static str {
        self.text_after("\n## Fix\n\n")
    }

    pub fn link(&self) -> &'static str {
        self.text_after("\n## More\n\n")
    }

    /// The rest of the line after `start` on the rule's page: a paragraph is one line.
    fn text_after(&self, start: &str) -> &'static str {
        let rest = self.page.split_once(start).map(|(_, rest)| rest);
        rest.and_then(|rest| rest.lines().next())
            .unwrap_or_default()
    }

    /// The code of its group, `RES`.
    pub fn group(&self) -> &'static str {
        group_of(self.id)
    }

    /// Whether the selection has what the rule asks about: a rule about an upgrade needs the version.
    pub fn can_check(&self, selection: &Selection) -> bool {
        !matches!(self.check, Check::Target(_)) || selection.target.is_some()
    }

    pub(super) fn run(&self, context: &Context<'_>, findings: &mut Findings<'_>) {
        match self.check {
            Check::All(check) | Check::Cluster(check) => check(context, findings),
            Check::Node(check) => {
                for found in context.nodes().filter_map(|node| check(context, node)) {
                    findings.push(found);
                }
            }
            Check::Machine(check) => {
                for found in context.machines().filter_map(|node| check(context, node)) {
                    findings.push(found);
                }
            }
            Check::EachNode(check) => {
                for node in context.nodes() {
                    check(context, node, findings);
                }
            }
            Check::Configuration(check) => kubelet_config::each(context, findings, check),
            Check::Target(check) => {
                if let Some(target) = findings.selection.target {
                    check(context, target, findings);
                }
            }
        }
    }
}
