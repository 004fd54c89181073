//! TNT: taints against conditions.

use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::snapshot::Source;
use crate::taint::{self, CONDITION_TAINTS, NO_SCHEDULE};

const LINK: &str = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-nodes-by-condition";

/// The controller taints within a pass of its workers; half a minute is no passing state.
const SETTLED: i64 = 30;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "NL-TNT-001",
    group: Group::Taint,
    severity: Severity::Error,
    sources: &[Source::Nodes],
    title: "a condition calls for a taint that is not there",
    why: "The node lifecycle controller turns conditions into NoSchedule taints at once. If it \
          does not, it is down or may not write nodes, and pods go on being scheduled there.",
    fix: "Look at kube-controller-manager: does it run, is it the leader, is the controller \
          node-lifecycle-controller on?",
    link: LINK,
    check: taint_missing,
}];

fn taint_missing(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        for wanted in CONDITION_TAINTS {
            let Some(condition) = node.condition(wanted.condition) else {
                continue;
            };
            let since = condition.last_transition_time;
            let lasts = since.map_or(i64::MAX, |t| context.seconds_since(t));
            let tainted = taint::find(node, wanted.key, NO_SCHEDULE).is_some();
            if condition.status != wanted.status || tainted || lasts <= SETTLED {
                continue;
            }
            let lasting = since.map_or(String::new(), |_| {
                format!(" for {}", format::duration(lasts))
            });
            let message = format!(
                "{} is {}{lasting}, but the taint {}:{NO_SCHEDULE} is missing",
                wanted.condition, wanted.status, wanted.key
            );
            findings.push(
                FindingBuilder::node(node, message)
                    .with("condition", wanted.condition)
                    .with("taint", wanted.key),
            );
        }
    }
}
