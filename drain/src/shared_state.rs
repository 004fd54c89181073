//! What the drains of one process share: many at once are no larger load than one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nodelife_cluster::SharedWatches;
use nodelife_core::disruption::BudgetKey;
use nodelife_drain_plan::{EvictionResult, MAX_IN_FLIGHT, Throttle};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::executor::blocked::BudgetPods;
use crate::view::surroundings::{Shared, SharedPods};

/// How many drains are prepared at once: each reads what concerns its pods, and plans over all pods.
const MAX_PREPARED: usize = 2;

/// For how long a plan waits for those of other drains, which may hang.
const LONGEST_WAIT_TO_PREPARE: Duration = Duration::from_secs(30);

/// For how long an eviction waits for those of other drains, which may hang: what it was decided by may change.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct SharedState {
    pub(crate) watches: SharedWatches,
    pub(crate) pods: SharedPods,
    pub(crate) blocked: Shared<BudgetKey, BudgetPods>,
    plans: Semaphore,
    evictions: Semaphore,
    turns: Mutex<BTreeMap<BudgetKey, Arc<Turn>>>,
}

/// When the last eviction under a budget was sent, if it was refused, and the answer.
type Turn = tokio::sync::Mutex<Option<(Instant, EvictionResult)>>;

impl Default for SharedState {
    fn default() -> Self {
        Self {
            watches: SharedWatches::default(),
            pods: SharedPods::default(),
            blocked: Shared::default(),
            plans: Semaphore::new(MAX_PREPARED),
            evictions: Semaphore::new(MAX_IN_FLIGHT),
            turns: Mutex::default(),
        }
    }
}

impl SharedState {
    /// Waits until few others are prepared; held while this one is.
    pub(crate) async fn turn_to_prepare(&self) -> Option<SemaphorePermit<'_>> {
        let turn = timeout(LONGEST_WAIT_TO_PREPARE, self.plans.acquire()).await;
        turn.ok()?.ok()
    }

    /// Sends an eviction when those of other drains leave room. Of one budget one is sent at a time: of those
    /// that come at once the API server answers all but one with a conflict, after many seconds
    /// (`checkAndDecrement` of kubernetes:pkg/registry/core/pod/storage/eviction.go, v1.36.3). `budget`: the
    /// one that it takes from. If another was sent since and refused, the answer holds for this one, too.
    pub(crate) async fn in_turn(
        &self,
        budget: Option<BudgetKey>,
        send: impl Future<Output = EvictionResult>,
    ) -> EvictionResult {
        let asked = Instant::now();
        let turn = budget.map(|budget| self.turn(budget));
        let mut last = None;
        if let Some(turn) = &turn {
            let Ok(turn) = timeout(LONGEST_WAIT, turn.lock()).await else {
                // The node may have been uncordoned meanwhile: whether it is sent is decided again.
                return EvictionResult::Throttled {
                    by: Throttle::OtherDrains,
                    retry_after: Some(1),
                };
            };
            last = Some(turn);
        }
        if let Some((sent, refusal)) = last.as_deref().and_then(Option::as_ref)
            && *sent > asked
        {
            return refusal.clone();
        }
        let permit = timeout(LONGEST_WAIT, self.evictions.acquire()).await;
        let begun = Instant::now();
        let result = send.await;
        drop(permit);
        if let Some(last) = &mut last {
            let refused = matches!(result, EvictionResult::BudgetExhausted { .. });
            **last = refused.then(|| (begun, result.clone()));
        }
        result
    }

    fn turn(&self, budget: BudgetKey) -> Arc<Turn> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(budget).or_default())
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    fn budget(name: &str) -> BudgetKey {
        BudgetKey {
            namespace: "shop".into(),
            name: name.into(),
        }
    }

    /// A budget that allows `allowed` evictions; counts the requests, and those at the same time.
    #[derive(Default)]
    struct Server {
        allowed: Mutex<usize>,
        requests: Mutex<(usize, usize, usize)>,
    }

    impl Server {
        async fn evict(&self) -> EvictionResult {
            {
                let mut requests = self.requests.lock().unwrap();
                requests.0 += 1;
                requests.1 += 1;
                requests.2 = requests.2.max(requests.1);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            self.requests.lock().unwrap().1 -= 1;
            let mut allowed = self.allowed.lock().unwrap();
            if *allowed == 0 {
                let message = "no".to_owned();
                return EvictionResult::BudgetExhausted { message };
            }
            *allowed -= 1;
            EvictionResult::Accepted
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_budget_one_eviction_is_sent_at_a_time() {
        let (shared, server) = (SharedState::default(), Server::default());
        *server.allowed.lock().unwrap() = 3;
        let all = (0..40).map(|_| shared.in_turn(Some(budget("web")), server.evict()));
        let answers = join_all(all).await;
        let evicted = |answer: &&EvictionResult| matches!(answer, EvictionResult::Accepted);
        assert_eq!(answers.iter().filter(evicted).count(), 3);
        // The fourth was refused, and so were all that had waited for it.
        assert_eq!(*server.requests.lock().unwrap(), (4, 0, 1));
        *server.allowed.lock().unwrap() = 1;
        let later = shared.in_turn(Some(budget("web")), server.evict()).await;
        assert!(evicted(&&later), "{later:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn few_drains_are_prepared_at_once_and_none_waits_forever() {
        let shared = SharedState::default();
        let first = join_all((0..MAX_PREPARED).map(|_| shared.turn_to_prepare())).await;
        assert!(first.iter().all(Option::is_some));
        let asked = Instant::now();
        assert!(shared.turn_to_prepare().await.is_none());
        assert_eq!(asked.elapsed(), LONGEST_WAIT_TO_PREPARE);
        drop(first);
        assert!(shared.turn_to_prepare().await.is_some());
        assert_eq!(asked.elapsed(), LONGEST_WAIT_TO_PREPARE);
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_of_all_drains_have_one_limit_and_wait_for_no_other_budget() {
        let (shared, server) = (SharedState::default(), Server::default());
        let all = (0..200).map(|i| shared.in_turn(Some(budget(&i.to_string())), server.evict()));
        join_all(all).await;
        assert_eq!(*server.requests.lock().unwrap(), (200, 0, MAX_IN_FLIGHT));

        let hang = |i: usize| shared.in_turn(Some(budget(&i.to_string())), std::future::pending());
        let hang = join_all((0..MAX_IN_FLIGHT).map(hang));
        tokio::select! {
            _ = hang => unreachable!(),
            _ = shared.in_turn(Some(budget("web")), server.evict()) => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_eviction_that_has_waited_is_decided_again_and_not_sent() {
        let (shared, server) = (SharedState::default(), Server::default());
        let hangs = shared.in_turn(Some(budget("web")), std::future::pending());
        let asked = Instant::now();
        let later = async { shared.in_turn(Some(budget("web")), server.evict()).await };
        tokio::select! {
            biased;
            _ = hangs => unreachable!(),
            answer = later => {
                let is_not_sent = matches!(answer, EvictionResult::Throttled {
                    by: Throttle::OtherDrains, ..
                });
                assert!(is_not_sent, "{answer:?}");
            }
        }
        assert_eq!(asked.elapsed(), LONGEST_WAIT);
        assert_eq!(server.requests.lock().unwrap().0, 0);
    }
}
