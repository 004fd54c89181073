//! Budgets that have blocked all evictions for ten seconds, and their unhealthy pods.

use std::collections::BTreeSet;

use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::disruption::BudgetKey;
use nodelife_core::object::Pod;
use tokio::task::JoinSet;

/// The budgets that let nothing go, and the lists of their pods that are on their way; dropped,
/// and so cancelled, with the drain.
#[derive(Default)]
pub(super) struct BlockedBudgets {
    reported: BTreeSet<BudgetKey>,
    pending: JoinSet<BudgetPods>,
}

/// A budget, and the pods of its namespace.
pub(super) type BudgetPods = (BudgetKey, Result<Vec<Pod>, ApiError>);

impl BlockedBudgets {
    /// Lists the pods of the budget's namespace, once for each budget.
    pub(super) fn ask(&mut self, cluster: Cluster, budget: BudgetKey) {
        if !self.reported.insert(budget.clone()) {
            return;
        }
        self.pending.spawn(async move {
            let filter = ListFilter {
                namespace: Some(budget.namespace.to_string()),
                ..ListFilter::default()
            };
            let listed = cluster.list(&listing::PODS, &filter, |_| {}).await;
            (budget, listed.map(|listed| listed.items))
        });
    }

    /// The next list that came. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> Option<BudgetPods> {
        loop {
            match self.pending.join_next().await? {
                Ok(pending) => return Some(pending),
                Err(error) => tracing::debug!(%error, "a list of pods was lost"),
            }
        }
    }
}
