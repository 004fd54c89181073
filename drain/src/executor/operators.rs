//! Reads, while pods are blocked, what their operators do about them.

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::object::Pod;
use nodelife_core::operator::{self, OperatorObjects};
use nodelife_drain_plan::{DrainMachine, PodState};
use tokio::task::JoinSet;

use crate::view::operators;

const ASK_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// How often: a switchover or a migration takes longer.
const EVERY: SignedDuration = SignedDuration::from_secs(15);

/// The reading that is on its way; dropped, and so cancelled, with the drain.
#[derive(Default)]
pub(super) struct OperatorReader {
    read_at: Option<Timestamp>,
    /// When it is looked whether a reading is due.
    pub(super) due: Option<Timestamp>,
    pending: JoinSet<OperatorObjects>,
}

impl OperatorReader {
    pub(super) fn read_if_due(
        &mut self,
        cluster: &Cluster,
        machine: &DrainMachine,
        now: Timestamp,
    ) {
        self.due = self.due_at(machine, now);
        if self.due.is_none_or(|at| now < at) {
            return;
        }
        self.due = None;
        self.read_at = Some(now);
        let sources = operator::sources(blocked(machine).map(|(_, pod)| pod));
        let cluster = cluster.clone();
        self.pending
            .spawn(async move { operators::read(&cluster, &sources, None).await });
    }

    fn due_at(&self, machine: &DrainMachine, now: Timestamp) -> Option<Timestamp> {
        if !self.pending.is_empty() {
            return None;
        }
        let again = self.read_at.map(|at| at + EVERY);
        if again.is_some_and(|again| now < again) {
            return again;
        }
        let since = blocked(machine).map(|(since, _)| since).min()?;
        Some(since + ASK_AFTER)
    }

    /// The next that was read. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> Option<OperatorObjects> {
        loop {
            match self.pending.join_next().await? {
                Ok(objects) => return Some(objects),
                Err(error) => tracing::debug!(%error, "what operators do was not read"),
            }
        }
    }
}

/// The blocked pods that an operator guards, and since when they are blocked.
fn blocked(machine: &DrainMachine) -> impl Iterator<Item = (Timestamp, &Pod)> {
    machine.pods().filter_map(|tracked| match &tracked.state {
        PodState::Blocked(blocked) if operator::is_guarded(&tracked.pod) => {
            Some((blocked.first, &tracked.pod))
        }
        _ => None,
    })
}
