//! Tests of drains of real nodes, whose pods really end.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use nix::sys::signal::Signal;
use nodelife_tests::fixture::BudgetFixture;
use nodelife_tests::real_nodes::{Agent, RealNodes, Scene, deployment};
use nodelife_tests::{TIMEOUT, until, wait_until};
use serde_json::{Value, json};

use super::support::{document, kubectl, wait_unknown};

/// The plan of a drain, as soon as it has an estimate: it has none while a budget misses a pod, as
/// one whose probe came too late on a busy machine.
async fn estimated_plan(cluster: &RealNodes, words: &[&str]) -> Value {
    let words = [words, &["--dry-run=client"]].concat();
    until("a plan with an estimate", async || {
        let plan = document(cluster, &words).await;
        Ok(plan["estimate"].is_object().then_some(plan))
    })
    .await
}

/// The drain took no longer than the estimate's limit.
fn took_as_long_as_planned(plan: &Value, report: &Value) {
    let time = |key: &str| -> Timestamp { report[key].as_str().unwrap().parse().unwrap() };
    let took = time("finishedAt").duration_since(time("startedAt"));
    let took = took.as_secs_f64();
    let limit = |key: &str| plan["estimate"][key].as_f64().unwrap();
    // The plan goes by how long the pods took to become Ready: on a machine that was busy then and is
    // not now, they are faster.
    assert!(took <= limit("maxSeconds"), "{took} s; {plan:#}");
}

#[tokio::test]
async fn pods_of_all_manners_are_drained_as_planned() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let scene = Scene::start(cluster).await.unwrap();
    scene.create_all_manners().await.unwrap();
    scene.open_other_nodes().await.unwrap();
    let before: BTreeSet<_> = scene.node.containers().await.unwrap().into_iter().collect();
    assert_eq!(before.len(), 2 * 19, "{before:?}");

    let words = ["drain", &scene.node.name, "--delete-emptydir-data"];
    let plan = estimated_plan(cluster, &words).await;
    // It ends, and names the pods, before kubectl's own limit.
    let more = ["--output=json", "--timeout=4m"];
    let words = [&["nodelife"], &words[..], &more].concat();
    let report = kubectl(cluster).run(words).await.unwrap();
    assert_eq!(report.status, Some(0), "{report:?}");
    took_as_long_as_planned(&plan, &serde_json::from_str(&report.stdout).unwrap());
    let left = scene.pods().await.unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|pod| pod.metadata.name.clone().unwrap())
        .collect();
    assert!(
        left.len() == 2 && left[0].starts_with("agent-") && left[1].starts_with("static-"),
        "{left:?}"
    );
    let containers = scene.node.containers().await.unwrap();
    assert_eq!(containers.len(), 2 * left.len());
    assert!(containers.iter().all(|id| before.contains(id)));
}

#[tokio::test]
async fn a_drain_names_the_pods_of_a_silent_kubelet() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let scene = Scene::start(cluster).await.unwrap();
    let web = deployment("web", 2, &[], 1);
    scene.create("web", web, 2).await.unwrap();
    scene.open_other_nodes().await.unwrap();
    let silent = scene.node.signal(Agent::Kubelet, Signal::SIGSTOP);
    silent.await.unwrap();
    wait_unknown(cluster, &scene.node).await;
    let drain = ["nodelife", "drain", &scene.node.name, "--timeout=5s"];
    let output = kubectl(cluster).run(drain).await.unwrap();
    assert_eq!(output.status, Some(6), "{output:?}");
    let stuck = scene.pods().await.unwrap();
    assert_eq!(stuck.len(), 2);
    for pod in &stuck {
        let name = pod.metadata.name.as_deref().unwrap();
        assert!(output.stderr.contains(name), "{name}: {output:?}");
    }

    scene
        .node
        .signal(Agent::Kubelet, Signal::SIGCONT)
        .await
        .unwrap();
    let drain = ["nodelife", "drain", &scene.node.name];
    let output = kubectl(cluster).run(drain).await.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    let containers = scene.node.containers().await.unwrap();
    assert!(containers.is_empty(), "{containers:?}");
}

#[tokio::test]
async fn a_node_that_reboots_in_the_middle_is_drained() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let scene = Scene::start(cluster).await.unwrap();
    let slow = deployment("slow", 3, &["--stop", "2"], 30);
    scene.create("slow", slow, 3).await.unwrap();
    let budget = BudgetFixture::max_unavailable("slow", "slow", json!(1));
    budget.create_counted(&scene.namespace, 3).await.unwrap();
    scene.open_other_nodes().await.unwrap();
    let words = ["nodelife", "drain", &scene.node.name];
    let kubectl = kubectl(cluster);
    let drain = kubectl.run(words);
    let reboot = async {
        wait_until("an eviction", TIMEOUT, async || {
            let pods = scene.pods().await.unwrap();
            let mut evicted = pods.iter().map(|pod| &pod.metadata.deletion_timestamp);
            Ok(evicted.any(Option::is_some).then_some(()))
        })
        .await?;
        cluster.reboot(&scene.node).await
    };
    let (output, rebooted) = tokio::join!(drain, reboot);
    rebooted.unwrap();
    let output = output.unwrap();
    assert_eq!(output.status, Some(0), "{output:?}");
    let containers = scene.node.containers().await.unwrap();
    assert!(containers.is_empty(), "{containers:?}");
}
