//! What is seen before a drain begins.

use std::time::{Duration, Instant};

use nodelife_cluster::ApiError;
use nodelife_core::disruption::Budgets;
use nodelife_core::drain::DrainEvent;
use nodelife_core::object::WorkloadKind;

use super::Scene;
use super::watches::{Sight, Watches};

impl Scene {
    /// Waits for the first list of each watch.
    pub(super) async fn see(&mut self, watches: &mut Watches) -> anyhow::Result<()> {
        let patience = Patience::new();
        let mut budgets_seen = false;
        while !budgets_seen || self.pods.len() < self.nodes.len() {
            match watches.next().await {
                Some(Sight::Event(event)) => budgets_seen |= self.take_in(event),
                Some(Sight::BudgetsUnseen(error)) => {
                    self.lose_budgets(&error);
                    budgets_seen = true;
                }
                // The watch tries again by itself.
                Some(Sight::Trouble { error, .. }) if patience.bears(&error) => {}
                // Nothing was done yet, so nothing is lost by ending here.
                Some(Sight::Trouble { error, .. }) => return Err(error.into()),
                None => anyhow::bail!("failed to watch the cluster"),
            }
        }
        Ok(())
    }

    /// Takes in what a watch showed; whether it was the list of the budgets.
    fn take_in(&mut self, event: DrainEvent) -> bool {
        match event {
            DrainEvent::Listed { node, pods } => {
                self.pods.insert(node, pods);
            }
            DrainEvent::Pod(pod) => {
                let pods = self.pods.entry(pod.spec.node_name.clone()).or_default();
                pods.retain(|known| known.metadata.uid != pod.metadata.uid);
                pods.push(*pod);
            }
            DrainEvent::PodGone { uid } => {
                for pods in self.pods.values_mut() {
                    pods.retain(|known| known.metadata.uid != uid);
                }
            }
            DrainEvent::Budgets(budgets) => {
                self.budgets = Budgets::of(budgets);
                self.unseen = None;
                return true;
            }
            DrainEvent::Budget(budget) => self.budgets.insert(*budget),
            DrainEvent::BudgetGone(key) => self.budgets.remove(&key),
            DrainEvent::Workload(workload) => self.owners.update(*workload),
            _ => {}
        }
        false
    }

    /// Waits for the first list of the controllers of this kind.
    pub(super) async fn see_kind(
        &mut self,
        watches: &mut Watches,
        wanted: WorkloadKind,
    ) -> anyhow::Result<Result<(), ApiError>> {
        let patience = Patience::new();
        loop {
            match watches.next().await {
                Some(Sight::Event(DrainEvent::Workloads { kind, workloads })) => {
                    self.owners.add_listed([kind], workloads);
                    if kind == wanted {
                        return Ok(Ok(()));
                    }
                }
                Some(Sight::Event(event)) => {
                    self.take_in(event);
                }
                Some(Sight::BudgetsUnseen(error)) => self.lose_budgets(&error),
                Some(Sight::Trouble { error, .. }) if patience.bears(&error) => {}
                Some(Sight::Trouble { what, error, .. }) if what == format!("the {wanted}s") => {
                    return Ok(Err(error));
                }
                // A kind that was told of before, and goes on to be tried.
                Some(Sight::Trouble {
                    essential: false, ..
                }) => {}
                Some(Sight::Trouble { error, .. }) => return Err(error.into()),
                None => anyhow::bail!("failed to watch the cluster"),
            }
        }
    }

    pub(super) fn lose_budgets(&mut self, why: &ApiError) {
        self.unseen.get_or_insert_with(|| why.to_string());
        self.budgets.lose();
    }
}

/// How long the first sight of something may be overdue.
struct Patience(Instant);

impl Patience {
    /// As long as a read is tried again: `Cluster::read`.
    fn new() -> Self {
        Self(Instant::now() + Duration::from_secs(30))
    }

    /// Whether this trouble may still pass.
    fn bears(&self, error: &ApiError) -> bool {
        error.is_transient() && Instant::now() < self.0
    }
}
