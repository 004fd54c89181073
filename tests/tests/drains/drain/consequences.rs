//! Tests of drains that see what follows from an eviction, beside whether it is allowed.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ResourceQuota, Service};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{ControlPlane, until};
use serde_json::json;

use super::support::{TestEnvironment, environment_with_node, report};

/// A ReplicaSet that can create no pod says so; time alone is no reason to go on.
#[tokio::test]
pub(crate) async fn the_last_ready_pod_stays_while_a_quota_refuses_replacements() {
    let web = |own| WorkloadFixture::deployment("web", 2).pod_spec(own);
    drain_under_quota("quota", web).await;
}

/// A StatefulSet has no condition for that: its Events say it.
#[tokio::test]
async fn a_stateful_set_that_a_quota_refuses_replacements_is_named() {
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

/// kyverno/kyverno#16177: nothing can be created any more once the pod is gone.
#[tokio::test]
async fn the_only_endpoint_of_a_fail_closed_webhook_goes_last() {
    let (env, node) = environment_with_node("policy").await;
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
    webhooks
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    env.check_nothing_written().await;
}
