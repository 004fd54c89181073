//! Tests of defects of `kubectl drain` v1.37 that nodelife does not repeat, with the API server
//! alone: the test plays the kubelet and the controllers.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{Identity, until};
use serde_json::json;

use super::support::{
    CORDON, READ, Stderr, apart_with_node, blocked_pod, end, environment_with_node, interrupt,
    open, start, wait_for_cordon,
};

#[tokio::test]
pub(crate) async fn a_blocked_eviction_is_explained_once_and_retried() {
    let (env, node) = environment_with_node("explained").await;
    let pod = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    let ns = &env.namespace.name;
    let line = format!("{ns}/web: blocked by budget {ns}/web: needs 2 healthy pods and has 2 of 3");
    if env.prints() {
        assert_eq!(stderr.matches(&line).count(), 1, "{stderr}");
    }
    let evictions = env.evictions().await;
    assert_eq!(evictions.len(), 1, "{evictions:#?}");
    env.check(&[pod]).await;
}

#[tokio::test]
pub(crate) async fn a_blocked_drain_exits_with_5_at_its_timeout() {
    let (env, node) = environment_with_node("timeout").await;
    let pod = blocked_pod(&env, &node).await;
    let begun = std::time::Instant::now();
    let output = env
        .drain(&[&node, "--force", "--timeout=30s", "-o", "json"])
        .await;
    assert!(begun.elapsed() < Duration::from_mins(2));
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let report = env.report(&output).await;
    assert_eq!(report.outcomes(&node), [("blocked", 1)]);
    let budget = format!("{}/web", env.namespace.name);
    if let Some(document) = &report.document {
        assert_eq!(document["stopped"], "deadline");
        assert_eq!(document["pods"][0]["budget"], budget);
    }
    let blocked = format!("blocked by budget {budget}");
    let reason = report.reason("web");
    assert!(reason.contains(&blocked), "{reason}");
    env.check(&[pod]).await;
}

/// Defect c: after a refusal, kubectl adopts any pod of that name.
#[tokio::test]
pub(crate) async fn a_replacement_on_another_node_is_never_evicted() {
    let (env, node) = environment_with_node("replaced").await;
    let other = env.node("b");
    NodeFixture::new(&other)
        .create(env.namespace.client())
        .await
        .unwrap();
    let pod = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("web", &now).await.unwrap();
    let new = env.running("web", &other).await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    let there = env.pods().get("web").await.unwrap();
    assert_eq!(there.metadata.uid, new.metadata.uid);
    assert_eq!(there.metadata.deletion_timestamp, None);
    env.check(&[pod]).await;
}

/// Defect b: kubectl never lists again.
#[tokio::test]
pub(crate) async fn a_pod_bound_late_is_evicted_too() {
    let (env, node) = environment_with_node("late").await;
    let first = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    // Not running_on: it may be gone before its status is written.
    let late = PodFixture::new("late")
        .bound_to(&node)
        .create(&env.namespace)
        .await
        .unwrap();
    until("the late pod gone", async || {
        Ok(env.pods().get_opt("late").await?.is_none().then_some(()))
    })
    .await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    assert!(env.pods_on(&node).await.is_empty());
    env.check(&[first, late]).await;
}

/// Defect i: an owner that is gone brings nothing back.
#[tokio::test]
pub(crate) async fn an_orphan_of_a_deleted_controller_needs_force() {
    let (env, node) = environment_with_node("orphan").await;
    PodFixture::new("orphan")
        .running_on(&node)
        .patch(json!({"metadata": {"ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone",
            "uid": "00000000-0000-0000-0000-000000000000", "controller": true,
        }]}}))
        .create(&env.namespace)
        .await
        .unwrap();
    let output = env.drain(&[&node]).await;
    assert_eq!(output.status, Some(4), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("its controller ReplicaSet gone is gone"),
        "{}",
        output.stderr
    );
    env.check_nothing_written().await;
}

/// Defect j: only apps/v1 counts as a DaemonSet for kubectl.
#[tokio::test]
pub(crate) async fn daemon_sets_of_other_api_groups_are_left_alone() {
    let (env, node) = environment_with_node("kruise").await;
    PodFixture::new("agent")
        .running_on(&node)
        .patch(json!({"metadata": {"ownerReferences": [{
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "DaemonSet", "name": "agent",
            "uid": "00000000-0000-0000-0000-000000000000", "controller": true,
        }]}}))
        .create(&env.namespace)
        .await
        .unwrap();
    let output = env.drain(&[&node]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(env.pods_on(&node).await.len(), 1);
    env.check(&[]).await;
}

/// Defect s: in a terminating namespace every answer is 403, also for a pod that is gone.
#[tokio::test]
pub(crate) async fn a_pod_deleted_in_a_terminating_namespace_is_gone() {
    let (env, node) = environment_with_node("terminating").await;
    let pod = env.running("held", &node).await;
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
        kube::Api::all(env.namespace.client().clone());
    // No namespace controller runs, so it stays like this.
    namespaces
        .delete(&env.namespace.name, &DeleteParams::default())
        .await
        .unwrap();
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("held", &now).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&[pod]).await;
}

/// Stuck: evicted, and a finalizer holds it.
#[tokio::test]
pub(crate) async fn a_stuck_pod_exits_with_6() {
    let (env, node) = environment_with_node("stuck").await;
    let pod = PodFixture::new("held")
        .running_on(&node)
        .patch(json!({"metadata": {"finalizers": ["nodelife.test/hold"]}}))
        .create(&env.namespace)
        .await
        .unwrap();
    let arguments = [&*node, "--force", "--pod-timeout=1s", "-o=json"];
    let output = env.drain(&arguments).await;
    assert_eq!(output.status, Some(6), "{}", output.stderr);
    let (ns, message) = (
        &env.namespace.name,
        "evicted, but not gone within --pod-timeout",
    );
    let line = format!("{ns}/held on {node}: {message} (stuck)");
    assert!(
        !env.prints() || output.stderr.contains(&line),
        "{}",
        output.stderr
    );
    let report = env.report(&output).await;
    assert_eq!(report.outcomes(&node), [("stuck", 1)]);
    let reason = report.reason("held");
    assert!(
        reason.contains("held by finalizers (nodelife.test/hold)"),
        "{reason}"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    env.pods()
        .patch("held", &PatchParams::default(), &free)
        .await
        .unwrap();
    env.check(&[pod]).await;
}

/// Defect o: Ctrl-C says how things stand and how to go on, and a second run does.
#[tokio::test]
async fn ctrl_c_stops_evicting_and_a_second_run_continues() {
    let (env, node) = environment_with_node("interrupted").await;
    let pod = blocked_pod(&env, &node).await;
    let drain = start(&env, &[&node, "--force"]);
    wait_for_cordon(&env, &node).await;
    interrupt(&drain);
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    assert!(
        stderr.contains(&format!("kubectl nodelife drain {node} --undo")),
        "{stderr}"
    );
    assert!(env.evictions().await.is_empty());
    write_status(&env.namespace, "web", open()).await.unwrap();
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(env.evictions().await.len(), 1);
    env.check(&[pod]).await;
}

/// Defect h: kubectl hides the fatal error of one pod until all others have ended.
#[tokio::test]
async fn a_fatal_error_is_reported_while_other_pods_wait() {
    let (mut env, node) = apart_with_node("fatal").await;
    let held = blocked_pod(&env, &node).await;
    let other = PodFixture::new("other").running_on(&node);
    let other = other.create(&env.namespace).await.unwrap();
    env.act_with(&[READ, CORDON]).await;
    // May evict the one and not the other.
    let kubectl = Kubectl::new(env.plane, &Identity::Admin).unwrap();
    let ns = env.namespace.name.clone();
    let (space, user) = (format!("--namespace={ns}"), format!("--user={ns}-user"));
    let words = [
        "create",
        "role",
        "one",
        "--verb=create",
        "--resource=pods/eviction",
    ];
    let made = kubectl.run(words.into_iter().chain(["--resource-name=web", &space]));
    made.await.unwrap().success().unwrap();
    let bound = kubectl.run(["create", "rolebinding", "one", "--role=one", &user, &space]);
    bound.await.unwrap().success().unwrap();

    let mut drain = start(&env, &[&node, "--force"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let told = format!("{ns}/other: ");
    stderr
        .wait_for(&[&told, "cannot create resource \"pods/eviction\""])
        .await;
    // The other still waits.
    assert!(drain.try_wait().unwrap().is_none(), "{}", stderr.text);
    assert_eq!(env.pods_on(&node).await.len(), 2);
    write_status(&env.namespace, "web", open()).await.unwrap();
    let (status, ()) = tokio::join!(drain.wait(), stderr.read_to_end());
    assert_eq!(status.unwrap().code(), Some(7), "{}", stderr.text);
    env.check(&[held, other]).await;
}

/// Defect k: of several warnings kubectl keeps the last.
#[tokio::test]
pub(crate) async fn every_warning_of_a_pod_is_printed() {
    let (env, node) = environment_with_node("warnings").await;
    let pod = PodFixture::new("scratch")
        .running_on(&node)
        .spec(json!({"volumes": [{"name": "tmp", "emptyDir": {}}]}))
        .create(&env.namespace)
        .await
        .unwrap();
    let output = env
        .drain(&[&node, "--force", "--delete-emptydir-data"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    for warning in [
        "the data of its emptyDir volume would be lost",
        "no controller would recreate it",
    ] {
        assert!(output.stderr.contains(warning), "{}", output.stderr);
    }
    env.check(&[pod]).await;
}
