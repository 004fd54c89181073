//! Tests of the plan's placement warnings.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::PostParams;
use nodelife_tests::ControlPlane;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use serde_json::json;

use super::support::{TestEnvironment, environment_with_node, report};

/// Number 16: the plan names a pod that fits no other node, before the drain acts.
#[tokio::test]
async fn the_plan_names_a_pod_that_fits_no_other_node() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "nowhere").await;
    let (node, other) = (env.node("a"), env.node("b"));
    for name in [&node, &other] {
        let fixture = NodeFixture::kwok(name);
        fixture.create(env.namespace.client()).await.unwrap();
    }
    let pinned = WorkloadFixture::deployment("pinned", 1)
        .pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": node}}))
        .create_ready(&env.namespace, 1)
        .await
        .unwrap();
    let name = pinned[0].metadata.name.clone().unwrap();
    let free = PodFixture::new("free").bound_to(&node);
    free.create(&env.namespace).await.unwrap();

    let plan = env
        .drain(&[&node, "--force", "--dry-run=client", "-o", "json"])
        .await;
    let plan = report(&plan);
    let pods = plan["pods"].as_array().unwrap();
    let warning_of = |name: &str| {
        let pod = pods.iter().find(|pod| pod["name"] == name).unwrap();
        pod["unschedulable"].as_str().map(str::to_owned)
    };
    let why = warning_of(&name).unwrap();
    assert!(
        why.contains("excluded by its node selector or affinity"),
        "{why}"
    );
    // Nothing would replace it, so that it needs no place.
    assert_eq!(warning_of("free"), None);
    assert!(plan["estimate"]["minSeconds"].is_f64(), "{plan:#}");
    env.check_nothing_written().await;

    let before = env.pods_on(&node).await;
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let warned = output.stderr.find(&format!("{name}: its replacement"));
    let cordoned = output.stderr.find(": cordoned");
    assert!(warned.unwrap() < cordoned.unwrap(), "{}", output.stderr);
    env.check(&before).await;
}

/// Number 16: the volume of a pod is on this machine's own disk.
#[tokio::test]
async fn the_plan_names_a_pod_with_a_local_volume() {
    let (env, node) = environment_with_node("local").await;
    let ns = &env.namespace;
    let other = NodeFixture::new(&env.node("b"));
    other.create(ns.client()).await.unwrap();
    WorkloadFixture::stateful_set("db", 1)
        .create(ns)
        .await
        .unwrap();
    let sets: Api<StatefulSet> = ns.api();
    let set = sets.get("db").await.unwrap();
    let disk = format!("{}-disk", ns.name);
    let volume = json!({
        "metadata": {"name": disk},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": ns.name, "name": "data-db-0"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    });
    let volume = serde_json::from_value(volume).unwrap();
    let volumes: Api<PersistentVolume> = Api::all(ns.client().clone());
    let how = PostParams::default();
    volumes.create(&how, &volume).await.unwrap();
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}});
    let pod = PodFixture::new("db-0").running_on(&node).owned_by(&set);
    // Where no controller runs a node keeps the taint that it is created with.
    let pod = pod.spec(json!({"volumes": [claim], "tolerations": [{"operator": "Exists"}]}));
    pod.create(ns).await.unwrap();
    let plan = env.drain(&[&node, "--dry-run=client", "-o", "json"]).await;
    let plan = report(&plan);
    let why = plan["pods"][0]["unschedulable"].as_str().unwrap();
    let message = format!("out of reach of its volume {disk}");
    assert!(why.contains(&message), "{why}");
    env.check_nothing_written().await;
}
