//! Tests that compare the predictions of `explain failure` and `explain zones` with
//! kube-controller-manager: which nodes it taints, which pods it deletes, and when.
//!
//! Silence is real: kwok is stopped, and the test renews the Leases of the nodes that live on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{ControlPlane, Identity, Part, TestNamespace, until};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// kube-controller-manager runs with these, and `explain` gets the same values. The grace period is
/// no multiple of the monitor's period, so that a pass can't fall on its very end.
const FLAGS: [&str; 4] = [
    "--node-monitor-grace-period=14s",
    "--unhealthy-zone-threshold=0.5",
    "--large-cluster-size-threshold=5",
    "--secondary-node-eviction-rate=0.2",
];

/// The grace period of [`FLAGS`] in seconds.
const GRACE: f64 = 14.0;

/// How far a second may be from the one that was predicted: one pass of the monitor.
pub(crate) const PERIOD: f64 = 5.0;

/// Times in the API are cut to whole seconds.
pub(crate) const CUT: f64 = 1.0;

/// How many nodes each zone has. `small` is not larger than the threshold of [`FLAGS`], `large` is.
const ZONES: [(&str, usize); 4] = [("calm", 4), ("small", 5), ("pair", 2), ("large", 6)];

#[tokio::test]
async fn the_controller_does_what_was_predicted() {
    let mut options = ControlPlane::options()
        .with_everything()
        .without_admission("DefaultTolerationSeconds");
    for flag in FLAGS {
        options = options.controller_manager_flag(flag);
    }
    let plane = options.start().await.unwrap();
    let namespace = TestNamespace::create(&plane, "failure").await.unwrap();
    build(&namespace).await;
    let scene = Scene {
        kubectl: Kubectl::new(&plane, &Identity::Admin).unwrap(),
        hearts: Hearts::new(namespace.client().clone()).await,
        namespace,
    };
    let _beating = scene.hearts.beat();
    plane.stop(Part::Kwok).await.unwrap();

    // One node of a healthy zone, and enough of others to disrupt them.
    let calm = scene.failure("calm-1").await;
    assert_eq!(calm["zoneState"], "Normal");
    let mut dead = vec!["calm-1", "pair-1"];
    dead.extend(["small-1", "small-2", "small-3"]);
    dead.extend(["large-1", "large-2", "large-3"]);
    let died = scene.hearts.stop(&dead).await;
    for node in &dead {
        scene.wait_unknown(node).await;
    }
    let asked = Timestamp::now();
    let zones = scene.zones().await;
    assert_eq!(
        zones.iter().map(Outlook::brief).collect::<Vec<_>>(),
        [
            "calm Normal 0.1",
            "large PartialDisruption 0.2",
            "pair Normal 0.1",
            "small PartialDisruption 0",
        ]
    );
    scene
        .last_taint_is_as_predicted(&["large-1", "large-2", "large-3"], &zones[1], asked)
        .await;
    scene
        .dies_as_predicted("calm-1", &calm, died["calm-1"])
        .await;
    scene.wait_tainted("pair-1").await;

    // One more in each of the zones that are in trouble already.
    let pair = scene.failure("pair-2").await;
    let large = scene.failure("large-4").await;
    let small = scene.failure("small-4").await;
    assert_eq!(pair["zoneState"], "FullDisruption");
    assert_eq!(large["zoneState"], "PartialDisruption");
    assert_eq!(small["zoneState"], "PartialDisruption");
    assert_eq!(small["evictionRate"], 0.0);
    let died = scene.hearts.stop(&["pair-2", "large-4", "small-4"]).await;
    scene
        .dies_as_predicted("pair-2", &pair, died["pair-2"])
        .await;
    scene
        .dies_as_predicted("large-4", &large, died["large-4"])
        .await;
    scene.wait_unknown("small-4").await;
    scene
        .dies_as_predicted("small-4", &small, died["small-4"])
        .await;
    assert_eq!(scene.tainted_at("small-4").await, None);
    // Who lived is as before.
    for node in [
        "calm-2", "calm-3", "calm-4", "small-5", "large-5", "large-6",
    ] {
        assert_eq!(scene.tainted_at(node).await, None, "{node}");
    }
}

/// The zones, a DaemonSet, and pods with every kind of toleration.
async fn build(namespace: &TestNamespace) {
    let nodes = ZONES
        .iter()
        .flat_map(|(zone, size)| (1..=*size).map(move |number| (zone, number)))
        .map(|(zone, number)| NodeFixture::kwok(&format!("{zone}-{number}")).zone(zone))
        .map(|node| node.create(namespace.client()));
    let nodes = futures::future::try_join_all(nodes).await.unwrap();
    let agents = WorkloadFixture::daemon_set("agent");
    agents.create_ready(namespace, nodes.len()).await.unwrap();
    let pods = [
        ("calm-1", "none", json!([])),
        ("calm-1", "five", json!([unreachable(Some(5))])),
        // The first that matches decides, whatever the next one gives.
        (
            "calm-1",
            "first",
            json!([unreachable(Some(8)), {"operator": "Exists"}]),
        ),
        ("calm-1", "for-ever", json!([unreachable(None)])),
        ("calm-1", "zero", json!([unreachable(Some(0))])),
        ("calm-1", "negative", json!([unreachable(Some(-3))])),
        (
            "calm-1",
            "other-taint",
            json!([
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            ]),
        ),
        (
            "calm-1",
            "other-effect",
            json!([
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoSchedule"},
            ]),
        ),
        ("pair-2", "none-2", json!([])),
        ("pair-2", "three", json!([unreachable(Some(3))])),
        ("large-4", "none-3", json!([])),
        ("large-4", "for-ever-3", json!([{"operator": "Exists"}])),
        ("small-4", "none-4", json!([])),
        ("small-4", "one-4", json!([unreachable(Some(1))])),
    ];
    let pods = pods.into_iter().map(|(node, name, tolerations)| {
        // A grace period keeps the object, and with it the time of its deletion.
        let spec = json!({"tolerations": tolerations, "terminationGracePeriodSeconds": 600});
        PodFixture::new(name)
            .spec(spec)
            .bound_to(node)
            .create(namespace)
    });
    futures::future::try_join_all(pods).await.unwrap();
}

pub(crate) fn unreachable(seconds: Option<i64>) -> Value {
    let mut toleration = json!({
        "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
    });
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

struct Scene {
    kubectl: Kubectl,
    hearts: Hearts,
    namespace: TestNamespace,
}

impl Scene {
    async fn explain(&self, arguments: &[&str]) -> Value {
        let arguments = ["nodelife", "explain"].iter().chain(arguments);
        let arguments = arguments.chain(&["-o", "json"]).chain(&FLAGS);
        let output = self.kubectl.run(arguments).await.unwrap();
        serde_json::from_str(&output.success().unwrap()).unwrap()
    }

    async fn failure(&self, node: &str) -> Value {
        self.explain(&["failure", node]).await
    }

    async fn zones(&self) -> Vec<Outlook> {
        let mut report = self.explain(&["zones"]).await;
        serde_json::from_value(report["zones"].take()).unwrap()
    }

    async fn node(&self, name: &str) -> Node {
        let nodes: Api<Node> = Api::all(self.namespace.client().clone());
        nodes.get(name).await.unwrap()
    }

    async fn tainted_at(&self, node: &str) -> Option<Timestamp> {
        let taints = self.node(node).await.spec.unwrap().taints;
        let mut taints = taints.iter().flatten();
        let taint = taints.find(|taint| {
            taint.key == "node.kubernetes.io/unreachable" && taint.effect == "NoExecute"
        })?;
        Some(taint.time_added.as_ref().unwrap().0)
    }

    async fn wait_tainted(&self, node: &str) -> Timestamp {
        until(&format!("the taint of {node}"), async || {
            Ok(self.tainted_at(node).await)
        })
        .await
    }

    async fn wait_unknown(&self, node: &str) {
        until(&format!("{node} Unknown"), async || {
            let conditions = self.node(node).await.status.unwrap().conditions;
            let unknown = |one: &k8s_openapi::api::core::v1::NodeCondition| {
                one.type_ == "Ready" && one.status == "Unknown"
            };
            Ok(conditions.iter().flatten().any(unknown).then_some(()))
        })
        .await;
    }

    /// The last of `nodes` is tainted when `zone`, asked at `asked`, said so.
    async fn last_taint_is_as_predicted(&self, nodes: &[&str], zone: &Outlook, asked: Timestamp) {
        let predicted = zone.seconds_to_last_taint.unwrap();
        let mut last = Timestamp::MIN;
        for node in nodes {
            last = last.max(self.wait_tainted(node).await);
        }
        let measured = seconds(asked, last);
        let late = self.hearts.lateness().await;
        println!("{zone:?}: {measured:.1} s measured, {late:.1} s late");
        // A zone's new limiter begins without a token if the old one had none (v1.37.2,
        // `pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go`, `SwapLimiter`); whether it
        // had one, no object says.
        let interval = 1.0 / f64::from(zone.eviction_rate);
        let latest = predicted + interval + PERIOD + late;
        assert!(
            measured > predicted - PERIOD - CUT && measured < latest,
            "the last taint came after {measured:.1} s, predicted {zone:?}; {late:.1} s late"
        );
    }

    /// What `timeline` says of the pods of `node` comes true, to the second.
    async fn dies_as_predicted(&self, node: &str, timeline: &Value, died: Timestamp) {
        let predicted: Vec<Fate> = serde_json::from_value(timeline["pods"].clone()).unwrap();
        let names: BTreeSet<_> = predicted.iter().map(|fate| fate.name.clone()).collect();
        let there: BTreeSet<_> = pods_on(&self.namespace, node).await.into_keys().collect();
        assert_eq!(names, there, "{node}");
        let evicted: Vec<_> = predicted.iter().filter(|fate| fate.evicted).collect();
        if !evicted.is_empty() {
            self.wait_tainted(node).await;
        }
        // Now that it has failed, its timeline has the times that were and those to come.
        let failed = self.failure(node).await;
        assert_eq!(failed["failure"], "silent", "{failed:#}");
        let since: Timestamp = serde_json::from_value(failed["since"].clone()).unwrap();
        assert!(seconds(died, since).abs() <= CUT, "{died}: {failed:#}");
        let failed: Vec<Fate> = serde_json::from_value(failed["pods"].clone()).unwrap();
        let deleted = until(&format!("the end of {node}"), async || {
            let pods = pods_on(&self.namespace, node).await;
            let deleted: BTreeMap<_, _> = evicted
                .iter()
                .filter_map(|fate| Some((fate.name.clone(), pods[&fate.name]?)))
                .collect();
            anyhow::ensure!(deleted.len() == evicted.len(), "deleted are {deleted:?}");
            Ok(Some(deleted))
        })
        .await;
        let late = self.hearts.lateness().await;
        for fate in &evicted {
            let measured = seconds(died, deleted[&fate.name]);
            let after = fate.after_seconds.unwrap();
            #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
            let earliest = GRACE + fate.tolerated_seconds.unwrap() as f64 - CUT;
            println!("{node} {fate:?}: {measured:.1} s measured, {late:.1} s late");
            // The last sign of life may come to the controller's cache just after a pass, on a
            // busy machine: that costs one period, and what follows is slow as well.
            assert!(
                measured > earliest
                    && measured > after - PERIOD - 2.0 * CUT
                    && measured < after + 2.0 * PERIOD + late,
                "{node}: deleted after {measured:.1} s, predicted {fate:?}; {late:.1} s late"
            );
        }
        for fate in &failed {
            let Some(at) = fate.at else { continue };
            let late_by = seconds(at, deleted[&fate.name]);
            assert!(
                late_by.abs() <= 2.0 * CUT + late,
                "{node}: {fate:?} came {late_by:.1} s later; {late:.1} s late"
            );
        }
        let spared = predicted.iter().filter(|fate| !fate.evicted);
        let pods = pods_on(&self.namespace, node).await;
        for fate in spared {
            assert_eq!(fate.after_seconds, None, "{fate:?}");
            assert_eq!(
                pods[&fate.name], None,
                "{node}: deleted, predicted {fate:?}"
            );
        }
    }
}

/// The pods of a namespace on a node, and when their deletion was asked for.
pub(crate) async fn pods_on(
    namespace: &TestNamespace,
    node: &str,
) -> BTreeMap<String, Option<Timestamp>> {
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = namespace.api::<Pod>().list(&on_node).await.unwrap();
    let pods = pods.items.into_iter().map(|pod| {
        let meta = pod.metadata;
        let grace = meta.deletion_grace_period_seconds.unwrap_or_default();
        let grace = Duration::from_secs(grace.try_into().unwrap());
        (
            meta.name.unwrap(),
            meta.deletion_timestamp.map(|time| time.0 - grace),
        )
    });
    pods.collect()
}

pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A zone of `explain zones`.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outlook {
    zone: String,
    state: String,
    eviction_rate: f32,
    seconds_to_last_taint: Option<f64>,
}

impl Outlook {
    fn brief(&self) -> String {
        format!("{} {} {}", self.zone, self.state, self.eviction_rate)
    }
}

/// A pod of `explain failure`.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Fate {
    pub(crate) name: String,
    pub(crate) evicted: bool,
    pub(crate) tolerated_seconds: Option<i64>,
    pub(crate) after_seconds: Option<f64>,
    pub(crate) at: Option<Timestamp>,
}

/// Renews the Leases of the nodes that live, and measures how late the machine lets it.
#[derive(Clone)]
struct Hearts {
    leases: Api<Lease>,
    beating: Arc<Mutex<Beating>>,
}

struct Beating {
    nodes: BTreeSet<String>,
    late: Duration,
}

impl Hearts {
    /// Of all nodes, each of which has its Lease from kwok.
    async fn new(client: Client) -> Self {
        let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
        let count: usize = ZONES.iter().map(|(_, size)| size).sum();
        let nodes = until("the Leases of all nodes", async || {
            let names = leases.list_metadata(&ListParams::default()).await?;
            let names = names.items.into_iter().map(|lease| lease.metadata.name);
            let names: BTreeSet<String> = names.flatten().collect();
            Ok((names.len() == count).then_some(names))
        })
        .await;
        let late = Duration::ZERO;
        let beating = Arc::new(Mutex::new(Beating { nodes, late }));
        Self { leases, beating }
    }

    /// Beats until what it gives is dropped.
    fn beat(&self) -> JoinSet<()> {
        const EVERY: Duration = Duration::from_secs(1);
        let hearts = self.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut expected = Instant::now();
            loop {
                ticks.tick().await;
                let mut beating = hearts.beating.lock().await;
                beating.late += expected.elapsed();
                let now = format!("{:.6}", Timestamp::now());
                let patch = Patch::Merge(json!({"spec": {"renewTime": now}}));
                let parameters = PatchParams::default();
                let renewals = beating.nodes.iter();
                let renewals = renewals.map(|node| hearts.leases.patch(node, &parameters, &patch));
                futures::future::try_join_all(renewals).await.unwrap();
                expected = Instant::now() + EVERY;
            }
        });
        task
    }

    /// Lets these nodes die, and gives the time of their last sign of life.
    async fn stop(&self, nodes: &[&str]) -> BTreeMap<String, Timestamp> {
        let mut beating = self.beating.lock().await;
        let mut died = BTreeMap::new();
        for node in nodes {
            assert!(beating.nodes.remove(*node), "{node} was dead already");
            let lease = self.leases.get(node).await.unwrap();
            let renewed = lease.spec.unwrap().renew_time.unwrap().0;
            died.insert((*node).to_owned(), renewed);
        }
        died
    }

    /// Seconds by which the machine was late with the beats so far, one added to the other:
    /// so much later may the control plane be with what it does as well.
    async fn lateness(&self) -> f64 {
        self.beating.lock().await.late.as_secs_f64()
    }
}
