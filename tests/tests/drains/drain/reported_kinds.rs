//! A second case of each kind of report in [`super::reported`], which has the first.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use nodelife_tests::fixture::{BudgetFixture, PodFixture, WorkloadFixture};
use nodelife_tests::until;
use serde_json::json;

use super::reported::{
    add_node, deployment, has_failed, said, unknown_owner, with_job, with_nodes,
};
use super::support::{TestEnvironment, end, start};

/// Drains the node of the Job's pod, which says that it failed, as a kubelet does: a Job with a policy for
/// failures waits for that. What the drain said.
async fn drain_failing_pod(env: &TestEnvironment, node: &str) -> String {
    let drain = start(env, &[node, "--timeout=5m"]);
    let pod = until("the Job's pod on its way", async || {
        let mut pods = env.pods_on(node).await.into_iter();
        Ok(pods.find(|pod| pod.metadata.deletion_timestamp.is_some()))
    })
    .await;
    let (how, failed) = (
        PatchParams::default(),
        json!({"status": {"phase": "Failed"}}),
    );
    let (pods, name) = (env.pods(), pod.name_any());
    pods.patch_status(&name, &how, &Patch::Merge(failed))
        .await
        .unwrap();
    let (status, stderr) = end(env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    stderr
}

/// Jobs: the policy for failures decides, whatever the limit is.
#[tokio::test]
pub(crate) async fn a_job_whose_policy_fails_it_is_foretold() {
    let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let policy = json!({"rules": [{"action": "FailJob", "onPodConditions": disrupted}]});
    let spec = json!({"backoffLimit": 6, "podFailurePolicy": policy});
    let (env, node, jobs) = with_job("policy-job", spec).await;
    let before = env.pods_on(&node).await;
    let told = drain_failing_pod(&env, &node).await;
    for part in ["its podFailurePolicy says so", "wait-completed"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    has_failed(&jobs).await;
    env.check(&before).await;
}

/// Jobs: an eviction that counts for nothing is none to warn of.
#[tokio::test]
pub(crate) async fn a_job_that_survives_its_eviction_is_no_reason_to_warn() {
    let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": disrupted}]});
    let spec = json!({"backoffLimit": 0, "podFailurePolicy": policy});
    let (env, node, jobs) = with_job("ignored-job", spec).await;
    add_node(&env, &env.node("b")).await;
    let before = env.pods_on(&node).await;
    let told = drain_failing_pod(&env, &node).await;
    assert!(!told.contains("for good"), "{told}");
    until("another pod of the Job", async || {
        let status = jobs.get("train").await?.status;
        Ok(status.filter(|status| status.ready == Some(1)))
    })
    .await;
    env.check(&before).await;
}

/// Owners that are pods (kubeflow/spark-operator#2961): executors end with their driver, which says so.
#[tokio::test]
pub(crate) async fn the_driver_of_executors_says_what_ends_with_it() {
    let (env, nodes) = with_nodes("spark", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let owner = unknown_owner(ns, env.plane, "pi").await;
    let driver = PodFixture::new("pi-driver").bound_to(node);
    let driver = driver.patch(json!({"metadata": {"ownerReferences": [owner]}}));
    let driver = driver.spec(json!({"restartPolicy": "Never"}));
    let driver = driver.create(ns).await.unwrap();
    for name in ["pi-exec-1", "pi-exec-2"] {
        let executor = PodFixture::new(name).owned_by(&driver).bound_to(node);
        executor.create(ns).await.unwrap();
    }
    let before = env.pods_on(node).await;
    let output = env.drain(&[node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let ends = "pods that it controls end with it: pi-exec-1, pi-exec-2";
    said(&output, &[ends, "whether Thing pi makes another pod"]);
    env.check(&before).await;
}

/// The only replica: of a StatefulSet, under a percentage.
#[tokio::test]
pub(crate) async fn the_only_pod_of_a_stateful_set_is_named() {
    let (env, nodes) = with_nodes("only-db", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let pool = json!({"nodeSelector": {"pool": ns.name}});
    let db = WorkloadFixture::stateful_set("db", 1).pod_spec(pool);
    db.create_ready(ns, 1).await.unwrap();
    let budget = BudgetFixture::max_unavailable("db", "db", json!("50%"));
    budget.create_counted(ns, 1).await.unwrap();
    add_node(&env, &env.node("b")).await;
    let before = env.pods_on(node).await;
    let output = env.drain(&[node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    said(&output, &["nothing serves until its replacement is Ready"]);
    env.check(&before).await;
}

/// Whose budget it is (elastic/cloud-on-k8s#1824): its owner is named, and waited for.
#[tokio::test]
pub(crate) async fn the_owner_of_a_budget_is_named_and_waited_for() {
    let (env, nodes) = with_nodes("owned-budget", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let owner = unknown_owner(ns, env.plane, "logs").await;
    let of_logs = json!({"metadata": {"ownerReferences": [owner]}});
    let es = deployment(&env, "es", 3).patch(of_logs.clone());
    es.create_ready(ns, 3).await.unwrap();
    let budget = BudgetFixture::min_available("es", "es", json!(3)).patch(of_logs);
    budget.create_counted(ns, 3).await.unwrap();
    add_node(&env, &env.node("b")).await;
    let before = env.pods_on(node).await;
    let output = env.drain(&[node, "--timeout=5s"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    said(&output, &["it belongs to Thing logs"]);
    let drain = start(&env, &[node, "--timeout=5m"]);
    let lifted = Patch::Merge(json!({"spec": {"minAvailable": 2}}));
    let budgets: Api<PodDisruptionBudget> = ns.api();
    let how = PatchParams::default();
    budgets.patch("es", &how, &lifted).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&before).await;
}

/// Smaller ones (kubernetes-sigs/kueue#13830): a pod that has ended, and that only a finalizer keeps.
#[tokio::test]
pub(crate) async fn a_finished_pod_that_a_finalizer_keeps_is_named() {
    let (env, nodes) = with_nodes("kept", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let kept = json!({"metadata": {"finalizers": ["kueue.test/managed"]}});
    let pod = PodFixture::new("done").bound_to(node).patch(kept);
    pod.spec(json!({"restartPolicy": "Never"}))
        .create(ns)
        .await
        .unwrap();
    let ended = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let how = PatchParams::default();
    env.pods().patch_status("done", &how, &ended).await.unwrap();
    let before = env.pods_on(node).await;
    let words = [node, "--force", "--timeout=5s"];
    let output = env.drain(&words).await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    said(&output, &["kueue.test/managed"]);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    env.pods().patch("done", &how, &free).await.unwrap();
    env.check(&before).await;
}
