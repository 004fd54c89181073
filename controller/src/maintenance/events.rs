//! [`MaintenanceEvents`]: Kubernetes Events on a maintenance, of what its status says anew.

use std::collections::{BTreeMap, BTreeSet};

use nodelife_cluster::Cluster;
use nodelife_cluster::event_recorder::{Event, EventRecorder, ObjectReference};
use nodelife_core::node_maintenance::{
    KIND, MaintenanceStatus, NodeMaintenance, NodeState, condition,
};
use nodelife_core::{API_VERSION, format};

/// No maintenance has more about its nodes and what blocks it: hundreds of nodes are no reason for as many
/// Events.
const MAX_EVENTS: usize = 100;

/// How many nodes a note names.
const SHOWN: usize = 10;

const STARTED: &str = "MaintenanceStarted";
const BLOCKED: &str = "MaintenanceBlocked";
const DONE: &str = "MaintenanceDone";
const FAILED: &str = "MaintenanceFailed";
const NODE_DRAINED: &str = "NodeDrained";
const NODE_NOT_DRAINED: &str = "NodeNotDrained";
const NOT_NOTIFIED: &str = "ChannelNotNotified";

/// A reason, and a sentence.
type News = (&'static str, String);

pub(super) struct MaintenanceEvents {
    recorder: EventRecorder,
    told: BTreeSet<News>,
}

impl MaintenanceEvents {
    pub(super) fn new(cluster: &Cluster, instance: &str) -> Self {
        let controller = "nodelife.dev/nodelife-controller";
        Self {
            recorder: EventRecorder::new(cluster, controller, "Maintenance", instance),
            told: BTreeSet::new(),
        }
    }

    /// Another run may tell the same.
    pub(super) fn forget(&mut self) {
        self.told.clear();
    }

    /// Records what a new status says that the object's does not. The status outlives the leader, so the
    /// next one does not tell it again.
    pub(super) fn record(&mut self, object: &NodeMaintenance, new: &MaintenanceStatus) {
        self.recorder.reap();
        let meta = &object.metadata;
        let regarding = ObjectReference {
            api_version: API_VERSION,
            kind: KIND,
            name: &meta.name,
            namespace: None,
            uid: Some(&meta.uid),
        };
        let mut news = overall(&object.status, new);
        for one in of_nodes(&object.status, new)
            .into_iter()
            .chain(blocked(&object.status, new))
            .chain(not_notified(&object.status, new))
        {
            if self.told.len() < MAX_EVENTS && self.told.insert(one.clone()) {
                news.push(one);
            }
        }
        for (reason, note) in news {
            let event = Event {
                is_warning: !matches!(reason, STARTED | DONE | NODE_DRAINED),
                reason,
                note: &note,
            };
            self.recorder.record(regarding, event);
        }
    }
}

/// Its beginning, and its end.
fn overall(old: &MaintenanceStatus, new: &MaintenanceStatus) -> Vec<News> {
    let mut news = Vec::new();
    if old.started_at.is_none() && new.started_at.is_some() {
        news.push((STARTED, begun(new)));
    }
    if old.finished_at.is_none() && new.finished_at.is_some() {
        let (is_done, text) = ended(new);
        news.push((if is_done { DONE } else { FAILED }, text));
    }
    news
}

/// The sentence about its beginning.
pub(super) fn begun(status: &MaintenanceStatus) -> String {
    let nodes = status.nodes.iter().map(|node| &node.name);
    format!("drains {}", format::first(SHOWN, nodes))
}

/// Whether all nodes are drained at its end, and the sentence about it.
pub(super) fn ended(status: &MaintenanceStatus) -> (bool, String) {
    let drained = status.condition(condition::DRAINED);
    let is_done = drained.is_some_and(|drained| drained.status == "True");
    let of = status.progress.as_deref().unwrap_or("no");
    let why = drained.map_or("", |drained| drained.message.as_str());
    let colon = if why.is_empty() { "" } else { ": " };
    (is_done, format!("{of} nodes drained{colon}{why}"))
}

/// The channels that could not be told something, each cause once.
fn not_notified(old: &MaintenanceStatus, new: &MaintenanceStatus) -> Vec<News> {
    let news = new.notified.iter().filter(|one| {
        let mut before = old.notified.iter();
        let is_told = before.any(|two| (&two.channel, &two.error) == (&one.channel, &one.error));
        !one.error.is_empty() && !is_told
    });
    let news = news.map(|one| (NOT_NOTIFIED, format!("{}: {}", one.channel, one.error)));
    news.collect()
}

/// What has become of nodes.
fn of_nodes(old: &MaintenanceStatus, new: &MaintenanceStatus) -> Vec<News> {
    let before = old.nodes.iter().map(|node| (&node.name, node.state));
    let before: BTreeMap<_, _> = before.collect();
    let changed = new.nodes.iter();
    let changed = changed.filter(|node| before.get(&node.name) != Some(&node.state));
    let news = changed.filter_map(|node| {
        let (reason, what) = match node.state {
            NodeState::Drained => (NODE_DRAINED, "drained"),
            NodeState::NotDrained => (NODE_NOT_DRAINED, "not drained"),
            NodeState::Refused => (NODE_NOT_DRAINED, "refused"),
            NodeState::Waiting | NodeState::Draining | NodeState::Settling => return None,
        };
        let colon = if node.message.is_empty() { "" } else { ": " };
        Some((
            reason,
            format!("{} is {what}{colon}{}", node.name, node.message),
        ))
    });
    news.collect()
}

/// What blocks it, if something else did before, or nothing.
fn blocked(old: &MaintenanceStatus, new: &MaintenanceStatus) -> Option<News> {
    let now = new.blocked()?;
    let is_told = old
        .blocked()
        .is_some_and(|before| before.reason == now.reason);
    let has_just_ended = old.finished_at.is_none() && new.finished_at.is_some();
    (!is_told && !has_just_ended).then(|| (BLOCKED, format!("{}: {}", now.reason, now.message)))
}

#[cfg(test)]
mod tests {
    use super::super::status::set_condition;
    use super::*;
    use jiff::Timestamp;
    use nodelife_core::node_maintenance::NodeStatus;

    #[test]
    fn each_change_is_told_once() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = MaintenanceStatus::default();
        let mut told = |change: &dyn Fn(&mut MaintenanceStatus)| {
            let old = status.clone();
            change(&mut status);
            let news = overall(&old, &status).into_iter();
            let news = news.chain(of_nodes(&old, &status));
            let news = news.chain(blocked(&old, &status));
            news.map(|(reason, note)| format!("{reason} {note}"))
                .collect::<Vec<_>>()
        };
        let blocks = |status: &mut MaintenanceStatus, message: &str| {
            let why = ("PodsBlocked", message);
            set_condition(status, (condition::BLOCKED, true), why, now);
        };
        let begun = told(&|status| {
            status.started_at = Some(now);
            status.nodes = ["a", "b"]
                .map(|name| NodeStatus {
                    name: name.into(),
                    ..NodeStatus::default()
                })
                .into();
        });
        assert_eq!(begun, ["MaintenanceStarted drains a, b"]);
        let held = told(&|status| blocks(status, "shop/web-1: blocked by budget shop/web"));
        let held_by = "MaintenanceBlocked PodsBlocked: shop/web-1: blocked by budget shop/web";
        assert_eq!(held, [held_by]);
        assert!(told(&|status| blocks(status, "shop/web-2")).is_empty());
        let drained = told(&|status| status.nodes[0].state = NodeState::Drained);
        assert_eq!(drained, ["NodeDrained a is drained"]);
        let ended = told(&|status| {
            status.finished_at = Some(now);
            status.progress = Some("1/2".into());
            let why = ("BlockedByBudget", "b: no");
            set_condition(status, (condition::DRAINED, false), why, now);
            set_condition(status, (condition::BLOCKED, true), why, now);
        });
        assert_eq!(ended, ["MaintenanceFailed 1/2 nodes drained: b: no"]);
    }
}
