//! Records every state of the pods and budgets in a test's namespace, in the order of storage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use nodelife_core::object::{Budget, Pod};
use nodelife_core::text::Str;
use nodelife_tests::{TestNamespace, until};
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

/// A pod that was Ready is lost.
enum Loss<'a> {
    /// The API server has noted in a budget that the pod is evicted: this decides, and the pod goes
    /// a moment later, whatever is written to the budget in between.
    Allowed(&'a Pod, &'a Budget),
    /// It is deleted, or it is not Ready any more.
    Went { pod: &'a Pod, is_deleted: bool },
    /// It went while the watch had lost its place: by whom, and what its budgets said, is not known.
    Unseen(&'a Pod),
}

impl<'a> Replay<'a> {
    fn apply(&mut self, sight: &'a Sight) -> Vec<Loss<'a>> {
        match sight {
            Sight::Budget(budget) => {
                let before = self.budgets.get(&*budget.metadata.name);
                let before = before.map(|before| before.budget);
                self.count(budget);
                let allowed = before.and_then(|before| self.newly_allowed(before, budget));
                return allowed.into_iter().collect();
            }
            Sight::BudgetGone(name) => {
                self.budgets.remove(name.as_str());
            }
            Sight::Budgets(all) => {
                let listed: BTreeSet<&str> = all.iter().map(|it| &*it.metadata.name).collect();
                self.budgets.retain(|name, _| listed.contains(name));
                for budget in all {
                    self.count(budget);
                }
            }
            Sight::Pods(all) => {
                let now = all.iter().map(|pod| (&*pod.metadata.uid, pod)).collect();
                let before = std::mem::replace(&mut self.pods, now);
                let left = |uid: &str| self.pods.get(uid).is_some_and(|pod| serves(pod));
                let lost = before
                    .into_iter()
                    .filter(|(uid, pod)| serves(pod) && !left(uid));
                return lost.map(|(_, pod)| Loss::Unseen(pod)).collect();
            }
            Sight::Pod(now) => {
                let before = self.pods.insert(&now.metadata.uid, now);
                let lost = before.filter(|before| serves(before) && !serves(now));
                let is_deleted = now.is_terminating();
                return lost
                    .map(|pod| Loss::Went { pod, is_deleted })
                    .into_iter()
                    .collect();
            }
            Sight::PodGone(uid) => {
                let before = self.pods.remove(uid.as_str());
                let lost = before.filter(|before| serves(before));
                let is_deleted = true;
                return lost
                    .map(|pod| Loss::Went { pod, is_deleted })
                    .into_iter()
                    .collect();
            }
        }
        Vec::new()
    }

    fn newly_allowed(&self, before: &Budget, budget: &'a Budget) -> Option<Loss<'a>> {
        let (name, _) = newly_disrupted(before, budget)?;
        let mut named = self.pods.values().filter(|pod| pod.metadata.name == *name);
        let pod = named.find(|pod| budget.selects(pod) && serves(pod))?;
        Some(Loss::Allowed(pod, budget))
    }

    fn count(&mut self, budget: &'a Budget) {
        let healthy = healthy(&self.pods, budget);
        let is_true = usize::try_from(budget.status.current_healthy).is_ok_and(|it| it <= healthy);
        let before = self.budgets.get(&*budget.metadata.name);
        let taken = before.map_or(0, |before| before.taken);
        let taken = if is_true { 0 } else { taken };
        let counted = Counted { budget, taken };
        self.budgets.insert(&budget.metadata.name, counted);
    }

    /// Why the loss of a pod by our eviction has left too few.
    fn too_few(&self, lost: &Pod, counted: &Counted<'_>) -> Option<String> {
        let Counted { budget, taken } = counted;
        let left = healthy(&self.pods, budget);
        let wanted = budget.status.desired_healthy;
        let is_kept = left + taken >= usize::try_from(wanted).unwrap_or(0);
        (!is_kept).then(|| {
            format!(
                "the eviction of {} left {left} Ready pods, {taken} were taken by others, and \
                 budget {} wants {wanted}",
                lost.metadata.name, budget.metadata.name
            )
        })
    }
}

/// The pod that the API server has added to those of which evictions were allowed.
fn newly_disrupted<'a>(before: &Budget, now: &'a Budget) -> Option<(&'a Str, &'a Timestamp)> {
    let (before, now) = (&before.status.disrupted_pods, &now.status.disrupted_pods);
    now.iter().find(|(name, at)| before.get(*name) != Some(at))
}

/// The first eviction of these pods that took a budget's Ready pods below what it wants.
fn broken<'a>(
    states: impl IntoIterator<Item = &'a Sight>,
    evicted: &BTreeSet<String>,
) -> Option<String> {
    let mut state = Replay::default();
    // By UID: their evictions were judged.
    let mut allowed = BTreeSet::new();
    let ours = |pod: &Pod| evicted.contains(&*pod.metadata.uid);
    for sight in states {
        for loss in state.apply(sight) {
            match loss {
                Loss::Allowed(pod, budget) => {
                    if ours(pod) {
                        allowed.insert(&*pod.metadata.uid);
                        let counted = &state.budgets[&*budget.metadata.name];
                        if let Some(why) = state.too_few(pod, counted) {
                            return Some(why);
                        }
                    }
                }
                Loss::Went { pod, .. } | Loss::Unseen(pod)
                    if allowed.contains(&*pod.metadata.uid) => {}
                Loss::Went { pod, is_deleted } if is_deleted && ours(pod) => {
                    let selecting = state.budgets.values();
                    let mut selecting = selecting.filter(|counted| counted.budget.selects(pod));
                    if let Some(why) = selecting.find_map(|it| state.too_few(pod, it)) {
                        return Some(why);
                    }
                }
                Loss::Unseen(pod) if ours(pod) => {}
                Loss::Went { pod, .. } | Loss::Unseen(pod) => {
                    for counted in state.budgets.values_mut() {
                        counted.taken += usize::from(is_healthy(pod, counted.budget));
                    }
                }
            }
        }
    }
    None
}

fn serves(pod: &Pod) -> bool {
    pod.is_ready() && !pod.is_terminating()
}

/// Whether the disruption controller counts it: pods whose evictions were allowed are gone for it
/// (v1.37.2, `pkg/controller/disruption/disruption.go`, `countHealthyPods`).
fn is_healthy(pod: &Pod, budget: &Budget) -> bool {
    let disrupted = &budget.status.disrupted_pods;
    budget.selects(pod) && serves(pod) && !disrupted.contains_key(&pod.metadata.name)
}

fn healthy(pods: &BTreeMap<&str, &Pod>, budget: &Budget) -> usize {
    pods.values().filter(|pod| is_healthy(pod, budget)).count()
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

    /// No eviction of these pods took a budget's Ready pods below what the budget wanted when it
    /// allowed the eviction: a Deployment that is scaled up a moment later wants more. Pods that
    /// somebody else took, as a rollout does, count as Ready until the disruption controller has
    /// counted without them: until then, the API server allows an eviction by the old count.
    pub(crate) async fn check(&self, namespace: &TestNamespace, evicted: &BTreeSet<String>) {
        self.catch_up(namespace).await;
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(broken(record.states.values(), evicted), None);
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

    /// Waits until all that is there now was seen.
    async fn catch_up(&self, namespace: &TestNamespace) {
        let (pods, budgets): (Api<ApiPod>, Api<PodDisruptionBudget>) =
            (namespace.api(), namespace.api());
        let all = ListParams::default();
        until("the watches of the test", async || {
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
        .await;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, is_deleted: bool) -> Sight {
        let deleted = is_deleted.then_some("2026-01-01T00:00:00Z");
        let pod = json!({
            "metadata": {
                "name": name, "uid": name, "labels": {"app": "web"}, "deletionTimestamp": deleted,
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        Sight::Pod(serde_json::from_value(pod).unwrap())
    }

    /// A budget that wants so many pods, counted so many, and allowed the evictions of these.
    fn budget(wanted: i32, counted: i32, disrupted: &[&str]) -> Sight {
        let times = disrupted.iter().map(|name| (*name, "2026-01-01T00:00:00Z"));
        let times: BTreeMap<&str, &str> = times.collect();
        let budget: Value = json!({
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {
                "desiredHealthy": wanted, "currentHealthy": counted, "disruptedPods": times,
            },
        });
        Sight::Budget(serde_json::from_value(budget).unwrap())
    }

    fn broken_by(evicted: &[&str], states: &[Sight]) -> Option<String> {
        let evicted = evicted.iter().map(|uid| (*uid).to_owned()).collect();
        broken(states, &evicted)
    }

    #[test]
    fn what_a_budget_wants_later_does_not_count() {
        let mut states = vec![pod("a", false), pod("b", false), budget(1, 2, &[])];
        states.extend([budget(1, 2, &["a"]), budget(3, 1, &["a"]), pod("a", true)]);
        assert_eq!(broken_by(&["a"], &states), None);
        // The same without the budget's leave.
        states.remove(3);
        states[3] = budget(3, 1, &[]);
        let why = broken_by(&["a"], &states).unwrap();
        assert!(why.contains("left 1 Ready pods, 0 were taken"), "{why}");
    }

    #[test]
    fn a_pod_that_others_took_counts_until_the_controller_has_counted() {
        let three = [pod("a", false), pod("b", false), pod("c", false)];
        let states = |counted_again: bool| {
            let mut states = three.to_vec();
            states.extend([budget(2, 3, &[]), pod("c", true)]);
            states.extend(counted_again.then(|| budget(2, 2, &[])));
            states.extend([budget(2, 3, &["a"]), pod("a", true)]);
            if counted_again {
                states[6] = budget(2, 2, &["a"]);
            }
            states
        };
        assert_eq!(broken_by(&["a"], &states(false)), None);
        let why = broken_by(&["a"], &states(true)).unwrap();
        assert!(why.contains("left 1 Ready pods, 0 were taken"), "{why}");
    }

    #[test]
    fn two_evictions_that_one_leave_covers_break_a_budget() {
        let mut states = vec![pod("a", false), pod("b", false), budget(1, 2, &[])];
        states.extend([budget(1, 2, &["a"]), pod("a", true), pod("b", true)]);
        let why = broken_by(&["a", "b"], &states).unwrap();
        assert!(why.contains("the eviction of b left 0"), "{why}");
    }

    #[test]
    fn what_others_took_while_a_watch_had_lost_its_place_counts_as_taken() {
        let mut states: Vec<Sight> = ["a", "b", "c"].map(|name| pod(name, false)).to_vec();
        states.push(budget(2, 3, &[]));
        let pods = states[..2].iter().flat_map(Sight::pods).cloned().collect();
        let Sight::Budget(listed) = &states[3] else {
            unreachable!()
        };
        let listed = Sight::Budgets(vec![*listed.clone()]);
        states.extend([Sight::Pods(pods), listed, budget(2, 3, &["a"])]);
        assert_eq!(broken_by(&["a"], &states), None);
        // What we took ourselves is nobody else's.
        let why = broken_by(&["a", "c"], &states).unwrap();
        assert!(why.contains("left 1 Ready pods, 0 were taken"), "{why}");
    }
}
