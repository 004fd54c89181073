//! Tests of the selection and order of pods and nodes, with the API server alone.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::pod::running;
use nodelife_tests::fixture::{BudgetCounts, BudgetFixture, NodeFixture, PodFixture};
use serde_json::{Value, json};

use super::support::{
    TestEnvironment, conforms, end, end_all_but, environment_with_node, open, start,
};

#[tokio::test]
pub(crate) async fn a_partial_drain_leaves_impossible_pods_and_exits_with_7() {
    let (env, node) = environment_with_node("partial").await;
    let ns = &env.namespace;
    let held = env.running("held", &node).await;
    let free = env.running("free", &node).await;
    let status = BudgetCounts {
        expected: 1,
        healthy: 1,
        desired: 0,
        allowed: 1,
    };
    for name in ["one", "two"] {
        BudgetFixture::min_available(name, "held", json!(0))
            .create_with_status(ns, status)
            .await
            .unwrap();
    }
    let output = env
        .drain(&[&node, "--force", "--on-impossible=partial", "-o", "json"])
        .await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let report = env.report(&output).await;
    assert!(!report.is_drained(&node));
    let left = env.pods_on(&node).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].metadata.name.as_deref(), Some("held"));
    env.check(&[held, free]).await;
}

#[tokio::test]
pub(crate) async fn a_blocked_pod_delays_no_other_pod() {
    let (env, node) = environment_with_node("left-behind").await;
    let ns = &env.namespace;
    let held = env.running("held", &node).await;
    PodFixture::new("held-2")
        .app("held")
        .create(ns)
        .await
        .unwrap();
    let free = env.running("free", &node).await;
    let status = BudgetCounts {
        expected: 2,
        healthy: 1,
        desired: 1,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "held", json!(1))
        .create_with_status(ns, status)
        .await
        .unwrap();
    let lines_of = |stdout: &str| -> Vec<Value> {
        let lines = stdout.lines();
        let lines = lines.map(|line| serde_json::from_str(line).unwrap());
        lines.inspect(|line| conforms(line, "DrainEvent")).collect()
    };
    if env.prints() {
        let refused = env.drain(&[&node, "--events=jsonl"]).await;
        let lines = lines_of(&refused.stdout);
        assert_eq!(lines[0]["node"], node, "{lines:?}");
        assert_eq!(lines[0]["state"], "refused", "{lines:?}");
        assert_eq!(lines[1]["exitStatus"], 4, "{lines:?}");
    }
    let output = env
        .drain(&[&node, "--force", "--blocked-timeout=8s", "--events=jsonl"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let lines = lines_of(&output.stdout);
    let budget = format!("{}/held", ns.name);
    if env.prints() {
        let last = |name: &str| lines.iter().rfind(|line| line["name"] == name).unwrap();
        assert_eq!(last("free")["outcome"], "evicted");
        assert_eq!(last("held")["outcome"], "blocked");
        assert_eq!(last("held")["budget"], budget);
        let told = lines.iter().filter(|line| line["state"].is_string());
        let told: Vec<&Value> = told.map(|line| &line["state"]).collect();
        assert_eq!(told, ["draining", "notDrained"]);
        assert_eq!(lines.last().unwrap()["exitStatus"], 5);
    } else {
        let report = env.report(&output).await;
        assert_eq!(report.outcomes(&node), [("blocked", 1), ("evicted", 1)]);
        let blocked = format!("blocked by budget {budget}");
        assert!(report.reason("held").contains(&blocked));
    }
    assert_eq!(env.pods_on(&node).await.len(), 1);
    env.check(&[held, free]).await;
}

/// Number 7: what is not Ready costs its budget nothing and goes first, by the API server's own
/// word (`canIgnorePDB` and the policies of unhealthy pods in
/// pkg/registry/core/pod/storage/eviction.go, v1.36.3).
#[tokio::test]
pub(crate) async fn unready_pods_are_evicted_under_an_exhausted_budget() {
    let (env, node) = environment_with_node("unready").await;
    let ns = &env.namespace;
    let mut pods = Vec::new();
    // The budget of the one has as many healthy pods as it wants; that of the other has too few,
    // and lets such pods go all the same.
    for (app, healthy, policy) in [("web", 2, "IfHealthyBudget"), ("db", 1, "AlwaysAllow")] {
        for (name, ready) in [("ready", true), ("unready", false)] {
            let pod = PodFixture::new(&format!("{app}-{name}")).app(app);
            let pod = pod.bound_to(&node).create(ns).await.unwrap();
            let status = Patch::Merge(json!({"status": running(&pod, ready)}));
            let (name, how) = (
                pod.metadata.name.as_deref().unwrap(),
                PatchParams::default(),
            );
            let patched = env.pods().patch_status(name, &how, &status).await;
            pods.push(patched.unwrap());
        }
        let elsewhere = PodFixture::new(&format!("{app}-elsewhere")).app(app);
        elsewhere.create(ns).await.unwrap();
        let status = BudgetCounts {
            expected: 3,
            healthy,
            desired: 2,
            allowed: 0,
        };
        BudgetFixture::min_available(app, app, json!(2))
            .patch(json!({"spec": {"unhealthyPodEvictionPolicy": policy}}))
            .create_with_status(ns, status)
            .await
            .unwrap();
    }
    let output = env.drain(&[&node, "--force", "--blocked-timeout=8s"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let left: Vec<_> = env.pods_on(&node).await;
    let left: Vec<_> = left
        .iter()
        .filter_map(|p| p.metadata.name.as_deref())
        .collect();
    assert_eq!(left, ["db-ready", "web-ready"], "{}", output.stderr);
    env.check(&pods).await;
}

/// Two pods of each of three priorities, of which the first of the lowest is under a budget that
/// allows nothing now; all take a while to go.
async fn three_tiers(env: &TestEnvironment, node: &str) -> Vec<Pod> {
    let classes = ["", "system-cluster-critical", "system-node-critical"];
    let mut pods = Vec::new();
    for (tier, class) in classes.into_iter().enumerate() {
        for i in [1, 2] {
            let pod = PodFixture::new(&format!("tier-{tier}-{i}")).running_on(node);
            let pod = pod.spec(json!({
                "priorityClassName": class,
                "terminationGracePeriodSeconds": 30,
            }));
            pods.push(pod.create(&env.namespace).await.unwrap());
        }
    }
    let status = BudgetCounts {
        expected: 3,
        healthy: 2,
        desired: 2,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "tier-0-1", json!(2))
        .create_with_status(&env.namespace, status)
        .await
        .unwrap();
    pods
}

/// Number 13: a pod that only a budget blocks delays no others.
#[tokio::test]
pub(crate) async fn priority_order_skips_blocked_pods() {
    let (env, node) = environment_with_node("priority").await;
    let pods = three_tiers(&env, &node).await;
    let drain = start(
        &env,
        &[&node, "--force", "--order=priority", "--on-impossible=wait"],
    );
    end_all_but(&env, &node, Some("tier-0-1")).await;
    write_status(&env.namespace, "held", open()).await.unwrap();
    let (ended, ()) = tokio::join!(end(&env, drain), end_all_but(&env, &node, None));
    assert_eq!(ended.0, Some(0), "{}", ended.1);
    env.check(&pods).await;
}

#[tokio::test]
pub(crate) async fn higher_priority_pods_are_evicted_after_lower_ones() {
    let (env, node) = environment_with_node("order").await;
    let ns = &env.namespace;
    let mut pods = Vec::new();
    for (name, class) in [("a-high", "system-cluster-critical"), ("b-low", "")] {
        let pod = PodFixture::new(name)
            .running_on(&node)
            .spec(json!({"priorityClassName": class}))
            .create(ns);
        pods.push(pod.await.unwrap());
    }
    let output = env.drain(&[&node, "--force", "--order=priority"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let order: Vec<String> = env
        .evictions()
        .await
        .iter()
        .map(|event| event.name().to_owned())
        .collect();
    assert_eq!(order, ["b-low", "a-high"]);
    env.check(&pods).await;
}

/// Number 21: the other pods stay, and the output counts them.
#[tokio::test]
pub(crate) async fn a_pod_selector_leaves_and_counts_other_pods() {
    let (env, node) = environment_with_node("selected").await;
    let ns = &env.namespace;
    let mut pods = Vec::new();
    for name in ["web", "db", "cache"] {
        let pod = PodFixture::new(name).running_on(&node).create(ns);
        pods.push(pod.await.unwrap());
    }
    let output = env
        .drain(&[&node, "--force", "--pod-selector=app in (web)"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let line =
        format!("node/{node}: drained of the pods that match --pod-selector; 2 other pods left");
    assert!(output.stderr.contains(&line), "{}", output.stderr);
    assert_eq!(env.pods_on(&node).await.len(), 2);
    env.check(&pods[..1]).await;
}

/// Defect n: kubectl drains one node after the other, whatever its flags.
#[tokio::test]
pub(crate) async fn a_stuck_node_delays_no_other_with_concurrency() {
    let (env, first) = environment_with_node("concurrent").await;
    let second = env.node("b");
    NodeFixture::new(&second)
        .create(env.namespace.client())
        .await
        .unwrap();
    let ns = &env.namespace;
    let stuck = PodFixture::new("stuck")
        .running_on(&first)
        .patch(json!({"metadata": {"finalizers": ["nodelife.test/hold"]}}))
        .create(ns)
        .await
        .unwrap();
    let free = env.running("free", &second).await;
    let arguments: [&str; 5] = [&first, &second, "--force", "-o=json", "--timeout=30s"];
    let output = env
        .drain(&[&arguments[..], &["--concurrency=2"]].concat())
        .await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    let report = env.report(&output).await;
    assert!(!report.is_drained(&first) && report.is_drained(&second));
    // Number 17: the output names the finalizer.
    assert!(
        output
            .stderr
            .contains("held by finalizers (nodelife.test/hold)"),
        "{}",
        output.stderr
    );
    release(&env, "stuck").await;
    env.check(&[stuck, free]).await;
}

/// A pod whose deletion is long overdue is not waited for, and another one is.
#[tokio::test]
pub(crate) async fn an_overdue_pod_is_skipped_on_request() {
    let (env, node) = environment_with_node("overdue").await;
    let ns = &env.namespace;
    let pod = PodFixture::new("old")
        .running_on(&node)
        .patch(json!({"metadata": {"finalizers": ["nodelife.test/hold"]}}))
        .create(ns)
        .await
        .unwrap();
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("old", &now).await.unwrap();
    let patient = env.drain(&[&node, "--force", "--timeout=30s"]).await;
    assert_eq!(patient.status, Some(6), "{}", patient.stderr);
    let flag = "--skip-wait-for-delete-timeout=1";
    let output = env.drain(&[&node, "--force", flag]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(env.pods_on(&node).await.len(), 1);
    release(&env, "old").await;
    env.check(&[pod]).await;
}

async fn release(env: &TestEnvironment, pod: &str) {
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    env.pods()
        .patch(pod, &PatchParams::default(), &free)
        .await
        .unwrap();
}
