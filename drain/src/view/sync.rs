//! Initial sync of the view from watches.

use std::time::{Duration, Instant};

use nodelife_cluster::{ApiError, ApiResult};
use nodelife_core::object::WorkloadKind;
use nodelife_drain_plan::DrainEvent;

use super::ClusterView;
use super::watches::{WatchEvent, Watches};

/// How long the first sight of something may take, as long as a read is tried again: `Cluster::read`.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

impl ClusterView {
    /// Waits for the first list of each watch; `places`: of how many the pods are listed.
    pub(super) async fn wait_for_lists(
        &mut self,
        watches: &mut Watches,
        places: usize,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + SYNC_TIMEOUT;
        let mut budgets_seen = false;
        while !budgets_seen || self.pods.len() < places {
            match watches.next().await {
                Some(WatchEvent::Event(event)) => budgets_seen |= self.apply(event),
                Some(WatchEvent::BudgetsForbidden(error)) => {
                    self.budgets_unreadable(&error);
                    budgets_seen = true;
                }
                // Nodes are watched later.
                Some(WatchEvent::NodesForbidden(_)) => {}
                // The watch tries again by itself.
                Some(WatchEvent::Failed { error, .. }) if may_pass(&error, deadline) => {}
                // Nothing was done yet, so nothing is lost by ending here.
                Some(WatchEvent::Failed { error, .. }) => return Err(error.into()),
                None => anyhow::bail!("failed to watch the cluster"),
            }
        }
        Ok(())
    }

    pub(crate) fn take_in(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Event(event) => {
                self.apply(event);
            }
            WatchEvent::BudgetsForbidden(error) => self.budgets_unreadable(&error),
            // The watch tries again by itself.
            WatchEvent::NodesForbidden(_) | WatchEvent::Failed { .. } => {}
        }
    }

    /// Takes in what a watch showed; whether it was the list of the budgets.
    fn apply(&mut self, event: DrainEvent) -> bool {
        match event {
            DrainEvent::Listed { node, pods } => {
                self.pods.insert(node, pods);
            }
            DrainEvent::Pod(pod) => {
                let place = match self.namespace {
                    Some(_) => &pod.metadata.name,
                    None => &pod.spec.node_name,
                };
                let pods = self.pods.entry(place.clone()).or_default();
                pods.retain(|known| known.metadata.uid != pod.metadata.uid);
                pods.push(*pod);
            }
            DrainEvent::PodGone(uid) => {
                for pods in self.pods.values_mut() {
                    pods.retain(|known| known.metadata.uid != uid);
                }
            }
            other => {
                let listed = matches!(other, DrainEvent::Budgets(_));
                if listed {
                    self.budgets_unreadable = None;
                }
                self.store.apply(other);
                return listed;
            }
        }
        false
    }

    pub(super) async fn wait_for_kind(
        &mut self,
        watches: &mut Watches,
        wanted: WorkloadKind,
    ) -> anyhow::Result<ApiResult<()>> {
        let deadline = Instant::now() + SYNC_TIMEOUT;
        loop {
            match watches.next().await {
                Some(WatchEvent::Event(event)) => {
                    let listed =
                        matches!(&event, DrainEvent::Workloads { kind, .. } if *kind == wanted);
                    self.apply(event);
                    if listed {
                        return Ok(Ok(()));
                    }
                }
                Some(WatchEvent::BudgetsForbidden(error)) => self.budgets_unreadable(&error),
                Some(WatchEvent::Failed { error, .. }) if may_pass(&error, deadline) => {}
                Some(WatchEvent::Failed { what, error, .. }) if what == format!("{wanted}s") => {
                    return Ok(Err(error));
                }
                // A kind that was reported before, and is still retried.
                Some(
                    WatchEvent::NodesForbidden(_)
                    | WatchEvent::Failed {
                        essential: false, ..
                    },
                ) => {}
                Some(WatchEvent::Failed { error, .. }) => return Err(error.into()),
                None => anyhow::bail!("failed to watch the cluster"),
            }
        }
    }

    pub(super) fn budgets_unreadable(&mut self, why: &ApiError) {
        self.budgets_unreadable
            .get_or_insert_with(|| why.to_string());
        self.store.budgets.set_unreadable();
    }
}

/// Whether an error is waited out until the first sight of something is overdue.
fn may_pass(error: &ApiError, deadline: Instant) -> bool {
    error.is_transient() && Instant::now() < deadline
}
