//! Compares what the policy drainSafety tells at the last write of a set of workloads, autoscalers and
//! budgets with what the API server and the disruption controller then do at each scale of these.

use std::ops::RangeInclusive;

use futures::stream::{self, StreamExt as _};
use kube::Client;
use nodelife_tests::{ControlPlane, Part, TIMEOUT, seed, wait_until};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use serde_json::{Value, json};

use super::Call;
use super::drain_safety::installed;
use super::peers::PEERS;
use crate::oracle::scale::every_scale;

/// Sets that are written and scaled at a time.
const AT_ONCE: usize = 12;
const TOLD: &str = "nodelife drainSafety: ";

/// A namespace, and the order in which its objects are written.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) groups: Vec<Group>,
    pub(super) budgets: Vec<Budget>,
    /// Whether one budget selects the pods of a DaemonSet too.
    daemons: bool,
    last: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) resource: &'static str,
    pub(super) replicas: i32,
    /// The range of its autoscaler.
    pub(super) range: Option<(i32, i32)>,
}

impl Group {
    fn scales(&self) -> RangeInclusive<i32> {
        let (least, most) = self.range.unwrap_or((self.replicas, self.replicas));
        least..=most
    }
}

#[derive(Clone, Debug)]
pub(super) struct Budget {
    /// `minAvailable` or `maxUnavailable`, if one of them is set.
    pub(super) amount: Option<(&'static str, Value)>,
    /// The groups whose pods it selects.
    pub(super) groups: Vec<usize>,
    selector: Value,
    /// Whether a custom resource owns it.
    owned: bool,
}

impl Budget {
    fn object(&self, name: &str) -> Value {
        let mut spec = json!({"selector": self.selector});
        if let Some((field, value)) = &self.amount {
            spec[field] = value.clone();
        }
        let mut metadata = json!({"name": name});
        if self.owned {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db", "uid": "db",
                "controller": true,
            }]);
        }
        json!({"metadata": metadata, "spec": spec})
    }
}

fn sets() -> impl Strategy<Value = Set> {
    let value = prop_oneof![
        2 => (0..6i32).prop_map(|number| json!(number)),
        2 => (0..=100i32).prop_map(|percent| json!(format!("{percent}%"))),
        1 => select(vec!["0%", "1%", "50%", "99%", "100%"]).prop_map(|text| json!(text)),
    ];
    let amount = prop_oneof![
        20 => (select(vec!["minAvailable", "maxUnavailable"]), value).prop_map(Some),
        1 => Just(None),
    ];
    let range = (1..5i32, 0..4i32).prop_map(|(least, more)| (least, least + more));
    let group = (
        select(vec!["deployments", "statefulsets"]),
        1..6i32,
        prop::option::weighted(0.6, range),
    )
        .prop_map(|(resource, replicas, range)| Group {
            resource,
            replicas,
            range,
        });
    let groups = prop_oneof![
        3 => prop::collection::vec(group.clone(), 1),
        1 => prop::collection::vec(group, 2),
    ];
    let budget = (amount, 0..3usize, prop::bool::weighted(0.05));
    let budgets = prop_oneof![
        6 => prop::collection::vec(budget.clone(), 1),
        1 => prop::collection::vec(budget, 2),
    ];
    (groups, budgets, prop::bool::weighted(0.05), 0..100usize).prop_map(
        |(groups, budgets, daemons, last)| {
            let is_one = budgets.len() == 1;
            let budgets = budgets.into_iter().map(|(amount, selector, owned)| {
                let all = || (0..groups.len()).collect();
                let (groups, selector) = match selector {
                    0 if groups.len() == 1 => (all(), json!({"matchLabels": {"app": "app-0"}})),
                    0 => (vec![1], json!({"matchLabels": {"app": "app-1"}})),
                    1 => (all(), json!({"matchLabels": {"tier": "web"}})),
                    _ => (all(), json!({})),
                };
                Budget {
                    amount,
                    groups,
                    selector,
                    owned: owned && is_one,
                }
            });
            let budgets: Vec<Budget> = budgets.collect();
            // How many pods a DaemonSet has is known to no write, and counts in a number alone.
            let selects = |budget: &Budget| {
                let amount = budget.amount.as_ref();
                let counts =
                    |(field, value): &(&str, Value)| *field == "minAvailable" && value.is_number();
                budget.selector == json!({}) && amount.is_some_and(|amount| !counts(amount))
            };
            let daemons = daemons && is_one && budgets.iter().all(selects);
            Set {
                groups,
                budgets,
                daemons,
                last,
            }
        },
    )
}

/// What an object that is written is, or is about.
#[derive(Clone, Copy, Debug)]
enum About {
    Group(usize),
    Budget(usize),
    Daemons,
}

struct Outcome {
    last: About,
    /// What is said at the last write.
    told: Vec<String>,
    /// The budgets that allow nothing at some scale.
    refuses: Vec<bool>,
    scales: usize,
}

/// A namespace of the API server with the objects of a set.
struct World<'a> {
    set: &'a Set,
    client: &'a Client,
    name: String,
}

impl World<'_> {
    fn path(&self, group: &str, rest: &str) -> String {
        let root = if group == "v1" { "/api" } else { "/apis" };
        format!("{root}/{group}/namespaces/{}/{rest}", self.name)
    }

    /// The warnings of the policy, where the answer is a success.
    async fn send(&self, call: Call) -> (Vec<String>, Value) {
        let answer = call.send(self.client).await.unwrap();
        assert!(answer.code < 300, "{call:?}: {answer:?}");
        let told = answer.warnings.into_iter();
        (
            told.filter(|text| text.contains(TOLD)).collect(),
            answer.body,
        )
    }

    async fn post(&self, group: &str, resource: &str, object: Value) -> (Vec<String>, Value) {
        self.send(Call::new("POST", self.path(group, resource), object))
            .await
    }

    /// API group, resource and object, in an order in which each may be written.
    fn objects(&self) -> Vec<(About, &'static str, &'static str, Value)> {
        let mut objects = Vec::new();
        for (i, group) in self.set.groups.iter().enumerate() {
            let (name, labels) = (format!("app-{i}"), labels(i));
            let spec = json!({
                "replicas": group.replicas, "selector": {"matchLabels": {"app": name}},
                "serviceName": name, "template": template(&labels),
            });
            let object = json!({"metadata": {"name": name}, "spec": spec});
            objects.push((About::Group(i), "apps/v1", group.resource, object));
            if let Some((least, most)) = group.range {
                let kind = match group.resource {
                    "deployments" => "Deployment",
                    _ => "StatefulSet",
                };
                let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": name});
                let spec = json!({"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most,
                    "metrics": [{"type": "Resource", "resource":
                        {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]});
                let object = json!({"metadata": {"name": name}, "spec": spec});
                objects.push((
                    About::Group(i),
                    "autoscaling/v2",
                    "horizontalpodautoscalers",
                    object,
                ));
            }
        }
        if self.set.daemons {
            let labels = json!({"app": "agent"});
            let spec = json!({"selector": {"matchLabels": labels}, "template": template(&labels)});
            let object = json!({"metadata": {"name": "agent"}, "spec": spec});
            objects.push((About::Daemons, "apps/v1", "daemonsets", object));
        }
        for (i, budget) in self.set.budgets.iter().enumerate() {
            let object = budget.object(&format!("guard-{i}"));
            objects.push((
                About::Budget(i),
                "policy/v1",
                "poddisruptionbudgets",
                object,
            ));
        }
        objects
    }

    /// Writes all objects, and says which was the last and what was told then.
    async fn write(&self) -> (About, Vec<String>) {
        let namespace = json!({"metadata": {"name": self.name}});
        let call = Call::new("POST", "/api/v1/namespaces", namespace);
        self.send(call).await;
        let mut objects = self.objects();
        // That of a DaemonSet is sent to nobody.
        let mut last = self.set.last % objects.len();
        while matches!(objects[last].0, About::Daemons) {
            last = (last + 1) % objects.len();
        }
        let last = objects.remove(last);
        objects.push(last);
        let mut last = (About::Daemons, Vec::new());
        for (about, group, resource, object) in objects {
            last = (about, self.post(group, resource, object).await.0);
        }
        last
    }

    /// The owner of a group's pods.
    async fn owner(&self, i: usize) -> Value {
        let name = format!("app-{i}");
        let resource = self.set.groups[i].resource;
        let path = self.path("apps/v1", &format!("{resource}/{name}"));
        let (_, object) = self.send(Call::new("GET", path, Value::Null)).await;
        let owner = |kind: &str, object: &Value| {
            let uid = &object["metadata"]["uid"];
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}])
        };
        if resource == "statefulsets" {
            return owner("StatefulSet", &object);
        }
        let labels = labels(i);
        let replica_set = json!({
            "metadata": {"name": name, "ownerReferences": owner("Deployment", &object)},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template(&labels)},
        });
        let (_, made) = self.post("apps/v1", "replicasets", replica_set).await;
        owner("ReplicaSet", &made)
    }

    async fn ready_pod(&self, name: &str, labels: &Value, owner: &Value) {
        let pod = json!({
            "metadata": {"name": name, "labels": labels, "ownerReferences": owner},
            "spec": template(labels)["spec"],
        });
        self.post("v1", "pods", pod).await;
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"status": {"phase": "Running", "conditions": ready}});
        let path = self.path("v1", &format!("pods/{name}/status"));
        self.send(Call::patch(path, status)).await;
    }

    /// Scales a group as its autoscaler does, and has so many Ready pods.
    async fn scale(&self, i: usize, owner: &Value, from: i32, to: i32) {
        const AUTOSCALER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";
        let resource = self.set.groups[i].resource;
        let path = self.path("apps/v1", &format!("{resource}/app-{i}/scale"));
        let call = Call::patch(path, json!({"spec": {"replicas": to}}));
        let (told, _) = self
            .send(call.by_user(AUTOSCALER, &["system:masters"]))
            .await;
        assert!(told.is_empty(), "{told:?}");
        for pod in from..to {
            self.ready_pod(&format!("app-{i}-{pod}"), &labels(i), owner)
                .await;
        }
        for pod in to..from {
            let path = self.path("v1", &format!("pods/app-{i}-{pod}?gracePeriodSeconds=0"));
            self.send(Call::new("DELETE", path, Value::Null)).await;
        }
    }

    /// The budgets that allow nothing at these scales: by their status and by the API server, which
    /// have to agree.
    async fn refuses(&self, scales: &[i32]) -> Vec<bool> {
        let mut refuses = Vec::new();
        for (i, budget) in self.set.budgets.iter().enumerate() {
            refuses.push(self.counted(i, budget, scales).await == 0);
        }
        for i in 0..scales.len() {
            let expected = match &self.set.over(i)[..] {
                [budget] if refuses[*budget] => 429,
                [] | [_] => 201,
                _ => 500,
            };
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": format!("app-{i}-0")},
                "deleteOptions": {"dryRun": ["All"]},
            });
            let path = self.path("v1", &format!("pods/app-{i}-0/eviction?dryRun=All"));
            let call = Call::new("POST", path, eviction);
            let answer = call.send(self.client).await.unwrap();
            assert_eq!(
                answer.code, expected,
                "{:?} at {scales:?}: {answer:?}",
                self.set
            );
        }
        refuses
    }

    /// What the disruption controller allows when it has counted these pods.
    async fn counted(&self, i: usize, budget: &Budget, scales: &[i32]) -> i64 {
        let path = self.path("policy/v1", &format!("poddisruptionbudgets/guard-{i}"));
        let healthy: i32 = budget.groups.iter().map(|i| scales[*i]).sum();
        let expected = budget.amount.as_ref().map_or(0, |_| healthy);
        let what = format!("{path} to count {healthy}");
        let mut poll = 0;
        wait_until(&what, TIMEOUT, async || {
            // It counts at events of pods alone, which may come before that of a new scale, and of
            // several budgets over a pod they reach one (`getPdbForPod` of
            // pkg/controller/disruption/disruption.go, v1.37.2).
            if poll > 0 || self.set.budgets.len() > 1 {
                let touched = json!({"metadata": {"annotations": {"poll": poll.to_string()}}});
                self.send(Call::patch(path.clone(), touched)).await;
            }
            poll += 1;
            let (_, object) = self.send(Call::new("GET", path.clone(), Value::Null)).await;
            let status = &object["status"];
            let reason = status["conditions"][0]["reason"].as_str();
            let fails = self.set.daemons;
            let is_counted = status["observedGeneration"] == object["metadata"]["generation"]
                && status["currentHealthy"] == healthy
                && status["expectedPods"] == expected;
            let is_done = if fails {
                reason == Some("SyncFailed")
            } else {
                is_counted
            };
            Ok(is_done.then(|| status["disruptionsAllowed"].as_i64().unwrap_or(0)))
        })
        .await
        .unwrap()
    }

    async fn outcome(&self) -> Outcome {
        let (last, told) = self.write().await;
        let mut owners = Vec::new();
        for i in 0..self.set.groups.len() {
            owners.push(self.owner(i).await);
        }
        if self.set.daemons {
            let path = self.path("apps/v1", "daemonsets/agent");
            let (_, object) = self.send(Call::new("GET", path, Value::Null)).await;
            let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
                "uid": object["metadata"]["uid"], "controller": true}]);
            self.ready_pod("agent-0", &json!({"app": "agent"}), &owner)
                .await;
        }
        let mut present = vec![0; owners.len()];
        let mut refuses = vec![false; self.set.budgets.len()];
        let all = every_scale(self.set.groups.iter().map(Group::scales));
        for scales in &all {
            for (i, (owner, to)) in owners.iter().zip(scales).enumerate() {
                if present[i] != *to {
                    self.scale(i, owner, present[i], *to).await;
                    present[i] = *to;
                }
            }
            let more = self.refuses(scales).await;
            refuses
                .iter_mut()
                .zip(more)
                .for_each(|(one, more)| *one |= more);
        }
        Outcome {
            last,
            told,
            refuses,
            scales: all.len(),
        }
    }
}

impl Set {
    /// The budgets over the pods of a group.
    fn over(&self, group: usize) -> Vec<usize> {
        let budgets = self.budgets.iter().enumerate();
        let over = budgets.filter(|(_, budget)| budget.groups.contains(&group));
        over.map(|(i, _)| i).collect()
    }

    /// Whether pods of a group, or of a budget, can be evicted at no time or not at some scale.
    fn is_refused(&self, about: About, refuses: &[bool]) -> bool {
        let is_several = |group: usize| self.over(group).len() > 1;
        match about {
            About::Daemons => false,
            About::Group(i) => is_several(i) || self.over(i).iter().any(|budget| refuses[*budget]),
            About::Budget(i) => refuses[i] || self.budgets[i].groups.iter().any(|i| is_several(*i)),
        }
    }
}

fn labels(group: usize) -> Value {
    json!({"app": format!("app-{group}"), "tier": "web"})
}

fn template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {
        "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn a_write_is_told_of_exactly_where_a_scale_allows_no_eviction() {
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .controller_manager_flag("--controllers=disruption-controller")
        .controller_manager_flag("--kube-api-qps=1000")
        .controller_manager_flag("--kube-api-burst=2000")
        .without_admission("ServiceAccount")
        .start()
        .await
        .unwrap();
    let (_installation, _replica) = installed(&plane).await;
    let client = plane.admin().await.unwrap();
    wait_until("the webhook to be called", TIMEOUT, async || {
        let budget = json!({"metadata": {"name": "probe"}, "spec": {"maxUnavailable": 0}});
        let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let answer = Call::new("POST", path, budget).dry().send(&client).await?;
        Ok((!answer.warnings.is_empty()).then_some(()))
    })
    .await
    .unwrap();

    let count = seed::number("NODELIFE_CASES", 24, 60);
    let strategy = sets();
    let mut runner = seed::runner();
    let sets: Vec<Set> = (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect();
    let outcomes = sets.iter().enumerate().map(|(i, set)| {
        let name = format!("set-{i}");
        let world = World {
            set,
            client: &client,
            name,
        };
        async move { world.outcome().await }
    });
    let outcomes: Vec<Outcome> = stream::iter(outcomes).buffered(AT_ONCE).collect().await;
    let mut differences = Vec::new();
    let mut counts = [0; 2];
    let mut scores = vec![[0; 4]; PEERS.len()];
    for (set, outcome) in sets.iter().zip(&outcomes) {
        // The operator of its owner may lift it.
        let is_owned = set.budgets.iter().any(|budget| budget.owned);
        let is_refused = |about| set.is_refused(about, &outcome.refuses);
        let expected = is_refused(outcome.last) && !is_owned;
        let anywhere = (0..set.groups.len()).any(|i| is_refused(About::Group(i)));
        counts[usize::from(expected)] += 1;
        if expected == outcome.told.is_empty() {
            differences.push(format!(
                "{set:?}, {:?} last: {:?}, not {expected}",
                outcome.last, outcome.told
            ));
        }
        if !is_owned {
            for ((_, tells), score) in PEERS.iter().zip(&mut scores) {
                score[usize::from(tells(set)) * 2 + usize::from(anywhere)] += 1;
            }
        }
    }
    let scales: usize = outcomes.iter().map(|outcome| outcome.scales).sum();
    println!("{count} sets at {scales} scales: {counts:?} (silent, told)");
    println!("condition: silent and right, missed, told wrongly, told");
    for ((peer, _), score) in PEERS.iter().zip(&scores) {
        println!("{peer}: {score:?}");
    }
    assert!(
        differences.is_empty(),
        "{} differ, the first of them:\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n")
    );
    assert!(counts.iter().all(|found| *found > count / 10), "{counts:?}");
}
