//! Nodes that are cordoned, uncordoned, deleted or re-created while the drain runs.

use jiff::Timestamp;

use super::{NodeLoss, NodePhase, Nodes};
use crate::machine::event::Effect;
use nodelife_core::object::Node;
use nodelife_core::text::Str;

/// Identity and cordon of a node, to tell it from another of its name and from its state before.
#[derive(Debug, Default)]
pub(super) struct SeenNode {
    uid: Option<Str>,
    /// The version in which it was cordoned: a watch may show older ones later.
    cordoned_in: Option<u64>,
    /// The last version in which it was seen to be schedulable.
    schedulable_in: Option<u64>,
    pub(super) unavailable: bool,
}

impl Nodes {
    pub(crate) fn cordoned(&mut self, node: &Str, version: &str, now: Timestamp) -> Vec<Effect> {
        let seen = self.seen.entry(node.clone()).or_default();
        seen.cordoned_in = version.parse().ok();
        seen.unavailable = true;
        if self.phase(node) == Some(NodePhase::Cordoning) {
            self.phases.insert(node.clone(), NodePhase::Draining);
        }
        self.check_cordon(node, now)
    }

    /// A node as a watch or a read shows it; none if it is not there.
    pub(crate) fn node_seen(
        &mut self,
        name: &Str,
        found: Option<&Node>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let seen = self.seen.entry(name.clone()).or_default();
        let Some(node) = found else {
            seen.unavailable = false;
            return self.leave(name, NodeLoss::Deleted, now);
        };
        let version = node.metadata.resource_version.parse().ok();
        // A watch may show what was before the cordon.
        if version >= seen.cordoned_in {
            seen.unavailable = node.spec.unschedulable || !node.is_ready();
        }
        let uid = seen.uid.get_or_insert_with(|| node.metadata.uid.clone());
        if *uid != node.metadata.uid {
            return self.leave(name, NodeLoss::Recreated, now);
        }
        if node.spec.unschedulable {
            return Vec::new();
        }
        seen.schedulable_in = version;
        self.check_cordon(name, now)
    }

    fn check_cordon(&mut self, node: &Str, now: Timestamp) -> Vec<Effect> {
        let seen = self.seen.get(node.as_str());
        let versions = seen.and_then(|seen| seen.schedulable_in.zip(seen.cordoned_in));
        match versions {
            Some((schedulable, cordoned)) if schedulable > cordoned => {
                self.leave(node, NodeLoss::Uncordoned, now)
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn leave(&mut self, node: &Str, loss: NodeLoss, now: Timestamp) -> Vec<Effect> {
        let Some(phase) = self.phase(node) else {
            return Vec::new();
        };
        let ended = match phase {
            NodePhase::Done => true,
            NodePhase::Left(before) => (before, loss) != (NodeLoss::Deleted, NodeLoss::Recreated),
            _ => false,
        };
        if ended {
            return Vec::new();
        }
        self.phases.insert(node.clone(), NodePhase::Left(loss));
        let mut effects = Vec::new();
        if phase.has_turn() && loss != NodeLoss::CordonFailed {
            effects.extend(self.hold_slot(node, now));
        }
        let node = node.clone();
        effects.push(Effect::Left { node, loss });
        effects
    }
}
