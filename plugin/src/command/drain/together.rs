//! A plan for many nodes, with the pods that read alike together.

use std::collections::BTreeMap;

use nodelife_core::format::{self, count};
use nodelife_core::natural;
use nodelife_drain_plan::{Action, DrainPlan, PlannedPod};

use crate::output::{Cell, Table};

/// More pods than these are not listed one by one, unless they are of one node.
const MANY: usize = 40;
const REASONS: usize = 5;
const NAMES: usize = 3;

const ACTIONS: [Action; 6] = [
    Action::Evict,
    Action::Delete,
    Action::Wait,
    Action::Refuse,
    Action::Impossible,
    Action::Skip,
];

pub(super) fn is_large(plan: &DrainPlan) -> bool {
    plan.nodes.len() > 1 && plan.pods.len() > MANY
}

/// A row for each action and reason, with the number of pods; those of most pods first.
pub(super) fn table(plan: &DrainPlan) -> Table {
    let mut table = Table::new(["WAVE", "ACTION", "PODS", "REASON"]);
    for action in ACTIONS {
        let mut by_reason: BTreeMap<&str, Vec<&PlannedPod>> = BTreeMap::new();
        for pod in plan.with(action) {
            by_reason.entry(&pod.reason).or_default().push(pod);
        }
        let mut reasons: Vec<_> = by_reason.into_iter().collect();
        reasons.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
        let others = reasons.split_off(format::listed(reasons.len(), REASONS));
        for (reason, pods) in reasons {
            row(&mut table, action, &pods, reason);
        }
        let number = others.len();
        let others: Vec<_> = others.into_iter().flat_map(|(_, pods)| pods).collect();
        if !others.is_empty() {
            let reason = format!("{}; -o json has all", count(number, "other reason"));
            row(&mut table, action, &others, &reason);
        }
    }
    table
}

fn row(table: &mut Table, action: Action, pods: &[&PlannedPod], reason: &str) {
    let waves = pods.iter().filter_map(|pod| pod.wave);
    let wave = match (waves.clone().min(), waves.max()) {
        (Some(first), Some(last)) if first < last => format!("{first} to {last}"),
        (Some(wave), _) => wave.to_string(),
        _ => "-".to_owned(),
    };
    let mut nodes: Vec<&str> = pods.iter().map(|pod| pod.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let (on, number) = (count(nodes.len(), "node"), count(pods.len(), "pod"));
    let number = format!("{number} on {on}");
    let action = action.to_string();
    table.row([wave, action, number, reason.to_owned()].map(Cell::from));
    let mut names: Vec<String> = pods.iter().map(|pod| pod.full_name()).collect();
    names.sort_by(|a, b| natural::compare(a, b));
    table.note_names(NAMES, |shown| format::first(shown, &names));
}
