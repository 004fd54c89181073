//! `--node-conditions`: tells on the nodes that they are being drained, or were.

use std::collections::BTreeSet;
use std::time::Duration;

use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::node_marks::{ConditionChange, DrainProgress};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::reporter::Reporter;

/// Writes conditions in the order in which they were given, without delaying the drain.
pub(crate) struct Conditions {
    nodes: Vec<Node>,
    begun: BTreeSet<Str>,
    changes: Option<UnboundedSender<(Node, DrainProgress)>>,
    /// The one task that writes; dropped, and so cancelled, with the drain.
    writer: JoinSet<Option<ApiError>>,
}

impl Conditions {
    /// Writes none unless `wanted`.
    pub(crate) fn new(cluster: &Cluster, nodes: &[Node], wanted: bool) -> Self {
        let mut writer = JoinSet::new();
        let changes = wanted.then(|| {
            let (sender, receiver) = unbounded_channel();
            writer.spawn(write_all(cluster.clone(), receiver));
            sender
        });
        Self {
            nodes: nodes.to_vec(),
            begun: BTreeSet::new(),
            changes,
            writer,
        }
    }

    /// Writes what the drain of a node has come to; nothing about one that was not begun.
    pub(crate) fn write(&mut self, node: &Str, progress: DrainProgress) {
        let Some(changes) = &self.changes else { return };
        if progress == DrainProgress::Begun {
            self.begun.insert(node.clone());
        } else if !self.begun.remove(node) {
            return;
        }
        if let Some(known) = self.nodes.iter().find(|n| n.metadata.name == *node) {
            // It fails only if the writer is gone, and then nobody waits for it.
            let _ = changes.send((known.clone(), progress));
        }
    }

    /// Ends what is said to be under way, within `timeout`. What was not allowed is said once.
    pub(crate) async fn finish(&mut self, timeout: Duration, reporter: &mut dyn Reporter) {
        for node in self.begun.clone() {
            self.write(&node, DrainProgress::Stopped);
        }
        self.changes = None;
        match tokio::time::timeout(timeout, self.writer.join_next()).await {
            Ok(Some(Ok(Some(why)))) => reporter.warn(format_args!(
                "failed to set conditions of the nodes (--node-conditions): {why}"
            )),
            Ok(_) => {}
            Err(_) => tracing::debug!("conditions were still on their way"),
        }
    }
}

/// Why some were not written, if that was not allowed.
async fn write_all(
    cluster: Cluster,
    mut changes: UnboundedReceiver<(Node, DrainProgress)>,
) -> Option<ApiError> {
    let mut refused = None;
    while let Some((node, progress)) = changes.recv().await {
        let change = ConditionChange::new(&node, progress, cluster.clock().now());
        let name = &node.metadata.name;
        match cluster.patch_conditions(&node, &change).await {
            Ok(()) | Err(ApiError::NotFound(_)) => {}
            Err(why @ ApiError::Forbidden(_)) => refused = Some(why),
            Err(error) => tracing::debug!(node = %name, %error, "failed to write conditions"),
        }
    }
    refused
}
