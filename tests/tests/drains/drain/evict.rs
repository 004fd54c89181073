//! Tests of `kubectl nodelife evict`.

use kube::api::{DeleteParams, ListParams};
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::kubectl;
use serde_json::json;

use super::support::{
    EVICT, Stderr, blocked_pod, end, environment_with_node, open, report, start_command,
};

/// What `evict` reads: neither nodes nor another namespace.
const READ_PODS: super::support::Permission = (
    "read-pods",
    "get,list,watch",
    "pods,poddisruptionbudgets.policy",
);

#[tokio::test]
async fn a_named_pod_is_evicted_and_its_node_left_alone() {
    let (mut env, node) = environment_with_node("evict").await;
    env.act_in_namespace(&[READ_PODS, EVICT]).await;
    let ns = &env.namespace;
    let mut pods = Vec::new();
    for name in ["one", "two", "stays"] {
        let pod = PodFixture::new(name)
            .running_on(&node)
            .spec(json!({"volumes": [{"name": "tmp", "emptyDir": {}}]}));
        pods.push(pod.create(ns).await.unwrap());
    }
    let words = ["evict", "one", "pod/two", "-n", &ns.name];
    let dry = [&words[..], &["--dry-run", "-o=json"]].concat();
    let output = kubectl::run(env.nodelife(&dry), "").await.unwrap();
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(report(&output)["pods"].as_array().unwrap().len(), 2);
    env.check_nothing_written().await;

    let words = [&words[..], &["-o=json"]].concat();
    let output = kubectl::run(env.nodelife(&words), "").await.unwrap();
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let report = report(&output);
    assert_eq!(report["nodes"], json!([]), "{report:#}");
    assert_eq!(report["pods"][0]["node"], json!(node), "{report:#}");
    assert_eq!(env.pods_on(&node).await.len(), 1);
    assert!(!env.is_cordoned(&node).await);
    let requests = env.requests().await;
    let of_nodes = requests.iter().find(|event| event.is("patch", "nodes"));
    assert!(of_nodes.is_none(), "{of_nodes:?}");
    env.check(&pods[..2]).await;
}

#[tokio::test]
async fn a_blocked_pod_is_explained_and_a_missing_one_named() {
    let (env, node) = environment_with_node("evict-blocked").await;
    let held = blocked_pod(&env, &node).await;
    let ns = &env.namespace.name;
    let dry = ["evict", "web", "-n", ns, "--dry-run"];
    let output = kubectl::run(env.nodelife(&dry), "").await.unwrap();
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let words = ["evict", "web", "-n", ns, "--timeout=10s", "-o=json"];
    let output = kubectl::run(env.nodelife(&words), "").await.unwrap();
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let budget = json!(format!("{ns}/web"));
    assert_eq!(report(&output)["pods"][0]["budget"], budget);
    let text = &output.stderr;
    assert!(
        text.contains(&format!("blocked by budget {ns}/web")),
        "{text}"
    );
    assert!(
        !text.contains("--undo") && !text.contains("node/"),
        "{text}"
    );

    let words = ["evict", "web", "nowhere", "-n", ns];
    let output = kubectl::run(env.nodelife(&words), "").await.unwrap();
    assert_eq!(output.status, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("pods \"nowhere\" not found"));
    env.check(&[held]).await;
}

#[tokio::test]
async fn without_the_right_to_evict_nothing_is_tried() {
    let (mut env, node) = environment_with_node("evict-right").await;
    env.act_in_namespace(&[READ_PODS]).await;
    let ns = &env.namespace;
    let pod = PodFixture::new("one").running_on(&node);
    pod.create(ns).await.unwrap();
    let words = ["evict", "one", "-n", &ns.name];
    let output = kubectl::run(env.nodelife(&words), "").await.unwrap();
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let refused = format!(
        "refused: not allowed to create pods/eviction in namespace {}; nothing was changed",
        ns.name
    );
    assert!(output.stderr.contains(&refused), "{}", output.stderr);
    env.check_nothing_written().await;
}

#[tokio::test]
async fn another_pod_of_the_same_name_is_never_evicted() {
    let (env, node) = environment_with_node("evict-other").await;
    let held = blocked_pod(&env, &node).await;
    let ns = &env.namespace;
    let mut evict = start_command(&["evict"], env.nodelife(&["evict", "web", "-n", &ns.name]));
    let mut stderr = Stderr::of(&env, &mut evict);
    stderr.wait_for(&["blocked by budget"]).await;
    let now = DeleteParams::default().grace_period(0);
    env.pods().delete("web", &now).await.unwrap();
    let other = PodFixture::new("web").running_on(&node);
    let other = other.create(ns).await.unwrap();
    write_status(ns, "web", open()).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, evict), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
    let left = env.pods().list(&ListParams::default()).await.unwrap().items;
    assert!(
        left.iter()
            .any(|pod| pod.metadata.uid == other.metadata.uid)
    );
    env.check(&[held]).await;
}
