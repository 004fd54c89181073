//! Records every state of the pods and budgets in a test's namespace, in the order of storage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use nodelife_core::object::{Budget, Pod};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// Where a watch is taken up again after it ended or broke.
const PAUSE: Duration = Duration::from_millis(50);

/// A watch on the pods and one on the budgets of a namespace.
pub(crate) struct History {
    record: Arc<Mutex<Record>>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Record {
    /// By the version that each state got: etcd counts all writes together.
    states: BTreeMap<(u64, Order), Sight>,
    /// The version of each object that is there, by its kind and UID.
    there: BTreeMap<(String, String), String>,
}

/// A list has the version of the last write before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Write,
    PodList,
    BudgetList,
}

#[derive(Clone, Debug)]
enum Sight {
    Pod(Box<Pod>),
    PodGone(String),
    /// All pods that are there, listed when the watch began, or again after it had lost its place
    /// (as one of an API server does that was started again): what happened before is not known.
    Pods(Vec<Pod>),
    Budget(Box<Budget>),
    BudgetGone(String),
    Budgets(Vec<Budget>),
}

impl Sight {
    fn pods(&self) -> &[Pod] {
        match self {
            Self::Pod(pod) => std::slice::from_ref(pod),
            Self::Pods(all) => all,
            _ => &[],
        }
    }
}

/// How the states of a kind are recorded.
trait Recorded: Resource<DynamicType = ()> {
    const LIST: Order;
    fn state(&self) -> Sight;
    fn gone(&self) -> Sight;
    fn listed(all: &[Self]) -> Sight
    where
        Self: Sized;
}

impl Recorded for ApiPod {
    const LIST: Order = Order::PodList;

    fn state(&self) -> Sight {
        Sight::Pod(Box::new(ours(self)))
    }

    fn gone(&self) -> Sight {
        Sight::PodGone(self.uid().unwrap())
    }

    fn listed(all: &[Self]) -> Sight {
        Sight::Pods(all.iter().map(ours).collect())
    }
}

impl Recorded for PodDisruptionBudget {
    const LIST: Order = Order::BudgetList;

    fn state(&self) -> Sight {
        Sight::Budget(Box::new(ours(self)))
    }

    fn gone(&self) -> Sight {
        Sight::BudgetGone(self.name_any())
    }

    fn listed(all: &[Self]) -> Sight {
        Sight::Budgets(all.iter().map(ours).collect())
    }
}

/// What is there at one moment of a record.
#[derive(Default)]
struct Replay<'a> {
    pods: BTreeMap<&'a str, &'a Pod>,
    budgets: BTreeMap<&'a str, Counted<'a>>,
}

struct Counted<'a> {
    budget: &'a Budget,
    /// Pods that somebody else took since the status was last true.
    taken: usize,
}

impl<'a> Replay<'a> {
    /// Returns the pod that was Ready until now, and whether it is deleted.
    fn apply(&mut self, sight: &'a Sight) -> Option<(&'a Pod, bool)> {
        match sight {
            Sight::Budget(budget) => self.count(budget),
            Sight::BudgetGone(name) => {
                self.budgets.remove(name.as_str());
            }
            Sight::Budgets(all) => {
                self.budgets.clear();
                for budget in all {
                    self.count(budget);
                }
            }
            Sight::Pods(all) => {
                self.pods = all.iter().map(|pod| (&*pod.metadata.uid, pod)).collect();
            }
            Sight::Pod(pod) => {
                let before = self.pods.insert(&pod.metadata.uid, pod);
                let went = before.filter(|before| serves(before) && !serves(pod));
                return went.map(|went| (went, pod.is_terminating()));
            }
            Sight::PodGone(uid) => {
                let before = self.pods.remove(uid.as_str());
                let went = before.filter(|before| serves(before));
                return went.map(|went| (went, true));
            }
        }
        None
    }

    fn count(&mut self, budget: &'a Budget) {
        let ready = serving(&self.pods, budget);
        let is_true = usize::try_from(budget.status.current_healthy).is_ok_and(|it| it <= ready);
        let before = self.budgets.get(&*budget.metadata.name);
        let taken = before.map_or(0, |before| before.taken);
        let taken = if is_true { 0 } else { taken };
        let counted = Counted { budget, taken };
        self.budgets.insert(&budget.metadata.name, counted);
    }
}

fn serves(pod: &Pod) -> bool {
    pod.is_ready() && !pod.is_terminating()
}

fn serving(pods: &BTreeMap<&str, &Pod>, budget: &Budget) -> usize {
    let selected = pods.values().filter(|pod| budget.selects(pod));
    selected.filter(|pod| serves(pod)).count()
}

impl History {
    /// Of a namespace in which nothing is yet.
    pub(crate) fn of(namespace: &TestNamespace) -> Self {
        let record = Arc::<Mutex<Record>>::default();
        let mut watches = JoinSet::new();
        watches.spawn(follow::<ApiPod>(namespace.api(), record.clone()));
        watches.spawn(follow::<PodDisruptionBudget>(
            namespace.api(),
            record.clone(),
        ));
        Self {
            record,
            _watches: watches,
        }
    }

    /// No eviction of these pods took a budget's Ready pods below what the budget wants. Pods that
    /// somebody else took, as a rollout does, count as Ready until the disruption controller has
    /// counted without them: until then, the API server allows an eviction by the old count.
    pub(crate) async fn check(&self, namespace: &TestNamespace, evicted: &BTreeSet<String>) {
        self.catch_up(namespace).await;
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = Replay::default();
        for sight in record.states.values() {
            let Some((went, is_deleted)) = state.apply(sight) else {
                continue;
            };
            let is_ours = is_deleted && evicted.contains(went.metadata.uid.as_str());
            for counted in state.budgets.values_mut() {
                let budget = counted.budget;
                if !budget.selects(went) {
                    continue;
                }
                if !is_ours {
                    counted.taken += 1;
                    continue;
                }
                let left = serving(&state.pods, budget);
                let (taken, wanted) = (counted.taken, budget.status.desired_healthy);
                assert!(
                    left + taken >= usize::try_from(wanted).unwrap_or(0),
                    "the eviction of {} left {left} Ready pods, {taken} were taken by others, and \
                     budget {} wants {wanted}",
                    went.metadata.name,
                    budget.metadata.name
                );
            }
        }
    }

    /// The pods that were on one of these nodes at some time, by UID.
    pub(crate) async fn pods_on(
        &self,
        namespace: &TestNamespace,
        is_one: impl Fn(&str) -> bool,
    ) -> BTreeSet<String> {
        self.catch_up(namespace).await;
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let pods = record.states.values().flat_map(Sight::pods);
        let on = pods.filter(|pod| is_one(&pod.spec.node_name));
        on.map(|pod| pod.metadata.uid.to_string()).collect()
    }

    /// All pods that were there at some time, as they were last before their deletion, by UID.
    pub(crate) async fn pods(&self, namespace: &TestNamespace) -> BTreeMap<String, Pod> {
        self.catch_up(namespace).await;
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let pods = record.states.values().flat_map(Sight::pods);
        let undeleted = pods.filter(|pod| !pod.is_terminating());
        let by_uid = undeleted.map(|pod| (pod.metadata.uid.to_string(), pod.clone()));
        by_uid.collect()
    }

    /// Waits until all that is there now was seen.
    async fn catch_up(&self, namespace: &TestNamespace) {
        let (pods, budgets): (Api<ApiPod>, Api<PodDisruptionBudget>) =
            (namespace.api(), namespace.api());
        let all = ListParams::default();
        wait_until("the watches of the test", TIMEOUT, async || {
            let pods = pods.list(&all).await?.items;
            let budgets = budgets.list(&all).await?.items;
            let there: BTreeMap<(String, String), String> = pods
                .iter()
                .map(version)
                .chain(budgets.iter().map(version))
                .collect();
            let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((record.there == there).then_some(()))
        })
        .await
        .unwrap();
    }
}

fn version<K: Recorded>(object: &K) -> ((String, String), String) {
    let version = object.resource_version().unwrap_or_default();
    let uid = object.uid().unwrap_or_default();
    ((K::kind(&()).into_owned(), uid), version)
}

/// The part of an object that the arithmetic reads.
fn ours<T: DeserializeOwned>(object: &impl Serialize) -> T {
    serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()
}

async fn follow<K>(api: Api<K>, record: Arc<Mutex<Record>>)
where
    K: Recorded + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let record = || record.lock().unwrap_or_else(PoisonError::into_inner);
    let note = |object: &K, gone: bool| {
        let (key, version) = version(object);
        let mut record = record();
        let state = if gone { object.gone() } else { object.state() };
        let at = (version.parse().unwrap(), Order::Write);
        record.states.insert(at, state);
        if gone {
            record.there.remove(&key);
        } else {
            record.there.insert(key, version.clone());
        }
        version
    };
    let mut known: Option<String> = None;
    loop {
        let from = if let Some(version) = known.take() {
            version
        } else {
            let Ok(listed) = api.list(&ListParams::default()).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let at = listed.metadata.resource_version.unwrap_or_default();
            let mut record = record();
            let key = (at.parse().unwrap(), K::LIST);
            record.states.insert(key, K::listed(&listed.items));
            record.there.retain(|(kind, _), _| *kind != K::kind(&()));
            record.there.extend(listed.items.iter().map(version));
            at
        };
        known = Some(from.clone());
        if let Ok(stream) = api.watch(&WatchParams::default(), &from).await {
            let mut stream = stream.boxed();
            while let Ok(Some(event)) = stream.try_next().await {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        known = Some(note(&object, false));
                    }
                    WatchEvent::Deleted(object) => known = Some(note(&object, true)),
                    WatchEvent::Bookmark(mark) => known = Some(mark.metadata.resource_version),
                    WatchEvent::Error(_) => {
                        known = None;
                        break;
                    }
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
