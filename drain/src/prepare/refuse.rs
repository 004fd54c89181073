//! Takes the nodes out of a drain with pods that may not or cannot be evicted.

use std::collections::BTreeMap;

use nodelife_core::format;
use nodelife_core::text::Str;
use nodelife_drain_plan::{Action, DrainPlan};

use crate::drain::Refusals;
use crate::reporter::{DrainStatus, Reporter};
use crate::sentences;
use crate::settings::{DrainRequest, OnImpossible, OnRefused};
use crate::view::ClusterView;

/// Says which pods are in the way, and leaves their nodes out of the drain and its plan: all nodes
/// if none would be left, or with `--on-refused=all`.
pub(super) fn refuse(
    request: &DrainRequest,
    plan: DrainPlan,
    view: &mut ClusterView,
    replan: impl FnOnce(&ClusterView) -> DrainPlan,
    reporter: &mut dyn Reporter,
) -> (DrainPlan, Refusals) {
    let mut status = DrainStatus::Done;
    let mut reasons: BTreeMap<Str, Vec<String>> = BTreeMap::new();
    let mut told = Vec::new();
    for (action, with) in [
        (Action::Refuse, DrainStatus::Refused),
        (Action::Impossible, DrainStatus::Impossible),
    ] {
        for pod in plan.with(action) {
            let (name, reason) = (pod.full_name(), pod.reason.as_str());
            told.push((format!("{name} on {}", pod.node), reason));
            if action == Action::Refuse || request.settings.on_impossible == OnImpossible::Refuse {
                status = status.and(with);
                // With the flags it would be impossible all the same.
                let never = plan.impossible.contains_key(&pod.uid);
                if never && request.settings.on_impossible != OnImpossible::Wait {
                    status = status.and(DrainStatus::Impossible);
                }
                let reasons = reasons.entry(pod.node.clone()).or_default();
                reasons.push(format!("{name}: {reason}"));
            }
        }
    }
    for sentence in sentences::about_pods(told) {
        reporter.note(sentence);
    }
    if reasons.is_empty() {
        return (plan, Refusals::default());
    }
    let nodes = plan.nodes.iter().cloned();
    let (refused, rest): (Vec<Str>, Vec<Str>) = nodes.partition(|node| reasons.contains_key(node));
    let all = rest.is_empty() || request.settings.on_refused == OnRefused::All;
    reporter.note(if all {
        let nodes = first_nodes(&plan.nodes);
        format!("refused to drain {nodes}: nothing was changed")
    } else {
        let is_one = refused.len() == 1;
        let verb = if is_one { "it is" } else { "they are" };
        format!("refused to drain {}: left as {verb}", first_nodes(&refused))
    });
    let reasons = reasons.into_iter();
    let refusals = Refusals {
        status,
        all,
        nodes: reasons
            .map(|(node, reasons)| (node, reasons.join("; ")))
            .collect(),
    };
    if all {
        return (plan, refusals);
    }
    view.exclude(&refused);
    let rest = replan(view);
    (plan.refuse(&refused, rest), refusals)
}

fn first_nodes(nodes: &[Str]) -> String {
    const SHOWN: usize = 10;
    format::first(SHOWN, nodes)
}
