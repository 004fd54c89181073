//! `Findings`, the collector of a check's findings: filters by selection, suppresses by
//! annotation, flag and configuration file.

use super::context::Context;
use super::exclude::ExcludedBy;
use super::fact::{Fact, Statement};
use super::finding::{Confidence, Finding, Severity, Subject};
use super::owners::Owner;
use super::report::{Audit, Suppressed, SuppressedBy};
use super::rule::Rule;
use super::selection::{Selection, names};
use nodelife_core::object::{Budget, Meta, Node, Pod};
use nodelife_core::text::Str;
use nodelife_core::zone::ZoneKey;

/// Lists the rules and groups, separated by commas, that do not apply to the object. It does not count
/// on objects that nodes write (`WRITTEN_BY_NODES`), which could silence the audit of themselves.
pub const SKIP_ANNOTATION: &str = "nodelife.dev/skip-rules";
const WRITTEN_BY_NODES: [&str; 3] = ["Node", "Lease", "CertificateSigningRequest"];

#[derive(Debug)]
pub struct FindingBuilder<'a> {
    pub(super) subject: Subject,
    statement: Statement,
    severity: Option<Severity>,
    fix: Option<&'static str>,
    confidence: Confidence,
    nodes: Vec<&'a str>,
    pub(super) skip: Option<&'a Str>,
}

impl<'a> FindingBuilder<'a> {
    pub fn node(node: &'a Node, says: impl Into<Statement>) -> Self {
        let found = Self::object("Node", &node.metadata, says);
        found.on(&node.metadata.name)
    }

    pub fn pod(pod: &'a Pod, says: impl Into<Statement>) -> Self {
        let mut found = Self::object("Pod", &pod.metadata, says);
        found.skip = found.skip.filter(|_| !pod.is_mirror());
        if pod.spec.node_name.is_empty() {
            found
        } else {
            found.on(&pod.spec.node_name)
        }
    }

    pub fn budget(budget: &'a Budget, says: impl Into<Statement>) -> Self {
        Self::object("PodDisruptionBudget", &budget.metadata, says)
    }

    pub fn object(kind: &str, meta: &'a Meta, says: impl Into<Statement>) -> Self {
        let namespace = Some(meta.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let mut found = Self::named(kind, &meta.name, says);
        found.subject.namespace = namespace;
        if !WRITTEN_BY_NODES.contains(&kind) {
            found.skip = meta.annotations.get(SKIP_ANNOTATION);
        }
        found
    }

    pub fn zone(context: &Context<'a>, key: &ZoneKey, says: impl Into<Statement>) -> Self {
        let nodes = context.nodes();
        let members = nodes.filter(|node| ZoneKey::of(&node.metadata.labels) == *key);
        Self::named("Zone", &key.to_string(), says)
            .on_all(members.map(|node| node.metadata.name.as_str()))
    }

    pub fn cluster(says: impl Into<Statement>) -> Self {
        Self::named("Cluster", "cluster", says)
    }

    /// A finding about a subject that is not an object: a zone, a pool, the cluster.
    pub fn named(kind: &str, name: &str, says: impl Into<Statement>) -> Self {
        Self {
            subject: Subject {
                kind: kind.into(),
                name: name.into(),
                namespace: None,
            },
            statement: says.into(),
            severity: None,
            fix: None,
            confidence: Confidence::Measured,
            nodes: Vec::new(),
            skip: None,
        }
    }

    #[must_use]
    pub fn with(mut self, key: &'static str, fact: impl Into<Fact>) -> Self {
        self.statement = self.statement.with(key, fact);
        self
    }

    #[must_use]
    pub fn and(mut self, more: &'static str) -> Self {
        self.statement = self.statement.and(more);
        self
    }

    /// Adds a node that the finding concerns. Without nodes it concerns the cluster.
    #[must_use]
    pub fn on(mut self, node: &'a str) -> Self {
        self.nodes.push(node);
        self
    }

    #[must_use]
    pub fn on_all(mut self, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    #[must_use]
    pub fn severity_if(self, special: bool, severity: Severity) -> Self {
        if special {
            self.severity(severity)
        } else {
            self
        }
    }

    #[must_use]
    pub fn fix(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }

    #[must_use]
    pub fn inferred(mut self) -> Self {
        self.confidence = Confidence::Inferred;
        self
    }
}

impl Owner {
    /// A finding about the owner and the nodes of `pods`. The skip annotation of any pod applies.
    pub(super) fn found<'a>(
        &self,
        pods: &[&'a Pod],
        says: impl Into<Statement>,
    ) -> FindingBuilder<'a> {
        let example = pods.first().map(|pod| pod.metadata.name.as_str());
        let nodes = pods.iter().map(|pod| pod.spec.node_name.as_str());
        let mut found = FindingBuilder::named(&self.kind, &self.name, says)
            .with("pods", Fact::count(pods.len(), "pod"))
            .with("example", example)
            .on_all(nodes.filter(|node| !node.is_empty()));
        found.subject.namespace = Some(self.namespace.as_str().into());
        let mut annotations = pods.iter().map(|pod| &pod.metadata.annotations);
        found.skip = annotations.find_map(|annotations| annotations.get(SKIP_ANNOTATION));
        found
    }
}

/// Collects one rule's findings: drops those of unselected nodes, and keeps those apart that are
/// suppressed or below the severity that is asked for.
#[derive(Debug)]
pub struct Findings<'a> {
    pub(super) rule: &'static Rule,
    pub(super) selection: &'a Selection,
    pub(super) context: &'a Context<'a>,
    pub(super) audit: Audit,
}

impl Findings<'_> {
    pub fn push(&mut self, found: FindingBuilder<'_>) {
        let rule = self.rule;
        let severity = self.selection.severities.of(rule.id);
        let severity = severity.or(found.severity).unwrap_or(rule.severity);
        let is_hidden = severity < self.selection.severity;
        if !self.concerns_wanted_node(&found) {
            return;
        }
        if let Some((by, exclude)) = self.suppressed_by(&found) {
            if !is_hidden {
                self.audit.suppressed.push(Suppressed {
                    rule: rule.id.into(),
                    subject: found.subject,
                    by,
                    exclude,
                });
            }
            return;
        }
        let findings = if is_hidden {
            &mut self.audit.hidden
        } else {
            &mut self.audit.findings
        };
        findings.push(Finding {
            rule: rule.id.into(),
            title: rule.title().into(),
            severity,
            subject: found.subject,
            message: found.statement.text(),
            template: found.statement.template,
            evidence: found.statement.facts,
            confidence: found.confidence,
            fix: found.fix.unwrap_or_else(|| rule.fix()).into(),
            link: rule.link().into(),
        });
    }

    fn concerns_wanted_node(&self, found: &FindingBuilder<'_>) -> bool {
        let wanted = |name: &&str| match self.context.node(name) {
            Some(node) => self.selection.wants_node(node),
            None => self.selection.nodes.iter().any(|wanted| wanted == name),
        };
        if self.selection.wants_all_nodes() {
            return true;
        }
        if !found.nodes.is_empty() {
            return found.nodes.iter().any(wanted);
        }
        let is_on_wanted = |pod: &&Pod| wanted(&pod.spec.node_name.as_str());
        let subject = &found.subject;
        let namespace = subject.namespace.as_deref().unwrap_or_default();
        match subject.kind.as_str() {
            "Cluster" => true,
            "PodDisruptionBudget" => self.context.budgets().iter().any(|entry| {
                let meta = &entry.budget.metadata;
                meta.name == subject.name
                    && *meta.namespace == *namespace
                    && entry.pods.iter().any(is_on_wanted)
            }),
            "PersistentVolume" => {
                let mut pods = self.context.pods_with_volume(&subject.name);
                pods.any(|pod| is_on_wanted(&pod))
            }
            _ => false,
        }
    }

    fn suppressed_by(
        &self,
        found: &FindingBuilder<'_>,
    ) -> Option<(SuppressedBy, Option<ExcludedBy>)> {
        let by_annotation = found
            .skip
            .is_some_and(|list| list.split(',').any(|name| names(name, self.rule.id)));
        if by_annotation {
            return Some((SuppressedBy::Annotation, None));
        }
        let mut excludes = self.selection.excludes.iter();
        let exclude = excludes.find(|exclude| {
            let nodes = found.nodes.iter().map(|name| self.context.node(name));
            exclude.holds(self.context.now) && exclude.matches(self.rule.id, &found.subject, nodes)
        })?;
        Some((SuppressedBy::Config, Some(exclude.by.clone())))
    }
}
