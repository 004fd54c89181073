//! Budgets that have blocked all evictions for ten seconds, and their unhealthy pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiResult, Cluster, listing};
use nodelife_core::disruption::{BudgetKey, BudgetRefusal};
use nodelife_core::object::{Budget, LabelSelector, Pod};
use nodelife_core::text::Str;
use tokio::task::JoinSet;

use super::requests::scheduling_messages;
use crate::shared_state::SharedState;

/// The budgets that let nothing go, and the lists of their pods; dropped, so cancelled, with the drain.
#[derive(Default)]
pub(super) struct BlockedBudgets {
    /// For which refusal the pods of a budget were read last, and when.
    asked: BTreeMap<BudgetKey, (BudgetRefusal, Timestamp)>,
    /// What was told last.
    pub(super) told: BTreeMap<BudgetKey, String>,
    /// What the scheduler says of pods that budgets lack, while these refuse evictions for the same reason.
    pub(super) unscheduled: Unscheduled,
    pending: JoinSet<Listed>,
}

pub(crate) type Unscheduled = BTreeMap<BudgetKey, (BudgetRefusal, String)>;

pub(super) type Listed = (BudgetKey, ApiResult<Arc<BudgetPods>>);

#[derive(Debug, Default)]
pub(crate) struct BudgetPods {
    pub(super) pods: Vec<Pod>,
    /// The scheduler's words on the first of those that wait for a node, by name.
    pub(super) pending: BTreeMap<Str, String>,
}

const MAX_PENDING: usize = 5;

/// How often the pods of a budget are read while it refuses for the same reason: a replacement may come late.
const ASK_EVERY: SignedDuration = SignedDuration::from_secs(60);

async fn pods_of(
    cluster: &Cluster,
    process: &SharedState,
    budget: &BudgetKey,
    selector: String,
) -> ApiResult<Arc<BudgetPods>> {
    let read = async {
        let filter = ListFilter {
            labels: Some(selector).filter(|selector| !selector.is_empty()),
            ..ListFilter::in_namespace(&budget.namespace)
        };
        let pods = cluster.items(&listing::PODS, &filter).await?;
        let pending = scheduling_messages(cluster, &pods, MAX_PENDING).await?;
        let by_name = pending
            .into_iter()
            .map(|(pod, words)| (pod.name.clone(), words));
        let pending = by_name.collect();
        Ok(BudgetPods { pods, pending })
    };
    process.blocked.share(budget.clone(), read).await
}

impl BlockedBudgets {
    /// Reads the pods that the budget selects, unless it was done for this refusal a moment ago.
    pub(super) fn ask(
        &mut self,
        (cluster, process): (&Cluster, &Arc<SharedState>),
        (budget, refusal): (&Budget, BudgetRefusal),
        now: Timestamp,
    ) {
        let last = self.asked.get(&budget.key());
        if last.is_some_and(|(of, at)| *of == refusal && now < *at + ASK_EVERY) {
            return;
        }
        self.asked.insert(budget.key(), (refusal, now));
        let (cluster, process) = (cluster.clone(), Arc::clone(process));
        let (selector, budget) = (budget.spec.selector.as_ref(), budget.key());
        let selector = selector.map(LabelSelector::to_string).unwrap_or_default();
        self.pending.spawn(async move {
            let pods = pods_of(&cluster, &process, &budget, selector).await;
            (budget, pods)
        });
    }

    /// The next list that came. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> Option<Listed> {
        loop {
            match self.pending.join_next().await? {
                Ok(pending) => return Some(pending),
                Err(error) => tracing::debug!(%error, "a list of pods was lost"),
            }
        }
    }
}
