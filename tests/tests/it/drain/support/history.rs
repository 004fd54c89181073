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
pub(in crate::drain) struct History {
    record: Arc<Mutex<Record>>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Record {
    /// By the version that each state got: etcd counts all writes together.
    states: BTreeMap<u64, Sight>,
    /// The version of each object that is there, by its UID.
    there: BTreeMap<String, String>,
    /// A watch lost its place, as one of an API server does that was started again: what
    /// happened then is not known.
    lost: bool,
}

#[derive(Clone, Debug)]
enum Sight {
    Pod(Box<Pod>),
    PodGone(String),
    Budget(Box<Budget>),
    BudgetGone(String),
}

impl History {
    /// Of a namespace in which nothing is yet.
    pub(in crate::drain) fn of(namespace: &TestNamespace) -> Self {
        let record = Arc::<Mutex<Record>>::default();
        let mut watches = JoinSet::new();
        let of_pod = |pod: ApiPod, gone: bool| {
            if gone {
                Sight::PodGone(pod.uid().unwrap())
            } else {
                Sight::Pod(Box::new(ours(&pod)))
            }
        };
        let of_budget = |budget: PodDisruptionBudget, gone: bool| {
            if gone {
                Sight::BudgetGone(budget.name_any())
            } else {
                Sight::Budget(Box::new(ours(&budget)))
            }
        };
        watches.spawn(follow::<ApiPod>(namespace.api(), record.clone(), of_pod));
        watches.spawn(follow::<PodDisruptionBudget>(
            namespace.api(),
            record.clone(),
            of_budget,
        ));
        Self {
            record,
            _watches: watches,
        }
    }

    /// No eviction of these pods took a budget's Ready pods below what the budget wants.
    pub(in crate::drain) async fn check(
        &self,
        namespace: &TestNamespace,
        evicted: &BTreeSet<String>,
    ) {
        self.catch_up(namespace).await;
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.lost {
            return;
        }
        let mut pods: BTreeMap<&str, &Pod> = BTreeMap::new();
        let mut budgets: BTreeMap<&str, &Budget> = BTreeMap::new();
        let serves = |pod: &Pod| pod.is_ready() && !pod.is_terminating();
        for sight in record.states.values() {
            let went = match sight {
                Sight::Budget(budget) => {
                    budgets.insert(&budget.metadata.name, budget);
                    continue;
                }
                Sight::BudgetGone(name) => {
                    budgets.remove(name.as_str());
                    continue;
                }
                Sight::Pod(pod) => {
                    let uid = pod.metadata.uid.as_str();
                    let before = pods.insert(uid, pod);
                    before.filter(|before| serves(before) && pod.is_terminating())
                }
                Sight::PodGone(uid) => {
                    let before = pods.remove(uid.as_str());
                    before.filter(|before| serves(before))
                }
            };
            let Some(pod) = went.filter(|pod| evicted.contains(pod.metadata.uid.as_str())) else {
                continue;
            };
            for budget in budgets.values().filter(|budget| budget.selects(pod)) {
                let left = pods.values().filter(|p| budget.selects(p) && serves(p));
                let (left, wanted) = (left.count(), budget.status.desired_healthy);
                assert!(
                    left >= usize::try_from(wanted).unwrap_or(0),
                    "the eviction of {} left {left} Ready pods, and budget {} wants {wanted}",
                    pod.metadata.name,
                    budget.metadata.name
                );
            }
        }
    }

    /// Waits until all that is there now was seen.
    async fn catch_up(&self, namespace: &TestNamespace) {
        let (pods, budgets): (Api<ApiPod>, Api<PodDisruptionBudget>) =
            (namespace.api(), namespace.api());
        let all = ListParams::default();
        wait_until("the watches of the test", TIMEOUT, async || {
            let pods = pods.list(&all).await?.items;
            let budgets = budgets.list(&all).await?.items;
            let there: BTreeMap<String, String> = pods
                .iter()
                .map(version)
                .chain(budgets.iter().map(version))
                .collect();
            let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((record.lost || record.there == there).then_some(()))
        })
        .await
        .unwrap();
    }
}

fn version<K: kube::Resource>(object: &K) -> (String, String) {
    let version = object.resource_version().unwrap_or_default();
    (object.uid().unwrap_or_default(), version)
}

/// The part of an object that the arithmetic reads.
fn ours<T: DeserializeOwned>(object: &impl Serialize) -> T {
    serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap()
}

async fn follow<K>(api: Api<K>, record: Arc<Mutex<Record>>, sight: fn(K, bool) -> Sight)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let note = |object: K, gone: bool| {
        let (uid, version) = version(&object);
        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let at = version.parse().unwrap();
        record.states.insert(at, sight(object, gone));
        if gone {
            record.there.remove(&uid);
        } else {
            record.there.insert(uid, version.clone());
        }
        version
    };
    let mut version = None;
    loop {
        if version.is_none() {
            let Ok(listed) = api.list(&ListParams::default()).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let at = listed.metadata.resource_version.unwrap_or_default();
            for object in listed.items {
                note(object, false);
            }
            version = Some(at);
        }
        let from = version.clone().unwrap_or_default();
        let watched = api.watch(&WatchParams::default(), &from).await;
        if let Ok(stream) = watched {
            let mut stream = stream.boxed();
            while let Ok(Some(event)) = stream.try_next().await {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        version = Some(note(object, false));
                    }
                    WatchEvent::Deleted(object) => version = Some(note(object, true)),
                    WatchEvent::Bookmark(mark) => version = Some(mark.metadata.resource_version),
                    WatchEvent::Error(_) => {
                        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
                        record.lost = true;
                        return;
                    }
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
