//! `Nodes`: the nodes of a drain, the phase of each, and which one comes next.
//!
//! It knows no pods. The machine says which nodes are empty and which only budgets hold up; what
//! has to be done comes back as [`Effect`]s.

mod between;
mod changes;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::event::Effect;
use crate::options::{DrainOptions, InUse, Share};
pub use between::Between;
use changes::SeenNode;
use nodelife_core::text::Str;
use turns::Turn;
pub(super) use turns::YIELD_AFTER;

/// How long after a list that failed the next one is due.
const RELIST: SignedDuration = SignedDuration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePhase {
    Waiting,
    Cordoning,
    Draining,
    /// Only budgets hold it up: others have their turn first. It stays cordoned.
    Yielded,
    /// Nothing is left, as far as the watch shows; a list is on its way.
    Confirming,
    /// The list failed, or a pod was foreseen to come back: the next list is due at this time.
    Unconfirmed(Timestamp),
    /// The list showed it; replacements or volumes are waited for.
    Settling,
    Done,
    Left(NodeLoss),
}

impl NodePhase {
    pub(super) fn has_turn(self) -> bool {
        !self.waits_for_turn() && !matches!(self, Self::Done | Self::Left(_))
    }

    fn waits_for_turn(self) -> bool {
        matches!(self, Self::Waiting | Self::Yielded)
    }

    fn takes_no_pods(self) -> bool {
        self.has_turn() || self == Self::Yielded
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeLoss {
    #[error("somebody uncordoned it; its pods are left alone")]
    Uncordoned,
    #[error("somebody deleted it")]
    Deleted,
    #[error("somebody deleted and re-created it; the new node is left alone")]
    Recreated,
    #[error("it could not be cordoned")]
    CordonFailed,
    #[error("its time ran out (--node-timeout)")]
    TimedOut,
    /// `--gate`: it gets no turn, or no other.
    #[error("the gate failed")]
    GateFailed,
}

impl NodeLoss {
    pub fn keeps_cordon(self) -> bool {
        matches!(self, Self::TimedOut | Self::GateFailed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    settings: Arc<DrainOptions>,
    share: Share,
    order: Vec<Str>,
    index: BTreeMap<Str, usize>,
    phases: BTreeMap<Str, NodePhase>,
    seen: BTreeMap<Str, SeenNode>,
    turns: BTreeMap<Str, Turn>,
    /// The nodes whose drain has ended, as long as they still count as being drained.
    between: BTreeMap<Str, Between>,
    /// The nodes that were last reported to be too many.
    told_unavailable: Vec<Str>,
    listed: BTreeSet<Str>,
    /// The number of the last request to list the pods of each, and of all.
    confirms: BTreeMap<Str, u64>,
    last_confirm: u64,
}

impl Nodes {
    pub(super) fn new(settings: Arc<DrainOptions>, order: Vec<Str>) -> Self {
        let phases = order.iter().map(|node| (node.clone(), NodePhase::Waiting));
        let ended = settings.earlier.ended.iter();
        let between = ended.map(|(node, at)| (node.clone(), Between::Soak(*at + settings.soak)));
        Self {
            between: between.collect(),
            settings,
            index: order.iter().cloned().zip(0..).collect(),
            phases: phases.collect(),
            order,
            ..Self::default()
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Str, NodePhase)> {
        let nodes = self.order.iter();
        nodes.filter_map(|node| Some((node, *self.phases.get(node.as_str())?)))
    }

    pub(super) fn in_phase(&self, phase: NodePhase) -> impl Iterator<Item = &Str> {
        let nodes = self.iter().filter(move |(_, is)| *is == phase);
        nodes.map(|(node, _)| node)
    }

    pub(super) fn phase(&self, node: &str) -> Option<NodePhase> {
        self.phases.get(node).copied()
    }

    pub(super) fn index_of(&self, node: &str) -> Option<usize> {
        self.index.get(node).copied()
    }

    /// Whether each node, by its position, is being drained.
    pub(super) fn draining(&self) -> Vec<bool> {
        let nodes = self.order.iter();
        nodes
            .map(|node| self.phase(node) == Some(NodePhase::Draining))
            .collect()
    }

    pub(super) fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    pub(super) fn in_use(&self) -> InUse {
        let emptied = self.phases.iter();
        let emptied = emptied.filter(|(_, phase)| phase.takes_no_pods());
        let emptied = emptied.map(|(node, _)| node);
        InUse {
            busy: emptied.chain(self.between.keys()).cloned().collect(),
            unavailable: self.unavailable().into_iter().cloned().collect(),
        }
    }

    pub(super) fn are_over(&self) -> bool {
        let nodes = self.phases.keys();
        nodes.into_iter().all(|node| self.has_ended(node))
    }

    pub(super) fn has_ended(&self, node: &str) -> bool {
        let phase = self.phase(node);
        matches!(phase, Some(NodePhase::Done | NodePhase::Left(_)))
    }

    pub(super) fn record_list(&mut self, node: Str) {
        self.listed.insert(node);
    }

    pub(super) fn is_listed(&self, node: &str) -> bool {
        self.listed.contains(node)
    }

    /// The nodes to list once more. `open`: by position, whether a node still has pods that have to go.
    pub(super) fn empty(&self, open: &[bool], now: Timestamp) -> Vec<Str> {
        let is_due = |node: &Str| match self.phase(node) {
            Some(NodePhase::Draining) => self.is_listed(node),
            Some(NodePhase::Unconfirmed(at)) => now >= at,
            _ => false,
        };
        let nodes = self.order.iter().zip(open);
        nodes
            .filter(|(node, open)| !**open && is_due(node))
            .map(|(node, _)| node.clone())
            .collect()
    }

    pub(super) fn request_confirm(&mut self, node: Str) -> Effect {
        self.phases.insert(node.clone(), NodePhase::Confirming);
        self.last_confirm += 1;
        let request = self.last_confirm;
        self.confirms.insert(node.clone(), request);
        Effect::Confirm { node, request }
    }

    pub(super) fn confirm_later(&mut self, node: Str, at: Timestamp) {
        self.phases.insert(node, NodePhase::Unconfirmed(at));
    }

    /// Whether a list is the one that was asked for last: an earlier one may not show the last pod.
    pub(super) fn is_confirmed_by(&self, node: &str, request: u64) -> bool {
        self.phase(node) == Some(NodePhase::Confirming) && self.confirms.get(node) == Some(&request)
    }

    #[cfg(test)]
    pub(super) fn last_request(&self, node: &str) -> u64 {
        self.confirms.get(node).copied().unwrap_or_default()
    }

    pub(super) fn confirm_failed(&mut self, node: &Str, now: Timestamp) {
        // A pod that came meanwhile has opened the node again.
        if self.phase(node) == Some(NodePhase::Confirming) {
            self.confirm_later(node.clone(), now + RELIST);
        }
    }

    pub(super) fn reopen(&mut self, node: &Str) {
        let phase = self.phase(node);
        if matches!(
            phase,
            Some(NodePhase::Confirming | NodePhase::Unconfirmed(_) | NodePhase::Settling)
        ) {
            self.phases.insert(node.clone(), NodePhase::Draining);
        }
    }

    pub(super) fn settle(&mut self, node: &Str) -> Effect {
        self.phases.insert(node.clone(), NodePhase::Settling);
        Effect::Awaits { node: node.clone() }
    }

    pub(super) fn finish(&mut self, node: &Str, now: Timestamp) -> Vec<Effect> {
        self.phases.insert(node.clone(), NodePhase::Done);
        let mut effects = vec![Effect::Done { node: node.clone() }];
        effects.extend(self.hold_slot(node, now));
        effects
    }

    pub(super) fn wake_times(&self) -> impl Iterator<Item = Timestamp> {
        let confirms = self.phases.values().filter_map(|phase| match phase {
            NodePhase::Unconfirmed(at) => Some(*at),
            _ => None,
        });
        confirms.chain(self.turn_ends()).chain(self.soak_ends())
    }

    /// The nodes whose turn comes: those that had none before the others. `stuck`: of those that
    /// made way, the ones that nothing can be done about now.
    pub(super) fn next(&self, stuck: &BTreeSet<Str>, now: Timestamp) -> Vec<Str> {
        let zone = |node: &Str| {
            let zone = self.settings.zones.get(node.as_str());
            zone.map_or("", Str::as_str)
        };
        let others = self.share.zones.iter();
        let mut busy_in: BTreeMap<&str, usize> =
            others.map(|(zone, busy)| (zone.as_str(), *busy)).collect();
        let having_turn = self.iter().filter(|(_, phase)| phase.has_turn());
        let having_turn = having_turn.map(|(node, _)| node);
        let mut busy = 0;
        for node in having_turn.chain(self.between.keys()) {
            busy += 1;
            *busy_in.entry(zone(node)).or_default() += 1;
        }
        let mut out = self.unavailable();
        let most_out = match self.max_unavailable() {
            // Until all were seen, it is not known how many are out.
            Some(_) if !self.order.iter().all(|node| self.seen.contains_key(node)) => 0,
            most => most.unwrap_or(usize::MAX),
        };
        let most = self.settings.max_per_zone.unwrap_or(usize::MAX).max(1);
        let mut next = Vec::new();
        let new = self.in_phase(NodePhase::Waiting);
        for node in new.chain(self.yielded(stuck, now)) {
            if busy >= self.settings.concurrency.max(1) {
                break;
            }
            if !out.contains(node) && out.len() >= most_out {
                continue;
            }
            let beside = busy_in.entry(zone(node)).or_default();
            if *beside < most {
                *beside += 1;
                busy += 1;
                out.insert(node);
                next.push(node.clone());
            }
        }
        next
    }

    pub(super) fn begin(&mut self, node: Str, now: Timestamp) -> Option<Effect> {
        self.begin_turn(&node, now);
        let is_new = self.phase(&node) == Some(NodePhase::Waiting);
        if self.settings.cordon_each && is_new {
            self.phases.insert(node.clone(), NodePhase::Cordoning);
            return Some(Effect::Cordon { node });
        }
        self.phases.insert(node, NodePhase::Draining);
        None
    }
}
