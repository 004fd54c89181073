//! `Rule`: id, severity, data sources, texts and check of a rule.

use super::context::Context;
use super::finding::Severity;
use super::findings::Findings;
use super::group::Group;
use crate::snapshot::Source;

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// `NL-RES-001`; never given to another rule.
    pub id: &'static str,
    /// Group; its code is in the id.
    pub group: Group,
    /// How bad it is as a rule; a finding may say otherwise where its numbers do.
    pub severity: Severity,
    /// Without these lists the rule is skipped.
    pub sources: &'static [Source],
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// Why it matters: what will happen, and under which condition.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// Where to read on.
    pub link: &'static str,
    /// Looks at the snapshot and reports.
    pub check: fn(&Context<'_>, &mut Findings<'_>),
}
