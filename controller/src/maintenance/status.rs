//! The parts of the status: nodes and pods of a drain as it stands, and conditions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nodelife_core::format;
use nodelife_core::node_maintenance::{
    BetweenNodes, MAX_UNSETTLED, MaintenanceCondition, MaintenanceStatus, NodeCounts, NodeState,
    NodeStatus, UnsettledPod, condition,
};
use nodelife_core::text::Str;
use nodelife_drain::{DrainStatus, Progress};
use nodelife_drain_plan::{Between, NodeLoss, NodePhase, Outcome, StopReason, Tracked};

/// How long the reason of a pod may be, in characters.
const MAX_REASON: usize = 300;

/// Each node, and what has become of its pods.
pub(super) fn nodes(progress: &Progress<'_>) -> Vec<NodeStatus> {
    let machine = progress.machine;
    let mut counts: BTreeMap<&str, NodeCounts> = BTreeMap::new();
    let mut unsettled: BTreeMap<&str, &Tracked> = BTreeMap::new();
    for tracked in machine.pods() {
        let node = tracked.pod.spec.node_name.as_str();
        if tracked.outcome() > Outcome::Skipped {
            let first = unsettled.entry(node).or_insert(tracked);
            if name_of(tracked) < name_of(first) {
                *first = tracked;
            }
        }
        let counts = counts.entry(node).or_default();
        *match machine.outcome(tracked) {
            Outcome::Evicted => &mut counts.evicted,
            Outcome::Skipped => &mut counts.skipped,
            Outcome::Pending => &mut counts.pending,
            Outcome::Blocked => &mut counts.blocked,
            Outcome::Terminating => &mut counts.terminating,
            Outcome::Stuck => &mut counts.stuck,
            Outcome::Impossible => &mut counts.impossible,
        } += 1;
    }
    let of = |(name, phase): (&Str, NodePhase)| {
        let (state, message) = match phase {
            NodePhase::Waiting => (NodeState::Waiting, String::new()),
            NodePhase::Settling => (
                NodeState::Settling,
                format::join(machine.awaited(name), "; "),
            ),
            NodePhase::Done if machine.is_drained(name) => (NodeState::Drained, String::new()),
            NodePhase::Done => {
                let first = unsettled.get(name.as_str());
                let reason = first.map(|tracked| {
                    let (namespace, pod) = name_of(tracked);
                    format!("{namespace}/{pod}: {}", reason_of(tracked, progress))
                });
                (NodeState::NotDrained, reason.unwrap_or_default())
            }
            NodePhase::Left(loss @ NodeLoss::Deleted) => (NodeState::Drained, loss.to_string()),
            NodePhase::Left(loss) => (NodeState::NotDrained, loss.to_string()),
            NodePhase::Yielded => {
                let text = "only budgets block it; other nodes have their turn first";
                (NodeState::Draining, text.to_owned())
            }
            _ => (NodeState::Draining, String::new()),
        };
        let has_ended = match phase {
            NodePhase::Done => true,
            // They are tried again, and those that never had a turn have nothing to end.
            NodePhase::Left(loss) => !matches!(loss, NodeLoss::CordonFailed | NodeLoss::GateFailed),
            _ => false,
        };
        NodeStatus {
            name: name.clone(),
            state,
            done_at: has_ended
                .then(|| whole_second(machine.ended_at(name).unwrap_or(progress.now))),
            message: cut(&message),
            pods: counts.get(name.as_str()).copied().unwrap_or_default(),
            ..NodeStatus::default()
        }
    };
    machine.nodes().map(of).collect()
}

/// What the next node waits for, after each node that holds it up.
pub(super) fn between(progress: &Progress<'_>) -> BTreeMap<Str, BetweenNodes> {
    let between = progress.machine.between();
    let between = between.map(|(node, why)| match why {
        Between::Soak(_) => (node.clone(), BetweenNodes::Soak),
        Between::Gate => (node.clone(), BetweenNodes::Gate),
    });
    between.collect()
}

/// Whether the drain ended at its deadline, or by its gate.
pub(super) fn is_final(progress: &Progress<'_>) -> bool {
    progress.machine.stopped() == Some(StopReason::Deadline) || gate_failed(progress)
}

/// Whether its gate has kept a node from starting.
pub(super) fn gate_failed(progress: &Progress<'_>) -> bool {
    let mut nodes = progress.machine.nodes();
    nodes.any(|(_, phase)| phase == NodePhase::Left(NodeLoss::GateFailed))
}

/// The first pods that are not settled, by namespace and name, and how many more there are.
pub(super) fn pods(progress: &Progress<'_>) -> (Vec<UnsettledPod>, u32) {
    let mut unsettled: Vec<_> = progress
        .machine
        .pods()
        .filter(|tracked| tracked.outcome() > Outcome::Skipped)
        .collect();
    unsettled.sort_unstable_by_key(|tracked| name_of(tracked));
    let more = unsettled.len().saturating_sub(MAX_UNSETTLED);
    let listed = unsettled.iter().take(MAX_UNSETTLED).map(|tracked| {
        let meta = &tracked.pod.metadata;
        UnsettledPod {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            node: tracked.pod.spec.node_name.clone(),
            reason: cut(&reason_of(tracked, progress)),
            blocked_since: progress.machine.blocked_since(tracked).map(whole_second),
        }
    });
    (listed.collect(), u32::try_from(more).unwrap_or(u32::MAX))
}

fn name_of(tracked: &Tracked) -> (&Str, &Str) {
    let meta = &tracked.pod.metadata;
    (&meta.namespace, &meta.name)
}

/// Why it does not go, with what the scheduler says of the replacements that its budget waits for.
fn reason_of(tracked: &Tracked, progress: &Progress<'_>) -> String {
    let reason = tracked.reason(progress.nodes, progress.now);
    match progress.unscheduled(tracked) {
        Some(words) => format!("{reason}; {words}"),
        None => reason,
    }
}

/// What blocks pods, and which, most pods first; empty where nothing does.
pub(super) fn blocked(progress: &Progress<'_>) -> String {
    const SHOWN: usize = 3;
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tracked in progress.machine.pods() {
        if progress.machine.outcome(tracked) == Outcome::Blocked {
            let pods = reasons.entry(reason_of(tracked, progress));
            pods.or_default().push(tracked.pod.metadata.full_name());
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let told = reasons.iter_mut().take(SHOWN).map(|(reason, pods)| {
        pods.sort();
        let names = format::first(SHOWN, pods);
        format!("{names}: {reason}")
    });
    format::join(told, "; ")
}

/// A text that ends in `…` if it was too long.
pub(super) fn cut(text: &str) -> Str {
    const MARK: char = '…';
    if text.chars().count() <= MAX_REASON {
        return text.into();
    }
    let kept = text.chars().take(MAX_REASON - MARK.len_utf8());
    kept.chain([MARK]).collect::<String>().into()
}

/// Sets a condition; its time changes with its status alone.
pub(super) fn set_condition(
    status: &mut MaintenanceStatus,
    (kind, holds): (&str, bool),
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    // kubectl's column shows the reason, whether the condition holds or not.
    let is_free = kind == condition::BLOCKED && !holds;
    let reason = if is_free { "NotBlocked" } else { reason };
    let mut new = MaintenanceCondition {
        kind: kind.into(),
        status: if holds { "True" } else { "False" }.into(),
        reason: reason.into(),
        message: cut(message),
        last_transition_time: whole_second(now),
    };
    match status.conditions.iter_mut().find(|c| c.kind == new.kind) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => status.conditions.push(new),
    }
}

/// What blocks a drain until somebody acts.
const STALLED: [&str; 5] = [
    "InvalidSpec",
    "TooManyNodes",
    "PlanTooLarge",
    "Refused",
    "Impossible",
];

/// Sets the conditions that sum up the others as kstatus reads them (sigs.k8s.io/cli-utils,
/// `pkg/kstatus/status/generic.go`): exactly one of the three is True.
pub(super) fn summarize(status: &mut MaintenanceStatus, is_deleted: bool, now: Timestamp) {
    let blocked = status.blocked();
    let why = blocked.or_else(|| status.condition(condition::PROGRESSING));
    let why = why.cloned().unwrap_or_default();
    let drained = status.condition(condition::DRAINED);
    let drained = drained.is_some_and(|drained| drained.status == "True");
    let is_stalled = if status.finished_at.is_some() {
        !drained
    } else {
        blocked.is_some() && STALLED.contains(&why.reason.as_str())
    };
    let (ready, stalled) = (drained && !is_deleted, is_stalled && !is_deleted);
    let reason = match why.reason.as_str() {
        _ if is_deleted => "GivingBack",
        "" => "New",
        reason => reason,
    };
    let message = match &status.progress {
        Some(progress) if why.message.is_empty() => format!("{progress} nodes drained"),
        _ => why.message.to_string(),
    };
    for (kind, holds) in [
        (condition::READY, ready),
        (condition::RECONCILING, !ready && !stalled),
        (condition::STALLED, stalled),
    ] {
        set_condition(status, (kind, holds), (reason, &message), now);
    }
}

/// `metav1.Time` has whole seconds.
pub(super) fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// Counts the drained nodes, of how many.
pub(super) fn count_nodes(status: &mut MaintenanceStatus) {
    let drained = status.nodes.iter();
    let drained = drained.filter(|node| node.state == NodeState::Drained);
    let text = format!("{}/{}", drained.count(), status.nodes.len());
    status.progress = Some(text.into());
}

pub(super) fn reason(status: DrainStatus) -> &'static str {
    match status {
        DrainStatus::Done => "Drained",
        DrainStatus::Failed => "Failed",
        DrainStatus::Refused => "Refused",
        DrainStatus::Blocked => "BlockedByBudget",
        DrainStatus::Stuck => "Stuck",
        DrainStatus::Impossible => "Impossible",
        DrainStatus::Interrupted => "Interrupted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The condition that is True of the three, with its reason and message.
    fn sum(status: &MaintenanceStatus) -> (String, String, String) {
        let mut holds = status.conditions.iter().filter(|one| {
            let kinds = [condition::READY, condition::RECONCILING, condition::STALLED];
            kinds.contains(&one.kind.as_str()) && one.status == "True"
        });
        let one = holds.next().unwrap();
        assert_eq!(holds.next(), None);
        (
            one.kind.to_string(),
            one.reason.to_string(),
            one.message.to_string(),
        )
    }

    #[test]
    fn one_of_three_conditions_sums_up_the_others() {
        use condition::{BLOCKED, DRAINED, PROGRESSING, READY, RECONCILING, STALLED};
        let now = Timestamp::UNIX_EPOCH;
        for (set, finished, deleted, expected) in [
            (vec![], false, false, (RECONCILING, "New", "")),
            (
                vec![(PROGRESSING, true, "Draining", "")],
                false,
                false,
                (RECONCILING, "Draining", "1/2 nodes drained"),
            ),
            (
                vec![(PROGRESSING, false, "WaitsForApproval", "set it")],
                false,
                false,
                (RECONCILING, "WaitsForApproval", "set it"),
            ),
            (
                vec![
                    (PROGRESSING, true, "Draining", ""),
                    (BLOCKED, true, "PodsBlocked", "web"),
                ],
                false,
                false,
                (RECONCILING, "PodsBlocked", "web"),
            ),
            (
                vec![(BLOCKED, true, "Impossible", "never")],
                false,
                false,
                (STALLED, "Impossible", "never"),
            ),
            // What was in the way is so no more.
            (
                vec![
                    (PROGRESSING, true, "Draining", "x"),
                    (BLOCKED, false, "Impossible", ""),
                ],
                false,
                false,
                (RECONCILING, "Draining", "x"),
            ),
            (
                vec![
                    (PROGRESSING, false, "Drained", ""),
                    (DRAINED, true, "Drained", ""),
                ],
                true,
                false,
                (READY, "Drained", "1/2 nodes drained"),
            ),
            (
                vec![
                    (PROGRESSING, false, "NotDrained", "web"),
                    (DRAINED, false, "BlockedByBudget", "web"),
                    (BLOCKED, true, "BlockedByBudget", "web"),
                ],
                true,
                false,
                (STALLED, "BlockedByBudget", "web"),
            ),
            (
                vec![
                    (DRAINED, true, "Drained", ""),
                    (BLOCKED, true, "NodeLocked", "lock"),
                ],
                true,
                true,
                (RECONCILING, "GivingBack", "lock"),
            ),
        ] {
            let mut status = MaintenanceStatus::default();
            for (kind, holds, reason, message) in &set {
                set_condition(&mut status, (kind, *holds), (reason, message), now);
            }
            status.finished_at = finished.then_some(now);
            status.progress = (!set.is_empty()).then(|| "1/2".into());
            summarize(&mut status, deleted, now);
            let (kind, reason, message) = sum(&status);
            assert_eq!((&*kind, &*reason, &*message), expected, "{set:?}");
            // Its time is that of the change.
            let before = status.clone();
            summarize(
                &mut status,
                deleted,
                now + jiff::SignedDuration::from_secs(9),
            );
            assert_eq!(status, before);
        }
    }

    #[test]
    fn what_is_not_blocked_is_told_so() {
        let mut status = MaintenanceStatus::default();
        let why = ("Draining", "");
        set_condition(
            &mut status,
            (condition::BLOCKED, false),
            why,
            Timestamp::UNIX_EPOCH,
        );
        let blocked = status.condition(condition::BLOCKED).unwrap();
        assert_eq!(blocked.reason, *"NotBlocked");
    }

    #[test]
    fn a_long_text_ends_in_a_mark() {
        assert_eq!(
            cut(&"é".repeat(MAX_REASON)).as_str(),
            "é".repeat(MAX_REASON)
        );
        let cut = cut(&"a".repeat(MAX_REASON + 1));
        assert!(cut.ends_with("a…") && cut.len() == MAX_REASON, "{cut}");
    }
}
