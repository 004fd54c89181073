//! Nodes that are cordoned, uncordoned, deleted or re-created while the drain runs.

use super::Machine;
use super::event::Effect;
use super::state::{NodeLoss, NodePhase, PodState, Unevictable};
use crate::verdict::SkipReason;
use nodelife_core::object::Node;
use nodelife_core::text::Str;

impl Machine {
    /// The cordon of a node stands: its pods may go.
    pub(super) fn cordoned(&mut self, node: &Str, version: &str) {
        let seen = self.seen_nodes.entry(node.clone()).or_default();
        seen.cordoned_in = version.parse().ok();
        seen.unavailable = true;
        if let Some(phase) = self.nodes.get_mut(node.as_str())
            && *phase == NodePhase::Cordoning
        {
            *phase = NodePhase::Draining;
        }
        self.check_cordon(node);
    }

    pub(super) fn node_seen(&mut self, name: &Str, found: Option<&Node>) {
        let seen = self.seen_nodes.entry(name.clone()).or_default();
        let Some(node) = found else {
            seen.unavailable = false;
            return self.leave(name, NodeLoss::Deleted);
        };
        let version = node.metadata.resource_version.parse().ok();
        // A watch may show what was before the cordon.
        if version >= seen.cordoned_in {
            seen.unavailable = node.spec.unschedulable || !node.is_ready();
        }
        let uid = seen.uid.get_or_insert_with(|| node.metadata.uid.clone());
        if *uid != node.metadata.uid {
            return self.leave(name, NodeLoss::Recreated);
        }
        if !node.spec.unschedulable {
            seen.schedulable_in = version;
            self.check_cordon(name);
        }
    }

    fn check_cordon(&mut self, node: &Str) {
        let Some(seen) = self.seen_nodes.get(node.as_str()) else {
            return;
        };
        let versions = seen.schedulable_in.zip(seen.cordoned_in);
        if versions.is_some_and(|(schedulable, cordoned)| schedulable > cordoned) {
            self.leave(node, NodeLoss::Uncordoned);
        }
    }

    /// Ends the drain of this node, and of no other.
    pub(super) fn leave(&mut self, node: &Str, loss: NodeLoss) {
        let Some(phase) = self.nodes.get_mut(node.as_str()) else {
            return;
        };
        let ended = match phase {
            NodePhase::Done => true,
            NodePhase::Left(before) => (*before, loss) != (NodeLoss::Deleted, NodeLoss::Recreated),
            _ => false,
        };
        if !ended {
            let had_turn = phase.has_turn() && loss != NodeLoss::CordonFailed;
            *phase = NodePhase::Left(loss);
            if had_turn {
                self.hold_place(node);
            }
            let node = node.clone();
            self.effects.push(Effect::Left { node, loss });
        }
    }

    /// Whether the node is not touched any more.
    pub(super) fn has_ended(&self, node: &str) -> bool {
        let phase = self.nodes.get(node);
        matches!(phase, Some(NodePhase::Done | NodePhase::Left(_)))
    }

    /// Nothing more becomes of the pods of nodes that were left, as far as no request of theirs is on
    /// its way.
    pub(super) fn settle_left_nodes(&mut self) {
        let left = |phase: &NodePhase| matches!(phase, NodePhase::Left(_));
        if !self.nodes.values().any(left) {
            return;
        }
        let mut ended: Vec<(Str, PodState)> = Vec::new();
        for tracked in self.pods.values() {
            let node = self.place(&tracked.pod);
            let Some(NodePhase::Left(loss)) = self.nodes.get(node) else {
                continue;
            };
            let state = &tracked.state;
            let state = match loss {
                _ if state.is_settled() || state.is_in_flight() => continue,
                NodeLoss::Deleted | NodeLoss::Recreated => PodState::Skipped(SkipReason::NodeGone),
                NodeLoss::Uncordoned if !matches!(state, PodState::Terminating { .. }) => {
                    PodState::Impossible(Unevictable::Uncordoned)
                }
                NodeLoss::Uncordoned
                | NodeLoss::CordonFailed
                | NodeLoss::TimedOut
                | NodeLoss::GateFailed => continue,
            };
            ended.push((tracked.pod.metadata.uid.clone(), state));
        }
        for (uid, state) in ended {
            self.set(&uid, state);
        }
    }
}
