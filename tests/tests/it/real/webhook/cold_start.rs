//! A cluster without power, and the overlay `fail-closed` with every stricter rule.

use std::time::{Duration, Instant};

use nodelife_tests::installation::NAMESPACE;
use nodelife_tests::kubectl::run;
use nodelife_tests::real_nodes::{deployment, is_left_out};
use nodelife_tests::{
    Installation, Part, TIMEOUT, TestNamespace, needs_kubernetes, program, until,
};
use serde_json::json;
use tokio::process::Command;

use super::kubelets::static_pod;
use super::scene::Scene;
use crate::rotation::publish;

/// The API server calls the webhook no longer than this.
const CALL: Duration = Duration::from_secs(2);

/// Every rule that goes beyond the in-tree plugin.
const STRICTER: &str = "apiVersion: nodelife.dev/v1alpha1
kind: WebhookConfig
nodeRestriction:
  modes:
    podStatusMetadata: enforce
    mirrorPodLabels: enforce
    selfUncordon: enforce
    registrationOwners: enforce
    events: enforce
    selfDeletion: enforce
    csiDrivers: enforce
    ownLabels: enforce
  ownLabels: [topology.kubernetes.io/]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_fails_closed_starts_from_cold() {
    let reason = "a node publishes a ResourceSlice of resource.k8s.io/v1";
    if is_left_out() || !needs_kubernetes("1.34", reason).unwrap() {
        return;
    }
    let scene = Scene::start(3).await;
    let installation = scene.installation("overlays/fail-closed").await;
    installation.apply().await.unwrap();
    stricter(&installation).await;
    scene.sound(&installation).await;
    static_pod(&scene.nodes()[0], &installation.admin).await;
    let namespace = TestNamespace::create(&scene.cluster.plane, "cold")
        .await
        .unwrap();
    let web = deployment("web", 3, &["--serve", "8080"], 1);
    web.create_ready(&namespace, 3).await.unwrap();

    one_machine(&scene, &installation).await;
    whole_cluster(&scene, &installation).await;
    nodelife_tests::fixture::workload::wait_ready(&namespace, "web", 3)
        .await
        .unwrap();
    static_pod(&scene.nodes()[0], &installation.admin).await;
}

/// Configures every stricter rule, as manifests/README.md says.
async fn stricter(installation: &Installation<'_>) {
    let file = installation.overlay().join("config.yaml");
    std::fs::write(&file, STRICTER).unwrap();
    let file = file.display().to_string();
    let from = format!("--from-file={file}");
    let create = ["-n", NAMESPACE, "create", "configmap", "strict", &from];
    kubectl(installation, &create).await;
    let mut patch = vec![json!({"op": "add", "path": "/spec/template/spec/volumes/-",
        "value": {"name": "config", "configMap": {"name": "strict"}}})];
    for number in 0..2 {
        let container = format!("/spec/template/spec/containers/{number}");
        patch.extend([
            json!({"op": "add", "path": format!("{container}/args/-"), "value": "--config=/etc/nodelife/config/config.yaml"}),
            json!({"op": "add", "path": format!("{container}/volumeMounts/-"),
                "value": {"name": "config", "mountPath": "/etc/nodelife/config", "readOnly": true}}),
        ]);
    }
    let patch = json!(patch).to_string();
    let words = [
        "-n",
        NAMESPACE,
        "patch",
        "deployment",
        "nodelife-webhook",
        "--type=json",
        "-p",
    ];
    kubectl(installation, &[&words[..], &[&patch]].concat()).await;
    let rollout = [
        "-n",
        NAMESPACE,
        "rollout",
        "status",
        "deployment/nodelife-webhook",
    ];
    kubectl(installation, &rollout).await;

    let mut export = Command::new(program::webhook().unwrap());
    export.args(["export", "--config", &file]);
    export.args(["--webhook", "node-restriction.nodelife.dev"]);
    let rules = run(export, "").await.unwrap().success().unwrap();
    let rules = rules.replace("failurePolicy: Ignore", "failurePolicy: Fail");
    assert!(rules.contains("failurePolicy: Fail"), "{rules}");
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    let apply = run(installation.kubectl.command(apply), &rules).await;
    apply.unwrap().success().unwrap();
}

/// The machine of a replica loses its power: calls that wait for it fail, and soon none does.
async fn one_machine(scene: &Scene, installation: &Installation<'_>) {
    let [first, .., last] = scene.nodes() else {
        panic!("several nodes")
    };
    let client = scene.cluster.plane.node(&first.name).await.unwrap();
    last.power_off().await.unwrap();
    let off = Instant::now();
    let (mut calls, mut failed, mut round) = (0, 0, 0);
    let is_unknown = async || {
        let ready = scene.ready_since(installation).await;
        ready.iter().all(|(name, _)| *name != last.name)
    };
    let mut since = None;
    // Once the endpoint is gone, each call is answered.
    let mut answered = 0;
    while answered < 20 {
        assert!(off.elapsed() < TIMEOUT, "{failed} of {calls} calls failed");
        round += 1;
        calls += 1;
        if let Err(error) = publish(&client, &first.name, round).await {
            println!("{:.1} s: {error}", off.elapsed().as_secs_f32());
            failed += 1;
            answered = 0;
        } else if since.is_some() || is_unknown().await {
            since.get_or_insert_with(|| off.elapsed());
            answered += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let since = since.unwrap_or_default().as_secs_f32();
    println!(
        "a machine without power: {failed} of {calls} calls failed; Unknown after {since:.1} s"
    );
    scene.cluster.power_on_again(last).await.unwrap();
    scene.cluster.ready(last).await.unwrap();
    scene.sound(installation).await;
}

/// Everything loses its power and gets it back; what etcd has stored is there.
async fn whole_cluster(scene: &Scene, installation: &Installation<'_>) {
    let plane = &scene.cluster.plane;
    let parts = [
        Part::Etcd,
        Part::ApiServer,
        Part::ControllerManager,
        Part::Scheduler,
    ];
    for node in scene.nodes() {
        node.power_off().await.unwrap();
    }
    for part in parts.into_iter().rev() {
        plane.kill(part).await.unwrap();
    }
    for part in parts {
        plane.start(part).await.unwrap();
    }
    // Until then the endpoints of replicas seem to be ready.
    until("no node to be Ready", async || {
        let ready = scene.ready_since(installation).await;
        anyhow::ensure!(ready.is_empty(), "{ready:?}");
        Ok(Some(()))
    })
    .await;
    let first = &scene.nodes()[0].name;
    let client = plane.node(first).await.unwrap();
    let began = Instant::now();
    let refused = publish(&client, first, 0).await.unwrap_err().to_string();
    assert!(refused.contains("failed calling webhook"), "{refused}");
    assert!(began.elapsed() < 5 * CALL, "{:?}", began.elapsed());

    let on = Instant::now();
    for node in scene.nodes() {
        scene.cluster.power_on_again(node).await.unwrap();
    }
    for node in scene.nodes() {
        scene.cluster.ready(node).await.unwrap();
    }
    println!(
        "from cold: every node Ready after {:.1} s",
        on.elapsed().as_secs_f32()
    );
    until("an answer of the webhook", async || {
        publish(&client, first, 1).await?;
        Ok(Some(()))
    })
    .await;
    println!(
        "from cold: the webhook answers after {:.1} s",
        on.elapsed().as_secs_f32()
    );
    scene.sound(installation).await;
}

async fn kubectl(installation: &Installation<'_>, words: &[&str]) {
    let output = installation.kubectl.run(words).await.unwrap();
    output.success().unwrap();
}
