//! The result of the drain of a node, as a sentence.

use nodelife_core::format::count;
use nodelife_core::node_marks::DrainProgress;
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainMachine, Outcome, PodState, SkipReason, Tracked};

use super::Executor;
use crate::events::EventReason;

const MAX_NAMED: usize = 5;

impl Executor<'_> {
    pub(super) fn node_done(&mut self, node: &Str) {
        let (what, text) = of_node(node, &self.machine);
        self.reporter.note(format_args!("node/{node}: {text}"));
        self.events.record(node, what, "", &text);
        self.conditions.write(
            node,
            if what == EventReason::DRAINED {
                DrainProgress::Drained
            } else {
                DrainProgress::Stopped
            },
        );
    }
}

fn of_node(node: &str, machine: &DrainMachine) -> (EventReason, String) {
    let here = || machine.pods().filter(|t| t.pod.spec.node_name == node);
    let left = here().filter(|t| !t.is_done()).count();
    let unselected = here()
        .filter(|t| t.state == PodState::Skipped(SkipReason::NotSelected))
        .count();
    if left > 0 {
        let text = format!("not drained, {left} pods left");
        (EventReason::STOPPED, text)
    } else if unselected > 0 {
        let text =
            format!("drained of the pods that match --pod-selector; {unselected} other pods left");
        (EventReason::DRAINED, text)
    } else {
        let evicted = here().filter(|t| t.outcome() == Outcome::Evicted).count();
        let text = format!("drained: {evicted} evicted{}", staying(here()));
        (EventReason::DRAINED, text)
    }
}

/// The pods that stay, and why: those that nobody expects to stay are named.
fn staying<'a>(pods: impl Iterator<Item = &'a Tracked>) -> String {
    let (mut of_daemon_sets, mut of_kubelet, mut names) = (0, 0, Vec::new());
    for tracked in pods {
        match &tracked.state {
            PodState::Skipped(SkipReason::DaemonSet) => of_daemon_sets += 1,
            PodState::Skipped(SkipReason::Mirror) => of_kubelet += 1,
            PodState::Skipped(SkipReason::Asked(_) | SkipReason::Overdue) => {
                let name = tracked.pod.metadata.full_name();
                names.push(format!("{name} ({})", tracked.state));
            }
            _ => {}
        }
    }
    let all = of_daemon_sets + of_kubelet + names.len();
    names.sort();
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let kinds = [
        (of_daemon_sets, "DaemonSet pod"),
        (of_kubelet, "static pod"),
    ];
    let counts = kinds.iter().filter(|(number, _)| *number > 0);
    let mut parts: Vec<String> = counts.map(|(number, noun)| count(*number, noun)).collect();
    parts.append(&mut names);
    match all {
        0 => String::new(),
        1 => format!("; {} stays", parts.join(", ")),
        _ => format!("; {} stay", parts.join(", ")),
    }
}
