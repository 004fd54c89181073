//! Tests of waiting: replacements, volumes and timeouts.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use nodelife_tests::fixture::{
    BudgetCounts, BudgetFixture, NodeFixture, PodFixture, WorkloadFixture,
};
use nodelife_tests::{ControlPlane, until};
use serde_json::{Value, json};

use super::support::{Stderr, TestEnvironment, end, start, two_nodes};

#[tokio::test]
pub(crate) async fn once_tries_each_pod_once_and_waits_for_no_budget() {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, "once").await;
    let node = env.node("a");
    let fixture = NodeFixture::new(&node);
    fixture.create(env.namespace.client()).await.unwrap();
    let mut pods = Vec::new();
    for name in ["web-1", "web-2"] {
        let pod = PodFixture::new(name).app("web").running_on(&node);
        pods.push(pod.create(&env.namespace).await.unwrap());
    }
    let status = BudgetCounts {
        expected: 2,
        healthy: 2,
        desired: 1,
        allowed: 1,
    };
    BudgetFixture::min_available("web", "web", json!(1))
        .create_with_status(&env.namespace, status)
        .await
        .unwrap();
    let output = env.drain(&[&node, "--force", "--once", "-o", "json"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let report = env.report(&output).await;
    assert_eq!(report.outcomes(&node), [("blocked", 1), ("evicted", 1)]);
    if let Some(document) = &report.document {
        let pods = document["pods"].as_array().unwrap();
        let attempts = |pod: &Value| (pod["outcome"].clone(), pod["attempts"].as_u64().unwrap());
        let [evicted, blocked] = [&pods[0], &pods[1]].map(attempts);
        assert_eq!(evicted, (json!("evicted"), 1), "{document:#}");
        assert_eq!(blocked.0, json!("blocked"), "{document:#}");
        assert!(blocked.1 <= 1, "{document:#}");
    }
    let evictions = env.evictions().await;
    let of = |name: &str| {
        evictions
            .iter()
            .filter(|event| event.name() == name)
            .count()
    };
    assert!(of("web-1") <= 1 && of("web-2") <= 1, "{evictions:#?}");
    env.check(&pods).await;
}

/// Number 18: the pod of the named budget is deleted, that of the other stays.
#[tokio::test]
pub(crate) async fn only_a_named_budget_is_bypassed_and_only_after_its_time() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "force-after").await;
    let node = env.node("a");
    let fixture = NodeFixture::kwok(&node);
    fixture.create(env.namespace.client()).await.unwrap();
    for name in ["named", "other"] {
        let deployment = WorkloadFixture::deployment(name, 1)
            .pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": node}}));
        deployment.create_ready(&env.namespace, 1).await.unwrap();
        BudgetFixture::min_available(name, name, json!(1))
            .create_counted(&env.namespace, 1)
            .await
            .unwrap();
    }
    let before = env.pods_on(&node).await;
    let named = format!("{}/named", env.namespace.name);
    let output = env
        .drain(&[
            &node,
            "--on-impossible=wait",
            "--force-after=1s",
            "--bypass-pdb",
            &named,
            "--blocked-timeout=20s",
        ])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains(&format!("deleted, bypassing budget {named}")),
        "{}",
        output.stderr
    );
    let deleted: Vec<_> = env
        .requests()
        .await
        .into_iter()
        .filter(|event| event.is("delete", "pods"))
        .collect();
    assert_eq!(deleted.len(), 1, "{deleted:#?}");
    let app = |name: &str| {
        let pod = before
            .iter()
            .find(|pod| pod.metadata.name.as_deref() == Some(name));
        pod.unwrap().metadata.labels.clone().unwrap()["app"].clone()
    };
    assert_eq!(app(deleted[0].name()), "named");
    let body = deleted[0].request_object.as_ref().unwrap();
    assert!(body.pointer("/preconditions/uid").is_some(), "{body:#}");
    // The pod itself has no grace at all.
    assert_eq!(body["gracePeriodSeconds"], 1, "{body:#}");
    let left = env.pods_on(&node).await;
    assert_eq!(left.len(), 1);
    assert_eq!(app(left[0].metadata.name.as_deref().unwrap()), "other");
    env.check_forced(&before, &[deleted[0].name()]).await;
}

/// Number 15: the replacement cannot go anywhere, and the scheduler says why.
#[tokio::test]
pub(crate) async fn a_pending_replacement_is_reported_with_the_schedulers_words() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "wait-ready").await;
    let node = env.node_with_web(1).await;
    let before = env.pods_on(&node).await;
    let output = env
        .drain(&[&node, "--wait-ready", "--timeout=30s", "-o", "json"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    assert!(
        output.stderr.contains("is Pending: 0/"),
        "{}",
        output.stderr
    );
    let report = env.report(&output).await;
    assert!(report.is_drained(&node));
    let why = report.why(&node);
    assert!(why.contains("is Pending: 0/"), "{why}");
    if let Some(document) = &report.document {
        assert!(
            document["nodes"][0]["waitingFor"][0].is_string(),
            "{document:#}"
        );
    }
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn wait_ready_ends_when_every_replacement_is_ready() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "replaced").await;
    let (node, other) = (env.node("a"), env.node("b"));
    let pool = env.namespace.name.clone();
    let fixture = |name: &str| NodeFixture::kwok(name).label("pool", &pool);
    let client = env.namespace.client();
    fixture(&node).create(client).await.unwrap();
    WorkloadFixture::deployment("web", 3)
        .pod_spec(json!({"nodeSelector": {"pool": pool}}))
        .create_ready(&env.namespace, 3)
        .await
        .unwrap();
    fixture(&other).create(client).await.unwrap();
    let before = env.pods_on(&node).await;
    let output = env.drain(&[&node, "--wait-ready"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let there = env.pods_on(&other).await;
    let ready = there
        .iter()
        .filter(|pod| nodelife_tests::fixture::pod::is_ready(pod));
    assert_eq!(ready.count(), 3, "{there:#?}");
    env.check(&before).await;
}

/// There is room for the replacements of the first node alone: what was enough for it is not
/// enough for the second.
#[tokio::test]
pub(crate) async fn each_node_waits_for_its_own_replacements() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "each-replaced").await;
    let pool = env.namespace.name.clone();
    let client = env.namespace.client();
    let two_pods = json!({"pods": "2"});
    let fixture = |name: &str| NodeFixture::kwok(name).label("pool", &pool);
    let narrow = |name: &str| {
        let narrow = fixture(name).capacity(two_pods.clone());
        narrow.allocatable(two_pods.clone())
    };
    let [first, second, third] = ["a", "b", "c"].map(|name| env.node(name));
    for node in [&first, &second] {
        narrow(node).create(client).await.unwrap();
    }
    WorkloadFixture::deployment("web", 4)
        .pod_spec(json!({"nodeSelector": {"pool": pool}}))
        .create_ready(&env.namespace, 4)
        .await
        .unwrap();
    narrow(&third).create(client).await.unwrap();
    let mut before = env.pods_on(&first).await;
    before.extend(env.pods_on(&second).await);
    let flags = [&*first, &*second, "--wait-ready", "--implicit-budget=none"];
    let mut drain = start(&env, &flags);
    let mut stderr = Stderr::of(&env, &mut drain);
    let waits = format!("node/{second}: no pod left to evict; waiting: 2 of 4 pods of ReplicaSet");
    stderr.wait_for(&[&waits, "is Pending: 0/"]).await;
    fixture(&env.node("d")).create(client).await.unwrap();
    let (status, ()) = tokio::join!(drain.wait(), stderr.read_to_end());
    assert_eq!(status.unwrap().code(), Some(0), "{}", stderr.text);
    env.check(&before).await;
}

/// A node with a pod whose volume is attached, and the name of both volume and attachment.
async fn bench_with_volume(what: &str) -> (TestEnvironment, String, String) {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, what).await;
    let node = env.node("a");
    let client = env.namespace.client().clone();
    NodeFixture::new(&node).create(&client).await.unwrap();
    let name = attach_volume(&env, &node, "data").await;
    pod_with_claim("db", "data")
        .running_on(&node)
        .create(&env.namespace)
        .await
        .unwrap();
    (env, node, name)
}

pub(super) fn pod_with_claim(name: &str, claim: &str) -> PodFixture {
    let claim = json!({"name": "disk", "persistentVolumeClaim": {"claimName": claim}});
    PodFixture::new(name).spec(json!({"volumes": [claim]}))
}

/// Attaches a volume of this claim to the node; the name of both volume and attachment.
pub(super) async fn attach_volume(env: &TestEnvironment, node: &str, claim: &str) -> String {
    let client = env.namespace.client().clone();
    let name = format!("{}-{claim}", env.namespace.name);
    let volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": env.namespace.name, "name": claim},
            "csi": {"driver": "disk.test", "volumeHandle": name},
        },
    });
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = serde_json::from_value(volume).unwrap();
    volumes
        .create(&PostParams::default(), &volume)
        .await
        .unwrap();
    let attachment = json!({
        "metadata": {"name": name},
        "spec": {
            "attacher": "disk.test",
            "nodeName": node,
            "source": {"persistentVolumeName": name},
        },
    });
    let attachments: Api<VolumeAttachment> = Api::all(client);
    let attachment = serde_json::from_value(attachment).unwrap();
    attachments
        .create(&PostParams::default(), &attachment)
        .await
        .unwrap();
    name
}

#[tokio::test]
pub(crate) async fn wait_volumes_ends_when_volumes_are_detached() {
    let (env, node, volume) = bench_with_volume("volumes").await;
    let before = env.pods_on(&node).await;
    let arguments = [node.as_str(), "--force", "--wait-volumes"];
    let drain = env.drain(&arguments);
    let detach = async {
        until("the pod to be gone", async || {
            Ok(env.pods_on(&node).await.is_empty().then_some(()))
        })
        .await;
        let attachments: Api<VolumeAttachment> = Api::all(env.namespace.client().clone());
        let now = DeleteParams::default();
        attachments.delete(&volume, &now).await.unwrap();
    };
    let (output, ()) = tokio::join!(drain, detach);
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    env.check(&before).await;
}

/// Number 19: the volume of a DaemonSet's pod stays where that pod is.
#[tokio::test]
pub(crate) async fn a_daemon_set_pods_volume_delays_no_drain() {
    let (env, node, volume) = bench_with_volume("kept-volume").await;
    let ns = &env.namespace;
    WorkloadFixture::daemon_set("agent")
        .create(ns)
        .await
        .unwrap();
    let agents: Api<DaemonSet> = ns.api();
    let agent = agents.get("agent").await.unwrap();
    attach_volume(&env, &node, "logs").await;
    pod_with_claim("agent-1", "logs")
        .running_on(&node)
        .owned_by(&agent)
        .create(ns)
        .await
        .unwrap();
    let before = env.pods_on(&node).await;
    let arguments = [node.as_str(), "--force", "--wait-volumes"];
    let drain = env.drain(&arguments);
    let attachments: Api<VolumeAttachment> = Api::all(ns.client().clone());
    let detach = async {
        until("the pod to be gone", async || {
            Ok((env.pods_on(&node).await.len() == 1).then_some(()))
        })
        .await;
        attachments
            .delete(&volume, &DeleteParams::default())
            .await
            .unwrap();
    };
    let (output, ()) = tokio::join!(drain, detach);
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    // It waited for the one, and the other is still there.
    let kept = format!("{}-logs", ns.name);
    assert!(attachments.get_opt(&kept).await.unwrap().is_some());
    assert!(attachments.get_opt(&volume).await.unwrap().is_none());
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn a_volume_that_stays_attached_is_named_at_the_end() {
    let (env, node, volume) = bench_with_volume("attached").await;
    let before = env.pods_on(&node).await;
    let output = env
        .drain(&[&node, "--force", "--wait-volumes", "--timeout=30s"])
        .await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains(&format!("volume {volume} is still attached")),
        "{}",
        output.stderr
    );
    env.check(&before).await;
}

/// Number 14: one node of a zone at a time, whatever the concurrency.
#[tokio::test]
pub(crate) async fn two_nodes_of_one_zone_are_never_drained_at_once() {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, "zones").await;
    let nodes = [env.node("a"), env.node("b")];
    let mut pods = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let fixture = NodeFixture::new(node).zone("one");
        fixture.create(env.namespace.client()).await.unwrap();
        let pod = PodFixture::new(&format!("web-{i}")).running_on(node);
        pods.push(pod.create(&env.namespace).await.unwrap());
    }
    let output = env
        .drain(&[
            &*nodes[0],
            &nodes[1],
            "--force",
            "--concurrency=2",
            "--max-per-zone=1",
        ])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let requests = env.requests().await;
    let evicted = |name: &str| {
        let is_it = |event: &nodelife_tests::AuditEvent| {
            event.is("create", "pods/eviction") && event.name() == name
        };
        requests.iter().position(is_it).unwrap()
    };
    // Between the two evictions the first node was seen to be empty.
    let seen = requests[evicted("web-0")..evicted("web-1")].iter();
    let confirmed = seen.filter(|event| event.is("list", "pods"));
    let confirmed = confirmed.filter(|event| event.request_uri.contains(&nodes[0]));
    assert!(confirmed.count() >= 1, "{requests:#?}");
    env.check(&pods).await;
}

/// Its replacement waits for a node that takes it, and for ever.
#[tokio::test]
pub(crate) async fn wait_ready_ends_when_the_workload_is_deleted() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "deleted-workload").await;
    let node = env.node_with_web(2).await;
    let before = env.pods_on(&node).await;
    let mut drain = start(&env, &[&node, "--wait-ready", "--implicit-budget=none"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    stderr.wait_for(&["no pod left to evict; waiting: "]).await;
    let deployments: Api<Deployment> = env.namespace.api();
    let delete = DeleteParams::background();
    deployments.delete("web", &delete).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    env.check(&before).await;
}

/// It lets pods go all the time: each replacement takes four seconds to become Ready, so the last of
/// twelve pods waits longer than both of these times for its turn.
#[tokio::test]
pub(crate) async fn a_budget_that_lets_pods_go_is_waited_for_and_not_bypassed() {
    let plane = ControlPlane::options()
        .with_everything()
        .pod_ready_after(Duration::from_secs(4))
        .start()
        .await
        .unwrap();
    // It ends with the process.
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    let env = TestEnvironment::new(plane, "in-turn").await;
    let (full, _) = two_nodes(&env, 12).await;
    BudgetFixture::max_unavailable("web", "web", json!(1))
        .create_counted(&env.namespace, 12)
        .await
        .unwrap();
    let before = env.pods_on(&full).await;
    let budget = format!("--bypass-pdb={}/web", env.namespace.name);
    let times = ["--force-after=36s", "--blocked-timeout=40s"];
    let arguments = [&[full.as_str(), &budget], &times[..]].concat();
    let output = env.drain_keeping(&arguments, 11).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn wait_ready_names_controllers_that_it_cannot_count() {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, "custom").await;
    let node = env.node("a");
    let fixture = NodeFixture::new(&node);
    fixture.create(env.namespace.client()).await.unwrap();
    let custom = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true,
    }]}});
    let pod = PodFixture::new("db-1").running_on(&node).patch(custom);
    let pod = pod.create(&env.namespace).await.unwrap();
    let output = env.drain(&[&node, "--wait-ready"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let told = format!(
        "--wait-ready does not wait for the pods of Cluster {}/db",
        env.namespace.name
    );
    let at = |part: &str| {
        output
            .stderr
            .find(part)
            .unwrap_or_else(|| panic!("{output:?}"))
    };
    assert!(at(&told) < at(": cordoned"), "{}", output.stderr);
    env.check(&[pod]).await;
}
