//! `--evict-daemonsets`: pods of DaemonSets, evicted once when all others have gone.
//!
//! Their controllers bring them back at once, since they tolerate the cordon. Who evicts them all
//! the same wants them to stop in order: before the machine does, and after the pods that they serve.

use super::Machine;
use super::state::{Outcome, PodState};
use crate::verdict::SkipReason;
use nodelife_core::text::Str;

impl Machine {
    /// Lets the DaemonSet pods of an empty node go, once; whether there are any.
    pub(super) fn release_daemon_sets(&mut self, node: &Str) -> bool {
        let is_empty = |t: &super::Tracked| t.outcome() <= Outcome::Skipped;
        if self.released.contains(node) || !self.pods_on(node).all(is_empty) {
            return false;
        }
        let last = PodState::Skipped(SkipReason::DaemonSetLast);
        let pods = self.pods_on(node);
        let pods = pods.filter(|t| t.state == last && !t.pod.is_terminating());
        let uids: Vec<Str> = pods.map(|t| t.pod.metadata.uid.clone()).collect();
        self.released.insert(node.clone());
        for uid in &uids {
            self.set(uid, PodState::Waiting);
        }
        !uids.is_empty()
    }
}
