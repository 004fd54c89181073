//! Compares `explain failure` with what happens when a kubelet falls silent.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use nix::sys::signal::Signal;
use nodelife_tests::fixture::{PodFixture, workload};
use nodelife_tests::real_nodes::{Agent, GRACE, NodeOptions, RealNodes, manners};
use nodelife_tests::{TestNamespace, until};
use serde_json::json;

use super::support::{Lateness, document};
use crate::failure::{CUT, Fate, PERIOD, pods_on, seconds, unreachable};

/// How far a time may be from the one that was foretold.
const TOLERANCE: f64 = 2.0;

/// The pass of the monitor that the clusters of real nodes have, in seconds; `explain` counts with
/// the default, [`PERIOD`].
const OWN_PERIOD: f64 = 1.0;

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
    assert_eq!((soon.len(), late.len()), (2, 2), "{fates:?}");
    let deleted = until("the evictions", async || {
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
        let late = lateness.seconds();
        println!("{fate:?}: {measured:.1} s measured, {foretold:.1} s foretold, {late:.1} s late");
        assert!(
            measured > foretold - TOLERANCE - CUT && measured < foretold + TOLERANCE + late,
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
