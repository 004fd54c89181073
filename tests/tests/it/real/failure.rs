//! Compares `explain failure` with what happens when a kubelet falls silent, or says that it is not
//! ready: as it is foretold before the failure, and as it is told two minutes after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use nix::sys::signal::Signal;
use nodelife_tests::fixture::{PodFixture, workload};
use nodelife_tests::real_nodes::{
    Agent, GRACE, NodeOptions, RealNode, RealNodes, leave_out, manners,
};
use nodelife_tests::{TestNamespace, until};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::support::{Lateness, document, kubectl};
use crate::failure::{CUT, Fate, PERIOD, pods_on, seconds, unreachable};

/// How far a time may be from the one that was foretold.
const TOLERANCE: f64 = 2.0;

/// The pass of the monitor that the clusters of real nodes have, in seconds; `explain` counts with
/// the default, [`PERIOD`].
const OWN_PERIOD: f64 = 1.0;

/// Seconds between two taints of a zone. A pass that finds the node still Ready in the controller's cache,
/// which is behind on a busy machine, takes the zone's one token, and the taint comes with the next
/// (v1.37.2, `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, `doNoExecuteTaintingPass`).
const TOKEN: f64 = 10.0;

#[tokio::test]
async fn a_silent_kubelet_loses_its_pods_as_foretold() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let namespace = TestNamespace::create(&cluster.plane, "silence")
        .await
        .unwrap();
    let node = cluster
        .add(NodeOptions::default().zone("silence"))
        .await
        .unwrap();
    let pods = [
        ("zero", vec![unreachable(Some(0))]),
        ("three", vec![unreachable(Some(3))]),
        ("default", vec![]),
        ("for-ever", vec![unreachable(None)]),
    ];
    for (name, tolerations) in pods {
        let pod = PodFixture::new(name).bound_to(&node.name);
        let pod = pod.spec(manners(&["--stop", "1"], 20));
        let pod = pod.spec(json!({"tolerations": tolerations}));
        pod.create(&namespace).await.unwrap();
        workload::wait_ready(&namespace, name, 1).await.unwrap();
    }
    let nodes = Api::all(namespace.client().clone());
    until("another Ready node", async || {
        Ok(has_ready_peer(&nodes, &node.name).await.then_some(()))
    })
    .await;
    let grace = format!("--node-monitor-grace-period={GRACE}");
    let timeline = document(cluster, &["explain", "failure", &node.name, &grace]).await;
    let fates: Vec<Fate> = serde_json::from_value(timeline["pods"].clone()).unwrap();
    let foretold: BTreeSet<_> = fates.iter().map(|fate| fate.name.as_str()).collect();
    assert_eq!(foretold.len(), pods_on(&namespace, &node.name).await.len());

    let lateness = Lateness::measure();
    node.signal(Agent::Kubelet, Signal::SIGSTOP).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(namespace.client().clone(), "kube-node-lease");
    let lease = leases.get(&node.name).await.unwrap();
    let died = lease.spec.unwrap().renew_time.unwrap().0;
    // Within the time of a test: the others tolerate for minutes.
    let (soon, late): (Vec<&Fate>, Vec<&Fate>) = fates
        .iter()
        .partition(|fate| fate.after_seconds.is_some_and(|after| after < 60.0));
    assert_eq!((soon.len(), late.len()), (2, 2), "{timeline:#}");
    let mut was_alone = false;
    let deleted = until("the evictions", async || {
        was_alone |= !has_ready_peer(&nodes, &node.name).await;
        let pods = pods_on(&namespace, &node.name).await;
        let times: Option<BTreeMap<_, _>> = soon
            .iter()
            .map(|fate| Some((&fate.name, pods[&fate.name]?)))
            .collect();
        Ok(times)
    })
    .await;
    for fate in &soon {
        let measured = seconds(died, deleted[&fate.name]);
        let foretold = fate.after_seconds.unwrap() - PERIOD + OWN_PERIOD;
        let late = if was_alone {
            f64::INFINITY
        } else {
            lateness.seconds()
        };
        println!("{fate:?}: {measured:.1} s measured, {foretold:.1} s foretold, {late:.1} s late");
        let is_near = [0.0, TOKEN].iter().any(|delay| {
            let off = measured - foretold - delay;
            off > -TOLERANCE - CUT && off < TOLERANCE + late
        });
        assert!(
            is_near,
            "deleted after {measured:.1} s, foretold {foretold:.1} s, {late:.1} s late: {fate:?}"
        );
    }
    // Nobody but the kubelet confirms an end: it cannot, until it speaks again.
    let there = pods_on(&namespace, &node.name).await;
    assert_eq!(there.len(), fates.len());
    assert!(
        late.iter().all(|fate| there[&fate.name].is_none()),
        "{there:?}"
    );
    let woken = Timestamp::now();
    node.signal(Agent::Kubelet, Signal::SIGCONT).await.unwrap();
    until("the end of the evicted pods", async || {
        let there = pods_on(&namespace, &node.name).await;
        Ok((there.len() == late.len()).then_some(()))
    })
    .await;
    let took = seconds(woken, Timestamp::now());
    println!("ended {took:.1} s after the kubelet spoke again");
    assert_eq!(node.containers().await.unwrap().len(), 2 * late.len());
}

/// Whether another node is Ready. While none is, as on a busy machine for a moment, all zones are fully
/// disrupted, and no node is tainted.
async fn has_ready_peer(nodes: &Api<Node>, name: &str) -> bool {
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    let mut peers = nodes
        .into_iter()
        .filter(|node| node.metadata.name.as_deref() != Some(name));
    peers.any(|node| {
        let conditions = node.status.and_then(|status| status.conditions);
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one.type_ == "Ready" && one.status == "True")
    })
}

/// A node of a test's own that fails, and its pods.
struct Failing {
    namespace: TestNamespace,
    node: RealNode,
    /// The key of the taint that it will get.
    taint: String,
}

/// How long after the failure the question is.
const LATER: Duration = Duration::from_mins(2);

/// The pods that are evicted, with the seconds for which they tolerate the taint: the first one before
/// the question, the others after it.
const EVICTED: [(&str, i64); 3] = [("zero", 0), ("soon", 150), ("late", 165)];

impl Failing {
    /// None where the machine cannot run real nodes, or the run is a short one.
    async fn start(taint: &str) -> Option<(&'static RealNodes, Self)> {
        // Of its first runs beside a compiler some deleted a pod late: `.ci/run` waits for twenty that do not.
        if std::env::var_os("NODELIFE_REAL_FAILURES").is_none() {
            leave_out("it takes minutes: set NODELIFE_REAL_FAILURES=1");
            return None;
        }
        let cluster = RealNodes::shared().await?;
        // The plugin is built before the time counts.
        let version = kubectl(cluster).run(["nodelife", "version"]).await.unwrap();
        version.success().unwrap();
        let namespace = TestNamespace::create(&cluster.plane, taint).await.unwrap();
        // Alone in its zone: no other node's taint comes before its own.
        let options = NodeOptions::default().zone(&namespace.name);
        let node = cluster.add(options).await.unwrap();
        let nodes: Api<Node> = Api::all(namespace.client().clone());
        until("a new node without its taint", async || {
            let taints = nodes.get(&node.name).await?.spec.unwrap().taints;
            Ok(taints.unwrap_or_default().is_empty().then_some(()))
        })
        .await;
        let key = format!("node.kubernetes.io/{taint}");
        let evicted = EVICTED.map(|(name, seconds)| (name, Some(seconds)));
        for (name, seconds) in evicted.into_iter().chain([("for-ever", None)]) {
            let mut toleration = unreachable(seconds);
            toleration["key"] = key.as_str().into();
            let pod = PodFixture::new(name).bound_to(&node.name);
            let pod = pod.spec(manners(&["--stop", "1"], 20));
            let pod = pod.spec(json!({"tolerations": [toleration]}));
            pod.create(&namespace).await.unwrap();
            workload::wait_ready(&namespace, name, 1).await.unwrap();
        }
        let failing = Self {
            namespace,
            node,
            taint: key,
        };
        Some((cluster, failing))
    }

    /// The node's condition Ready, and when it got its taint.
    async fn seen(&self) -> (NodeCondition, Timestamp) {
        let nodes: Api<Node> = Api::all(self.namespace.client().clone());
        let node = nodes.get(&self.node.name).await.unwrap();
        let conditions = node.status.unwrap().conditions;
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|one| one.type_ == "Ready").unwrap();
        let mut taints = node.spec.unwrap().taints.into_iter().flatten();
        let taint = taints.find(|one| one.key == self.taint && one.effect == "NoExecute");
        (ready, taint.unwrap().time_added.unwrap().0)
    }

    /// What `explain failure` said two minutes after the failure comes true; `past` is what has
    /// happened to the node by the API's objects.
    async fn happens_as_told(&self, timeline: &Value, past: &[Timestamp]) {
        let asked = Timestamp::now();
        let fates: Vec<Fate> = serde_json::from_value(timeline["pods"].clone()).unwrap();
        let told: BTreeMap<_, _> = fates.iter().map(|fate| (&*fate.name, fate.at)).collect();
        let is_past = EVICTED.map(|(name, _)| told[name].unwrap() < asked);
        assert_eq!(is_past, [true, false, false], "{timeline:#}");
        let lateness = Lateness::measure();
        // The taint may come late beside other work, and the last eviction with it.
        let last = told["late"].unwrap().duration_since(asked);
        sleep(last.try_into().unwrap()).await;
        let pods = until("the evictions", async || {
            let pods = pods_on(&self.namespace, &self.node.name).await;
            for (name, _) in EVICTED {
                anyhow::ensure!(pods[name].is_some(), "{name} is not evicted: {timeline:#}");
            }
            Ok(Some(pods))
        })
        .await;
        assert_eq!(told.len(), pods.len(), "{timeline:#}");
        assert_eq!((told["for-ever"], pods["for-ever"]), (None, None));
        let steps = timeline["steps"].as_array().unwrap().iter();
        let steps = steps.map(|step| serde_json::from_value(step["at"].clone()).unwrap());
        let steps: Vec<Option<Timestamp>> = steps.collect();
        let past: Vec<_> = past.iter().copied().map(Some).collect();
        assert_eq!(steps[..past.len()], past, "{timeline:#}");
        let late = lateness.seconds();
        let evicted = EVICTED.map(|(name, _)| (name, told[name]));
        let first_and_last = [("zero", steps[past.len()]), ("late", steps[past.len() + 1])];
        for (name, told) in evicted.into_iter().chain(first_and_last) {
            let off = seconds(told.unwrap(), pods[name].unwrap());
            println!(
                "{}: {name}: {off:+.1} s from what was told, {late:.1} s late",
                self.taint
            );
            let is_near = off >= -TOLERANCE && off <= TOLERANCE + late;
            assert!(is_near, "{name}: {off} s, {late} s late: {timeline:#}");
        }
    }
}

#[tokio::test]
async fn a_silent_kubelet_has_the_times_that_are_told() {
    let Some((cluster, failing)) = Failing::start("unreachable").await else {
        return;
    };
    let node = &failing.node;
    node.signal(Agent::Kubelet, Signal::SIGSTOP).await.unwrap();
    sleep(LATER).await;
    let timeline = document(cluster, &["explain", "failure", &node.name]).await;
    assert_eq!(timeline["failure"], "silent", "{timeline:#}");
    let (ready, tainted) = failing.seen().await;
    assert_eq!(ready.status, "Unknown");
    let leases: Api<Lease> = Api::namespaced(failing.namespace.client().clone(), "kube-node-lease");
    let lease = leases.get(&node.name).await.unwrap().spec.unwrap();
    let posted = ready.last_heartbeat_time.unwrap().0;
    let heard = lease.renew_time.unwrap().0.max(posted);
    let past = [heard, ready.last_transition_time.unwrap().0, tainted];
    failing.happens_as_told(&timeline, &past).await;
}

#[tokio::test]
async fn a_kubelet_without_a_runtime_has_the_times_that_are_told() {
    let Some((cluster, failing)) = Failing::start("not-ready").await else {
        return;
    };
    let node = &failing.node;
    node.stop(Agent::Containerd).await.unwrap();
    sleep(LATER).await;
    let timeline = document(cluster, &["explain", "failure", &node.name]).await;
    assert_eq!(timeline["failure"], "notReady", "{timeline:#}");
    let (ready, tainted) = failing.seen().await;
    assert_eq!(ready.status, "False");
    let past = [ready.last_transition_time.unwrap().0, tainted];
    failing.happens_as_told(&timeline, &past).await;
    node.start(Agent::Containerd).await.unwrap();
    until("the end of the evicted pods", async || {
        let there = pods_on(&failing.namespace, &node.name).await;
        Ok((there.len() == 1).then_some(()))
    })
    .await;
}
