//! Compares `explain shutdown` with what a kubelet does when its machine is shut down.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, PostParams};
use nodelife_core::shutdown::ShutdownReport;
use nodelife_tests::fixture::{PodFixture, workload};
use nodelife_tests::real_nodes::{NodeOptions, RealNodes, manners};
use nodelife_tests::{TestNamespace, until};
use serde_json::json;

use super::support::{Lateness, document};
use crate::failure::seconds;

/// How far a time may be from the one that was foretold.
const TOLERANCE: f64 = 2.0;

/// The resolution of the times in a pod's status.
const SECOND: f64 = 1.0;

/// The priority of the group in the middle.
const MIDDLE: i32 = 1000;

/// When each pod's container ended, of the pods that have, and the reason of their status.
async fn ends(namespace: &TestNamespace) -> BTreeMap<String, (Timestamp, Option<String>)> {
    let pods: Api<Pod> = namespace.api();
    let pods = pods.list(&ListParams::default()).await.unwrap();
    let end = |pod: Pod| {
        let status = pod.status?;
        let containers = status.container_statuses?;
        let ended = containers.first()?.state.clone()?.terminated?;
        let time = ended.finished_at?.0;
        Some((pod.metadata.name?, (time, status.reason)))
    };
    pods.items.into_iter().filter_map(end).collect()
}

#[tokio::test]
async fn a_graceful_shutdown_ends_the_pods_as_foretold() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let namespace = TestNamespace::create(&cluster.plane, "shutdown")
        .await
        .unwrap();
    let periods = json!([
        {"priority": 0, "shutdownGracePeriodSeconds": 8},
        {"priority": MIDDLE, "shutdownGracePeriodSeconds": 30},
        {"priority": 2_000_000_000, "shutdownGracePeriodSeconds": 5},
    ]);
    let options = NodeOptions::default().logind().kubelet(json!({
        "featureGates": {"GracefulNodeShutdownBasedOnPodPriority": true},
        "shutdownGracePeriod": "0s",
        "shutdownGracePeriodCriticalPods": "0s",
        "shutdownGracePeriodByPodPriority": periods,
    }));
    let node = cluster.add(options).await.unwrap();
    let middle = PriorityClass {
        value: Some(MIDDLE),
        metadata: ObjectMeta {
            name: Some(namespace.name.clone()),
            ..ObjectMeta::default()
        },
        ..PriorityClass::default()
    };
    let classes: Api<PriorityClass> = Api::all(namespace.client().clone());
    classes
        .create(&PostParams::default(), &middle)
        .await
        .unwrap();
    // Those that never stop by themselves show when they are killed.
    let never = &["--stop", "never"][..];
    let pods = [
        ("quick", &["--stop", "1"][..], 20, None),
        ("cut", never, 20, None),
        ("own-grace", never, 4, None),
        ("middle", never, 3, Some(namespace.name.as_str())),
        ("critical", never, 20, Some("system-cluster-critical")),
    ];
    for (name, arguments, grace, class) in pods {
        let pod = PodFixture::new(name).bound_to(&node.name);
        let pod = pod.spec(manners(arguments, grace));
        let pod = pod.spec(json!({"priorityClassName": class}));
        pod.create(&namespace).await.unwrap();
        workload::wait_ready(&namespace, name, 1).await.unwrap();
    }
    let words = ["explain", "shutdown", &node.name, "--configz"];
    let report = document(cluster, &words).await;
    let report: ShutdownReport = serde_json::from_value(report).unwrap();
    let [foretold] = report.items.as_slice() else {
        panic!("{report:#?}");
    };
    assert_eq!(foretold.groups.len(), 3, "{foretold:#?}");
    assert_eq!(foretold.max_seconds, 8 + 3 + 5);

    let lateness = Lateness::measure();
    let begun = Timestamp::now();
    node.prepare_for_shutdown().await.unwrap();
    until("the end of the delay", async || {
        Ok(node.may_shut_down()?.then_some(()))
    })
    .await;
    let took = seconds(begun, Timestamp::now());
    let late = lateness.seconds();
    let within = |measured: f64, foretold: f64| {
        measured > foretold - TOLERANCE - SECOND && measured < foretold + TOLERANCE + SECOND + late
    };

    // The kubelet may release the inhibitor before it writes the reason of the last pod.
    let ended = until("the ends of the pods", async || {
        let ended = ends(&namespace).await;
        let is_told = |name: &str| ended.get(name).is_some_and(|(_, reason)| reason.is_some());
        let told = pods
            .iter()
            .all(|(name, ..)| *name == "quick" || is_told(name));
        anyhow::ensure!(told && ended.len() == pods.len(), "{ended:?}");
        Ok(Some(ended))
    })
    .await;
    // A group begins when the one before has ended, late or not.
    let mut start = 0.0_f64;
    for group in &foretold.groups {
        let mut end = start;
        for pod in &group.pods {
            let (time, reason) = &ended[pod.name.as_str()];
            // A pod that ends well in time succeeded.
            let cut = (pod.name != "quick").then_some("Terminated");
            assert_eq!(reason.as_deref(), cut, "{}", pod.name);
            let at = pod.grace_period_seconds.min(pod.allowed_seconds);
            #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
            let at = at as f64;
            let measured = seconds(begun, *time);
            let after = measured - start;
            println!("{}: {after:.1} s, {at} s at most foretold", pod.name);
            let holds = if cut.is_some() {
                within(after, at)
            } else {
                after < 1.0 + TOLERANCE + late
            };
            assert!(holds, "{pod:?} ended after {after} s, {late} s late");
            end = end.max(measured);
        }
        start = end;
    }
    assert!(within(took - start, 0.0), "{took} s, {late} s late");
}
