//! Kubernetes Events that a drain records on its nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use nodelife_cluster::Cluster;
use nodelife_cluster::event_recorder::{Event, EventRecorder, ObjectReference};
use nodelife_core::object::Node;

use crate::reporter::Reporter;

/// No drain writes more: a thousand blocked pods are no reason for a thousand events.
const MAX_EVENTS: usize = 100;

/// Writes Events, none of which holds up the drain.
pub(crate) struct Events {
    recorder: EventRecorder,
    nodes: Vec<Node>,
    reported: BTreeSet<(String, &'static str, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventReason(&'static str, bool);

impl EventReason {
    pub(crate) const STARTED: Self = Self("DrainStarted", false);
    /// A budget has let nothing go for a while.
    pub(crate) const BLOCKED: Self = Self("DrainBlocked", true);
    pub(crate) const DRAINED: Self = Self("Drained", false);
    pub(crate) const STOPPED: Self = Self("DrainStopped", true);
}

impl Events {
    pub(crate) fn new(cluster: &Cluster, nodes: &[Node], instance: &str) -> Self {
        Self {
            recorder: EventRecorder::new(cluster, "nodelife.dev/drain", "Drain", instance),
            nodes: nodes.to_vec(),
            reported: BTreeSet::new(),
        }
    }

    /// Writes an Event, unless the node has one of this kind about the same thing.
    pub(crate) fn record(&mut self, node: &str, what: EventReason, about: &str, text: &str) {
        let EventReason(reason, is_warning) = what;
        let news = (node.to_owned(), reason, about.to_owned());
        if self.reported.len() >= MAX_EVENTS || !self.reported.insert(news) {
            return;
        }
        let Some(node) = self.nodes.iter().find(|known| known.metadata.name == node) else {
            return;
        };
        let regarding = ObjectReference {
            api_version: "v1",
            kind: "Node",
            name: &node.metadata.name,
            namespace: None,
            uid: Some(&node.metadata.uid),
        };
        let event = Event {
            is_warning,
            reason,
            note: text,
        };
        self.recorder.record(regarding, event);
    }

    pub(crate) fn instance(&self) -> &str {
        self.recorder.instance()
    }

    /// Waits for those on their way, no longer than `timeout`, and says if they were not allowed.
    pub(crate) async fn finish(&mut self, timeout: Duration, reporter: &mut dyn Reporter) {
        if let Some(why) = self.recorder.finish(timeout).await {
            reporter.note(format_args!("failed to record events on the nodes: {why}"));
        }
    }
}
