//! Budgets that have blocked all evictions for ten seconds, and their unhealthy pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::disruption::{BudgetKey, BudgetRefusal};
use nodelife_core::object::Pod;
use nodelife_core::text::Str;
use tokio::task::JoinSet;

use crate::shared_state::SharedState;

use super::requests::scheduling_messages;

/// The budgets that let nothing go, and the lists of their pods that are on their way; dropped,
/// and so cancelled, with the drain.
#[derive(Default)]
pub(super) struct BlockedBudgets {
    reported: BTreeSet<BudgetKey>,
    /// What the scheduler says of pods that budgets lack, while these refuse evictions for the same reason.
    pub(super) unscheduled: Unscheduled,
    pending: JoinSet<BudgetPods>,
}

pub(crate) type Unscheduled = BTreeMap<BudgetKey, (BudgetRefusal, String)>;

pub(super) type BudgetPods = (BudgetKey, Result<Arc<NamespacePods>, ApiError>);

#[derive(Debug, Default)]
pub(crate) struct NamespacePods {
    pub(super) pods: Arc<Vec<Pod>>,
    /// The scheduler's words on the first of those that wait for a node, by name.
    pub(super) pending: BTreeMap<Str, String>,
}

/// Of how many pods the scheduler's words are read.
const MAX_PENDING: usize = 10;

async fn pods_of(
    cluster: &Cluster,
    process: &SharedState,
    namespace: &Str,
) -> Result<Arc<NamespacePods>, ApiError> {
    let read = async {
        let pods = process.pods.of(cluster, namespace).await?;
        let pending = scheduling_messages(cluster, &pods, MAX_PENDING).await?;
        let by_name = pending
            .into_iter()
            .map(|(pod, words)| (pod.name.clone(), words));
        let pending = by_name.collect();
        Ok(NamespacePods { pods, pending })
    };
    process.blocked.share(namespace.clone(), read).await
}

impl BlockedBudgets {
    /// Reads the pods of the budget's namespace, once for each budget.
    pub(super) fn ask(&mut self, cluster: Cluster, process: Arc<SharedState>, budget: BudgetKey) {
        if !self.reported.insert(budget.clone()) {
            return;
        }
        self.pending.spawn(async move {
            let pods = pods_of(&cluster, &process, &budget.namespace).await;
            (budget, pods)
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
