//! The budgets that have let nothing go for a while, and the lists of their pods.

use std::collections::BTreeSet;

use nodelife_cluster::list::Selection;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::disruption::BudgetKey;
use nodelife_core::object::Pod;
use tokio::task::JoinSet;

/// The budgets that let nothing go, and the lists of their pods that are on their way; dropped,
/// and so cancelled, with the drain.
#[derive(Default)]
pub(super) struct Stalls {
    told: BTreeSet<BudgetKey>,
    asked: JoinSet<Asked>,
}

/// A budget, and the pods of its namespace.
pub(super) type Asked = (BudgetKey, Result<Vec<Pod>, ApiError>);

impl Stalls {
    /// Lists the pods of the budget's namespace, once for each budget.
    pub(super) fn ask(&mut self, cluster: Cluster, budget: BudgetKey) {
        if !self.told.insert(budget.clone()) {
            return;
        }
        self.asked.spawn(async move {
            let selection = Selection {
                namespace: Some(budget.namespace.to_string()),
                ..Selection::default()
            };
            let listed = cluster.list(&listing::PODS, &selection, |_| {}).await;
            (budget, listed.map(|listed| listed.items))
        });
    }

    /// The next list that came. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> Option<Asked> {
        loop {
            match self.asked.join_next().await? {
                Ok(asked) => return Some(asked),
                Err(error) => tracing::debug!(%error, "a list of pods was lost"),
            }
        }
    }
}
