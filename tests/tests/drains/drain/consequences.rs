//! Tests of drains that see what follows from an eviction, beside whether it is allowed.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{AuditEvent, ControlPlane, until};
use serde_json::json;

use super::support::{
    Stderr, TestEnvironment, apart_with_node, end, environment_with_node, report, start,
};

/// A ReplicaSet that can create no pod says so; time alone is no reason to go on.
#[tokio::test]
pub(crate) async fn the_last_ready_pod_stays_while_a_quota_refuses_replacements() {
    let web = |own| WorkloadFixture::deployment("web", 2).pod_spec(own);
    drain_under_quota("quota", web).await;
}

/// A StatefulSet has no condition for that: its Events say it.
#[tokio::test]
pub(crate) async fn a_stateful_set_that_a_quota_refuses_replacements_is_named() {
    let db = |own| WorkloadFixture::stateful_set("db", 2).pod_spec(own);
    let stderr = drain_under_quota("quotaset", db).await;
    let named = "/StatefulSet/db cannot create pods: Create Pod db-";
    assert!(stderr.contains(named), "{stderr}");
}

/// What a drain says that a quota lets replace none of two pods.
async fn drain_under_quota(
    name: &str,
    workload: impl FnOnce(serde_json::Value) -> WorkloadFixture,
) -> String {
    let env = TestEnvironment::new(ControlPlane::shared().await, name).await;
    let (ns, node) = (&env.namespace, env.node("a"));
    NodeFixture::kwok(&node).create(ns.client()).await.unwrap();
    let own = json!({"nodeSelector": {"kubernetes.io/hostname": node}});
    workload(own).create_ready(ns, 2).await.unwrap();
    allow_pods(&env, 0).await;
    let before = env.pods_on(&node).await;
    let output = env.drain(&[&node, "--timeout=45s"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    assert!(
        output.stderr.contains("exceeded quota: q"),
        "{}",
        output.stderr
    );
    // The status of a maintenance has the beginning of long reasons.
    let stays = "this last Ready pod stays until that changes";
    assert!(
        output.stderr.contains(stays) || !env.prints(),
        "{}",
        output.stderr
    );
    assert_eq!(env.evictions().await.len(), 1);
    env.check(&before).await;
    output.stderr.clone()
}

/// A quota that is counted.
pub(super) async fn allow_pods(env: &TestEnvironment, pods: usize) {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": pods.to_string()}}});
    let quotas: Api<ResourceQuota> = env.namespace.api();
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    until("the quota", async || {
        let status = quotas.get("q").await?.status.and_then(|status| status.hard);
        Ok(status.filter(|hard| !hard.is_empty()).map(|_| ()))
    })
    .await;
}

/// A webhook that fails closed and whose endpoints are the pods with `app: policy`; its name.
async fn fail_closed(env: &TestEnvironment) -> String {
    let ns = &env.namespace;
    let service = json!({
        "metadata": {"name": "policy"},
        "spec": {"selector": {"app": "policy"}, "ports": [{"port": 443}]},
    });
    let services: Api<Service> = ns.api();
    let service = serde_json::from_value(service).unwrap();
    services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    let name = format!("{}-policy", ns.name);
    let webhook = json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "validate.policy.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"service": {"namespace": ns.name, "name": "policy"}},
            // Nobody makes such objects.
            "rules": [{
                "apiGroups": ["policy.test"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["things"],
            }],
        }],
    });
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(ns.client().clone());
    let webhook = serde_json::from_value(webhook).unwrap();
    webhooks
        .create(&PostParams::default(), &webhook)
        .await
        .unwrap();
    name
}

async fn remove_webhook(env: &TestEnvironment, name: &str) {
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(env.namespace.client().clone());
    let how = DeleteParams::default();
    webhooks.delete(name, &how).await.unwrap();
}

/// kyverno/kyverno#16177: nothing can be created any more once the pod is gone.
#[tokio::test]
async fn the_only_endpoint_of_a_fail_closed_webhook_goes_last() {
    let (env, node) = environment_with_node("policy").await;
    let ns = &env.namespace;
    let webhook = fail_closed(&env).await;
    for (pod, app) in [("a-policy", "policy"), ("web", "web")] {
        let pod = PodFixture::new(pod).app(app).running_on(&node);
        pod.create(ns).await.unwrap();
    }
    let plan = || async {
        let words = [&node, "--force", "--dry-run=client", "-o", "json"];
        let plan = report(&env.drain(&words).await);
        let pods = plan["pods"].as_array().unwrap();
        let policy = pods.iter().find(|pod| pod["name"] == "a-policy").unwrap();
        (policy["wave"].clone(), policy["warnings"].to_string())
    };
    let (wave, warnings) = plan().await;
    assert_eq!(wave, 2, "{warnings}");
    let told =
        "no other endpoint of webhook validate.policy.test (failurePolicy Fail, CREATE things)";
    assert!(warnings.contains(told), "{warnings}");
    // With another endpoint it is a pod like others.
    let other = env.node("b");
    NodeFixture::new(&other).create(ns.client()).await.unwrap();
    let second = PodFixture::new("b-policy").app("policy").running_on(&other);
    second.create(ns).await.unwrap();
    let (wave, warnings) = plan().await;
    assert_eq!(wave, 1, "{warnings}");
    assert!(!warnings.contains("endpoint"), "{warnings}");
    remove_webhook(&env, &webhook).await;
    env.check_nothing_written().await;
}

/// kyverno/kyverno#16177, as it is drained.
#[tokio::test]
pub(crate) async fn the_last_endpoint_of_a_webhook_is_evicted_after_all_others() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "endpoint").await;
    let (ns, node) = (&env.namespace, env.node("a"));
    let fixture = |name: &str| NodeFixture::kwok(name).label("pool", &ns.name);
    let drained = fixture(&node);
    drained.create_schedulable(ns.client()).await.unwrap();
    for (name, replicas) in [("policy", 1), ("web", 4)] {
        let own = json!({"nodeSelector": {"pool": ns.name}});
        let workload = WorkloadFixture::deployment(name, replicas).pod_spec(own);
        workload.create_ready(ns, replicas as usize).await.unwrap();
    }
    let other = fixture(&env.node("b"));
    other.create_schedulable(ns.client()).await.unwrap();
    let webhook = fail_closed(&env).await;
    let before = env.pods_on(&node).await;
    let output = env.drain(&[&node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let told = "no other endpoint of webhook validate.policy.test (failurePolicy Fail";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    let evicted = env.evictions().await;
    let names: Vec<&str> = evicted.iter().map(AuditEvent::name).collect();
    let (last, others) = names.split_last().unwrap();
    assert!(last.starts_with("policy-"), "{names:?}");
    let webs = others.iter().filter(|name| name.starts_with("web-"));
    assert_eq!(webs.count(), 4, "{names:?}");
    remove_webhook(&env, &webhook).await;
    env.check(&before).await;
}

/// home-operations/tuppr#310: the drain runs in a pod of the node.
#[tokio::test]
pub(crate) async fn the_pod_that_a_drain_runs_in_goes_last() {
    let (mut env, node) = apart_with_node("own").await;
    let own = PodFixture::new("a-drain").running_on(&node);
    // Without a kubelet it terminates to the end, and its token is good as long.
    let own = own.spec(json!({
        "serviceAccountName": "default", "terminationGracePeriodSeconds": 100,
    }));
    let own = own.create(&env.namespace).await.unwrap();
    let web = env.running("web", &node).await;
    env.act_as(&own).await;
    let output = env.drain(&[&node, "--force", "--timeout=20s"]).await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    let told = "a-drain: it goes last: this drain runs in it";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    let evicted = env.evictions().await;
    let names: Vec<&str> = evicted.iter().map(AuditEvent::name).collect();
    assert_eq!(names, ["web", "a-drain"]);
    env.check(&[own, web]).await;
}

/// pdb-operator/pdb-operator#81: a pod restarts its group, and the next group waits until it is back.
#[tokio::test]
pub(crate) async fn groups_of_a_leader_worker_set_go_one_after_the_other() {
    let (env, node) = environment_with_node("groups").await;
    let (ns, other) = (&env.namespace, env.node("b"));
    NodeFixture::new(&other).create(ns.client()).await.unwrap();
    let owner = json!([{
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "m",
        "uid": "1", "controller": true,
    }]);
    let leaders = WorkloadFixture::stateful_set("m", 2);
    let leaders = leaders.patch(json!({"metadata": {"ownerReferences": owner}}));
    leaders.create(ns).await.unwrap();
    let workers = WorkloadFixture::stateful_set("m-1", 1);
    workers.create(ns).await.unwrap();
    let sets: Api<StatefulSet> = ns.api();
    let status = async |name: &str, pods: i32| {
        let status = json!({"status": {"replicas": pods, "readyReplicas": pods}});
        let (how, status) = (PatchParams::default(), Patch::Merge(status));
        sets.patch_status(name, &how, &status).await.unwrap()
    };
    let (leaders, workers) = (status("m", 2).await, status("m-1", 1).await);
    let member = async |name: &str, set: &StatefulSet, group: &str, node: &str| {
        let labels = json!({
            "leaderworkerset.sigs.k8s.io/name": "m",
            "leaderworkerset.sigs.k8s.io/group-index": group,
        });
        let pod = PodFixture::new(name).owned_by(set).running_on(node);
        let pod = pod.patch(json!({"metadata": {"labels": labels}}));
        pod.create(ns).await.unwrap()
    };
    let before = [
        member("m-0", &leaders, "0", &node).await,
        member("m-1-1", &workers, "1", &node).await,
    ];
    member("m-1", &leaders, "1", &other).await;
    member("m-0-1", &workers, "0", &other).await;
    let mut drain = start(&env, &[&node, "--timeout=5m"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let group = "its eviction restarts group 0 of LeaderWorkerSet m";
    let waits = "waiting for replacements: the implicit budget of";
    stderr.wait_for(&[group, waits]).await;
    assert_eq!(env.evictions().await.len(), 1, "{}", stderr.text);
    member("m-0", &leaders, "0", &other).await;
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    env.check(&before).await;
}
