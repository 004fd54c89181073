//! Reads, while pods are blocked, what their operators do about them.

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::object::Pod;
use nodelife_core::operator;
use nodelife_core::operator::{OperatorObjects, OperatorResource};
use nodelife_drain_plan::{Machine, PodState};
use tokio::task::JoinSet;

use crate::view::operators;

/// How long a pod is blocked before its operator is asked.
const ASK_AFTER: SignedDuration = SignedDuration::from_secs(5);

/// How often: a switchover or a migration takes longer.
const EVERY: SignedDuration = SignedDuration::from_secs(15);

/// The reading that is on its way; dropped, and so cancelled, with the drain.
#[derive(Default)]
pub(super) struct OperatorReader {
    read_at: Option<Timestamp>,
    due: Option<Timestamp>,
    /// The API server does not serve the `EvictionRequest` API: only operators are asked.
    without_requests: bool,
    pending: JoinSet<OperatorObjects>,
}

impl OperatorReader {
    /// When it is looked whether a reading is due.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.due
    }

    pub(super) fn read_if_due(&mut self, cluster: &Cluster, machine: &Machine, now: Timestamp) {
        self.due = self.due_at(machine, now);
        if self.due.is_none_or(|at| now < at) {
            return;
        }
        self.due = None;
        self.read_at = Some(now);
        let blocked = || self.blocked(machine).map(|(_, pod)| pod);
        let mut sources = operator::sources(blocked());
        if !self.without_requests {
            let namespaces = blocked().map(|pod| pod.metadata.namespace.clone());
            sources.extend(namespaces.map(|namespace| (OperatorResource::Evictions, namespace)));
        }
        let cluster = cluster.clone();
        self.pending
            .spawn(async move { operators::read(&cluster, &sources, None).await });
    }

    fn due_at(&self, machine: &Machine, now: Timestamp) -> Option<Timestamp> {
        if !self.pending.is_empty() {
            return None;
        }
        let again = self.read_at.map(|at| at + EVERY);
        if again.is_some_and(|again| now < again) {
            return again;
        }
        let since = self.blocked(machine).map(|(since, _)| since).min()?;
        Some(since + ASK_AFTER)
    }

    /// The blocked pods of which somebody else may tell more, and since when they are.
    fn blocked<'a>(&self, machine: &'a Machine) -> impl Iterator<Item = (Timestamp, &'a Pod)> {
        let only_guarded = self.without_requests;
        machine
            .pods()
            .filter_map(move |tracked| match &tracked.state {
                PodState::Blocked(blocked)
                    if !only_guarded || operator::is_guarded(&tracked.pod) =>
                {
                    Some((blocked.first, &tracked.pod))
                }
                _ => None,
            })
    }

    /// The next that was read. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> Option<OperatorObjects> {
        loop {
            match self.pending.join_next().await? {
                Ok(objects) => {
                    self.without_requests |= !objects.has(OperatorResource::Evictions);
                    return Some(objects);
                }
                Err(error) => tracing::debug!(%error, "what operators do was not read"),
            }
        }
    }
}
