//! When objects were read, by the times in them.

use foldhash::HashMap;
use jiff::{SignedDuration, Timestamp};

use crate::object::{Event, Lease, Node, NodeCondition, Pod};

/// How far the times of healthy nodes lie apart at most: a kubelet posts an unchanged status every
/// 5 minutes, and delays it by up to half of that (`nodeStatusReportFrequency`,
/// `pkg/kubelet/kubelet_node_status.go`, v1.36.3).
const APART: SignedDuration = SignedDuration::from_mins(10);

/// The newest time that an object mentions and that cannot be in the future.
///
/// Heartbeats have the time of the node's own clock. A clock that is ahead of those of most other
/// nodes, and of all that the control plane wrote, does not count.
pub fn newest_time(
    nodes: &[Node],
    leases: &[Lease],
    pods: &[Pod],
    events: &[Event],
) -> Option<Timestamp> {
    let created = nodes.iter().map(|node| &node.metadata);
    let created = created.chain(pods.iter().map(|pod| &pod.metadata));
    let created = created.chain(events.iter().map(|event| &event.metadata));
    let created = created.filter_map(|meta| meta.creation_timestamp);
    let ready = nodes.iter().filter_map(|node| node.condition("Ready"));
    let lost = ready.filter(|condition| is_lost(condition));
    let lost = lost.filter_map(|condition| condition.last_transition_time);
    let lost = lost.max();
    let of_control_plane = created.chain(lost).max();

    let mut by_node: HashMap<&str, Timestamp> = HashMap::default();
    let mut note = |node, time: Option<Timestamp>| {
        if let Some(time) = time {
            let newest = by_node.entry(node).or_insert(time);
            *newest = time.max(*newest);
        }
    };
    for node in nodes {
        for condition in node.status.conditions.iter().filter(|c| !is_lost(c)) {
            let time = condition.last_heartbeat_time;
            note(
                &node.metadata.name,
                time.max(condition.last_transition_time),
            );
        }
    }
    for lease in leases {
        note(&lease.metadata.name, lease.spec.renew_time);
    }
    for event in events {
        note(&event.involved_object.name, event.time());
    }
    // Where no node is heard any more, none was heard after the last was lost.
    let usual = usual(nodes, &by_node, of_control_plane).or(lost);
    let limit = usual.map(|usual| Some(usual).max(of_control_plane));
    let limit = limit
        .flatten()
        .and_then(|time| time.checked_add(APART).ok());
    let of_nodes = by_node.into_values();
    let credible = of_nodes.filter(|time| limit.is_none_or(|limit| *time <= limit));
    credible.chain(of_control_plane).max()
}

/// The median of the newest times of the nodes that the control plane hears. A node that is far behind
/// what the control plane wrote does not know what time it is.
fn usual(
    nodes: &[Node],
    newest: &HashMap<&str, Timestamp>,
    of_control_plane: Option<Timestamp>,
) -> Option<Timestamp> {
    let heard = nodes
        .iter()
        .filter(|node| !node.condition("Ready").is_some_and(is_lost));
    let mut times: Vec<_> = heard
        .filter_map(|node| newest.get(node.metadata.name.as_str()).copied())
        .filter(|time| {
            of_control_plane.is_none_or(|written| written.duration_since(*time) <= APART)
        })
        .collect();
    times.sort_unstable();
    let middle = times.len().checked_sub(1)? / 2;
    times.get(middle).copied()
}

fn is_lost(condition: &NodeCondition) -> bool {
    condition.status == "Unknown"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::node;

    fn heard(name: &str, minute: i64) -> Node {
        let mut node = node(name);
        node.status.conditions[0].last_heartbeat_time = Some(at(minute));
        node
    }

    fn lost(name: &str, minute: i64, transition: i64) -> Node {
        let mut node = heard(name, minute);
        let ready = &mut node.status.conditions[0];
        ready.status = "Unknown".into();
        ready.last_transition_time = Some(at(transition));
        node
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    fn newest(nodes: &[Node]) -> Option<Timestamp> {
        newest_time(nodes, &[], &[], &[])
    }

    #[test]
    fn a_clock_that_is_ahead_of_the_others_does_not_count() {
        let ahead = [heard("a", 100), heard("b", 103), heard("c", 1500)];
        assert_eq!(newest(&ahead), Some(at(103)));
        let behind = [heard("a", 100), heard("b", 103), heard("c", 3)];
        assert_eq!(newest(&behind), Some(at(103)));
        assert_eq!(newest(&[heard("a", 100)]), Some(at(100)));
        assert_eq!(newest(&[]), None);
    }

    #[test]
    fn nodes_that_are_lost_say_nothing_about_the_time() {
        let one_left = [lost("a", 3, 4), lost("b", 3, 4), heard("c", 1500)];
        assert_eq!(newest(&one_left), Some(at(1500)));
        let lost_just_now = [heard("a", 3), lost("b", 3, 1500)];
        assert_eq!(newest(&lost_just_now), Some(at(1500)));
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_count_where_all_nodes_are_lost() {
        assert_eq!(newest(&[lost("a", 3, 4), lost("b", 1500, 4)]), Some(at(4)));
    }

    #[test]
    fn what_the_control_plane_has_written_is_not_in_the_future() {
        let mut new = Pod::default();
        new.metadata.creation_timestamp = Some(at(1495));
        let nodes = [heard("a", 100), heard("b", 1500)];
        assert_eq!(newest_time(&nodes, &[], &[new], &[]), Some(at(1500)));
        assert_eq!(newest(&nodes), Some(at(100)));
    }

    #[test]
    fn nodes_that_are_behind_the_control_plane_do_not_outvote_others() {
        let mut new = heard("c", 1500);
        new.metadata.creation_timestamp = Some(at(1200));
        let nodes = [heard("a", 100), heard("b", 103), new.clone()];
        assert_eq!(newest(&nodes), Some(at(1500)));
        // Nor does a clock that is ahead of those that know the time.
        let nodes = [heard("a", 1200), heard("b", 1201), new];
        assert_eq!(newest(&nodes), Some(at(1201)));
    }
}
