//! The audit: runs rules on a snapshot.
//!
//! A rule is defined once, in the module of its group in `rules`: its id, how bad it is,
//! the data it needs, its texts and its check. The catalogue, `explain RULE` and the
//! reports all read that definition.
//!
//! ```text
//! Snapshot ─► Context (indices, zones) ─► check of each rule ─► Findings ─► Audit
//! ```

pub mod config;
mod context;
mod exclude;
mod fact;
pub mod failure;
mod finding;
mod findings;
#[cfg(test)]
#[path = "../../core/src/fixtures.rs"]
mod fixtures;
mod grouping;
mod headroom;
mod kubelet_config;
pub mod kubelet_start;
pub mod maintenance;
mod metrics;
mod node_of;
pub mod nodes;
mod owners;
mod pools;
mod report;
mod rule;
mod rules;
mod selection;

use jiff::Timestamp;

pub use context::Context;
pub(crate) use context::allocatable;
pub use exclude::{Exclude, ExcludedBy, ObjectPattern};
pub use fact::{Fact, Statement};
pub use finding::{Confidence, Finding, Severity, Subject};
pub use findings::{FindingBuilder, Findings, SKIP_ANNOTATION};
pub use grouping::{FindingGroup, NodePools};
pub use metrics::metrics;
pub use node_of::NodeOf;
pub use pools::pool_of;
pub use report::{
    Audit, AuditReport, Fixed, Input, Skipped, Summary, Suppressed, SuppressedBy, Tool,
    nodes_with_errors,
};
pub use rule::{Check, Rule};
pub use rules::{
    CHECK_CONTROLLER, GROUPS, Group, UPGRADE, all, find, find_group, overdue_taints, removed,
    removed_in, unknown, without_target,
};
pub use selection::{Selection, Severities, group_of};

use nodelife_core::snapshot::{Snapshot, Source};

/// Runs the selected rules. Ages refer to the time of the snapshot, or to `now` if that is unknown.
pub fn audit(snapshot: &Snapshot, selection: &Selection, now: Timestamp) -> Audit {
    let now = snapshot.taken_at.unwrap_or(now);
    let context = Context::new(snapshot, None, now);
    check(&context, selection)
}

pub fn check<'a>(context: &'a Context<'a>, selection: &'a Selection) -> Audit {
    let mut audit = Audit::default();
    for rule in all().filter(|rule| selection.wants(rule.id)) {
        if !rule.can_check(selection) {
            // Silent, unless the rule was named.
            if !selection.rules.is_empty() {
                let (rule, reason) = (rule.id.into(), "--target was not given".into());
                audit.skipped.push(Skipped { rule, reason });
            }
            continue;
        }
        match missing(context.snapshot, rule) {
            None => audit.checked += 1,
            Some((reason, is_partial)) => {
                let rule = rule.id.into();
                audit.skipped.push(Skipped { rule, reason });
                if !is_partial {
                    continue;
                }
            }
        }
        let mut findings = Findings {
            rule,
            selection,
            context,
            audit,
        };
        rule.run(context, &mut findings);
        audit = findings.audit;
    }
    audit.findings.sort_by(|a, b| {
        (b.severity.cmp(&a.severity))
            .then_with(|| a.rule.cmp(&b.rule))
            .then_with(|| a.subject.cmp(&b.subject))
            .then_with(|| a.message.cmp(&b.message))
    });
    audit
}

/// Why the rule cannot be checked: a source that is missing. And whether it can be checked in part:
/// a kubelet that is silent hides no configuration of another, and pods that were not read hide none
/// from a rule that tells which are there.
fn missing(snapshot: &Snapshot, rule: &Rule) -> Option<(String, bool)> {
    let has_files = !snapshot.kubelet_files.is_empty();
    if snapshot.is_declared() {
        let is_judged =
            rules::judges_manifests(rule) || has_files && rules::judges_kubelet_files(rule);
        let what = if has_files {
            "kubelet configurations"
        } else {
            "manifests"
        };
        return (!is_judged).then(|| (format!("the input has {what}, and no nodes"), false));
    }
    let of_cluster = matches!(rule.check, Check::Cluster(_)).then_some(&Source::AllNodes);
    let missing = rule.sources.iter().chain(of_cluster).filter_map(|source| {
        let why = snapshot.why_missing(*source)?;
        let is_partial = match source {
            Source::KubeletConfigs => has_files || snapshot.count(*source) > 0,
            Source::AllPods => !rule.sources.contains(&Source::Pods),
            _ => false,
        };
        Some((format!("{} not read: {why}", source.noun()), is_partial))
    });
    // What is missing altogether comes first.
    missing.min_by_key(|(_, is_partial)| *is_partial)
}
