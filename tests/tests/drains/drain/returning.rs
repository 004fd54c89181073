//! Tests of pods that come back to the cordoned node.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::DeleteParams;
use nodelife_tests::ControlPlane;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use serde_json::{Value, json};

use super::support::{Stderr, TestEnvironment, end, environment_with_node, start, wait_for_cordon};

/// Drains a node to which the only pod of a Deployment comes back, beside one that does not.
async fn drain_returning(what: &str, pod_spec: impl Fn(&str) -> Value, reason: &str) {
    let env = TestEnvironment::new(ControlPlane::shared().await, what).await;
    let node = env.node("a");
    let ns = &env.namespace;
    NodeFixture::kwok(&node)
        .label("pool", &ns.name)
        .create(ns.client())
        .await
        .unwrap();
    WorkloadFixture::deployment("web", 1)
        .pod_spec(pod_spec(&node))
        .create_ready(ns, 1)
        .await
        .unwrap();
    let free = PodFixture::new("free").bound_to(&node);
    free.create(ns).await.unwrap();
    let hold = PodFixture::new("hold").running_on(&node);
    hold.create(ns).await.unwrap();
    let before = env.pods_on(&node).await;
    let plan = env.drain(&[&node, "--force", "--dry-run"]).await;
    let foreseen = format!("may come back to its node after the eviction: {reason}");
    assert!(plan.stderr.contains(&foreseen), "{}", plan.stderr);

    let rule = "--pod-rule=app=hold:wait-completed";
    let mut drain = start(&env, &[&node, "--force", rule]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let why = format!("brings it back to the cordoned node: {reason}");
    stderr.wait_for(&[&why]).await;
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("hold", &now).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let stderr = stderr.text;
    assert_eq!(status, Some(7), "{stderr}");
    let ns = &ns.name;
    assert!(stderr.contains(&format!("ReplicaSet {ns}/web-")));
    assert!(!env.prints() || stderr.contains(&format!("{ns}/free: gone")));
    // One eviction each, and none of the pod that came back.
    assert_eq!(env.evictions().await.len(), 2);
    env.check(&before).await;
}

#[tokio::test]
pub(crate) async fn a_pod_whose_template_names_the_node_is_evicted_once() {
    let names_node = |node: &str| json!({"nodeName": node});
    let reason = "the template of its controller names the node";
    drain_returning("names-node", names_node, reason).await;
}

#[tokio::test]
pub(crate) async fn a_pod_that_tolerates_the_cordon_is_evicted_once() {
    let tolerates = |node: &str| {
        json!({
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
        })
    };
    let reason = "it tolerates node.kubernetes.io/unschedulable";
    drain_returning("tolerates", tolerates, reason).await;
}

/// The DaemonSets were listed before it was created.
#[tokio::test]
pub(crate) async fn pods_of_a_daemon_set_created_meanwhile_stay() {
    let (env, node) = environment_with_node("new-daemon-set").await;
    let ns = &env.namespace;
    let agent = async |name: &str| {
        let daemon_set = WorkloadFixture::daemon_set(name);
        daemon_set.create(ns).await.unwrap();
        let owner = ns.api::<DaemonSet>().get(name).await.unwrap();
        let pod = PodFixture::new(&format!("{name}-1")).running_on(&node);
        pod.owned_by(&owner).create(ns).await.unwrap();
    };
    agent("first").await;
    let hold = PodFixture::new("hold").running_on(&node);
    hold.create(ns).await.unwrap();
    let rule = "--pod-rule=app=hold:wait-completed";
    let mut drain = start(&env, &[&node, "--force", rule]);
    let mut stderr = Stderr::of(&env, &mut drain);
    wait_for_cordon(&env, &node).await;
    stderr.wait_for(&["cordoned"]).await;
    agent("second").await;
    // What the watch shows after this pod was shown the other before.
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("hold", &now).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    assert_eq!(env.pods_on(&node).await.len(), 2);
    assert_eq!(env.evictions().await.len(), 0);
    env.check(&[]).await;
}
