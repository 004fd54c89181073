//! Tests of what becomes of maintenances when the manifests are applied again, or removed.

use std::os::unix::fs::symlink;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::{Build, NAMESPACE, SELECTOR};
use nodelife_tests::kubectl::run;
use nodelife_tests::{ControlPlane, Identity, Parts, PlaneLease, TIMEOUT, program, until};
use serde_json::{Value, json};
use tokio::process::Command;

use super::scene::{Scene, folder};

const DEFINITION: &str = "crd/nodemaintenances.nodelife.dev";

/// The manifests with a maintenance of node `a`.
async fn maintained(plane: &ControlPlane) -> Scene<'_> {
    let scene = Scene::install(plane).await;
    let spec = json!({"nodes": ["a"], "drain": {"nodeConditions": true}});
    scene.create("upgrade", &spec).await;
    scene
}

/// The same with the node, as it is before. The replicas have another node to go to: their budget
/// keeps the last one.
async fn maintained_node(plane: &ControlPlane) -> (Scene<'_>, Value) {
    let scene = maintained(plane).await;
    for name in ["a", "b"] {
        let node = NodeFixture::kwok(name);
        node.create(&scene.admin).await.unwrap();
    }
    let before = scene.untouched("a").await;
    (scene, before)
}

#[tokio::test]
async fn removed_in_the_documented_order_nothing_is_left() {
    let plane = PlaneLease::take(Parts::All).await.unwrap();
    let (scene, before) = maintained_node(&plane).await;
    let controller = scene.start(&[]).await;
    scene.drained("upgrade").await;
    assert_ne!(scene.node("a").await, before);
    scene.run(&["delete", "nodemaintenances", "--all"]).await;
    assert_eq!(scene.untouched("a").await, before);
    scene.run(&["delete", "-k", &folder()]).await;
    controller.terminate(TIMEOUT).await.unwrap();
    nothing_is_left(&scene).await;
    // It may be the webhook's.
    scene.run(&["get", "namespace", NAMESPACE]).await;
}

#[tokio::test]
async fn a_maintenance_without_a_controller_is_given_back() {
    let plane = PlaneLease::take(Parts::All).await.unwrap();
    let (scene, before) = maintained_node(&plane).await;
    let controller = scene.start(&[]).await;
    scene.drained("upgrade").await;
    // Everything at once, and the controller first.
    controller.kill().await.unwrap();
    scene.run(&["delete", "namespace", NAMESPACE]).await;
    let delete = [
        "delete",
        "--ignore-not-found",
        "--wait=false",
        "-k",
        &folder(),
    ];
    scene.run(&delete).await;
    until("the deletion of the maintenance", async || {
        let found = scene.get(&["nlm", "upgrade"]).await?;
        Ok(found["metadata"]["deletionTimestamp"]
            .is_string()
            .then_some(()))
    })
    .await;
    assert_ne!(scene.node("a").await, before, "nobody gave it back");

    let cancel = ["nodelife", "maintenance", "cancel", "upgrade"];
    let cancel = [&cancel[..], &["--without-controller"]].concat();
    let cancelled = scene.kubectl.run(cancel).await.unwrap();
    assert_eq!(cancelled.status, Some(0), "{}", cancelled.stderr);
    let told = cancelled.stderr.contains("node/a: uncordoned");
    assert!(told, "{}", cancelled.stderr);
    assert_eq!(scene.untouched("a").await, before);
    nothing_is_left(&scene).await;
}

/// No object of the controller, and no definition.
async fn nothing_is_left(scene: &Scene<'_>) {
    let definition = ["get", DEFINITION, "--ignore-not-found", "-o", "name"];
    until("the definition's end", async || {
        let left = scene.kubectl.run(definition).await?.success()?;
        Ok(left.is_empty().then_some(()))
    })
    .await;
    let kinds = "deployments,pods,serviceaccounts,configmaps,poddisruptionbudgets,roles,rolebindings,\
        clusterroles,clusterrolebindings";
    let selector = format!("{SELECTOR},app.kubernetes.io/component=controller");
    let ours = ["get", kinds, "-A", "-l", &selector, "-o", "name"];
    until("nothing of the controller", async || {
        let left = scene.run(&ours).await;
        anyhow::ensure!(left.is_empty(), "{left}");
        Ok(Some(()))
    })
    .await;
}

/// From the last release, where there is one, and in each way to apply.
#[tokio::test]
async fn an_upgrade_keeps_maintenances_and_a_second_one_changes_nothing() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = maintained(&plane).await;
    let former = Build::previous().unwrap().manifests.join("controller");
    if former.is_dir() {
        let former = former.display().to_string();
        scene.run(&["apply", "-k", &former]).await;
    }
    let uid = async || scene.get(&["nlm", "upgrade"]).await.unwrap()["metadata"]["uid"].clone();
    let before = uid().await;
    let folder = folder();
    for way in ["--server-side=false", "--server-side"] {
        scene.apply(&[way]).await;
        scene.apply(&[way]).await;
        let diff = scene.run(&["diff", way, "-k", &folder]).await;
        assert_eq!(diff, "", "{way}");
        assert_eq!(uid().await, before, "{way}");
    }
    let namespaces: Api<Namespace> = Api::all(scene.admin.clone());
    let labels = namespaces.get(NAMESPACE).await.unwrap().metadata.labels;
    let level = labels.unwrap_or_default();
    let level = level.get("pod-security.kubernetes.io/enforce").cloned();
    assert_eq!(level.as_deref(), Some("restricted"));
}

/// Where a maintenance is to be cancelled, TAB knows its name.
#[tokio::test]
async fn names_of_maintenances_are_completed() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = maintained(&plane).await;
    // As kubectl asks: a program of its own name.
    let ask = plane.folder().join("kubectl_complete-nodelife");
    symlink(program::nodelife().unwrap(), &ask).unwrap();
    let kubeconfig = plane.kubeconfig_file(&Identity::Admin).unwrap();
    until("an answer", async || {
        let mut command = Command::new(&ask);
        command.env_clear().env("KUBECONFIG", &kubeconfig);
        command.args(["maintenance", "cancel", "up"]);
        let answer = run(command, "").await?.success()?;
        anyhow::ensure!(answer == "upgrade\n:4\n", "{answer}");
        Ok(Some(()))
    })
    .await;
    scene.run(&["get", "nlm", "upgrade"]).await;
}
