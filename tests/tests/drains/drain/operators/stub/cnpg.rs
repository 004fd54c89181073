//! CloudNativePG: `reconcilePodDisruptionBudget`, `reconcileTargetPrimaryFromPods`,
//! `setPrimaryOnSchedulableNode`.

use serde_json::{Value, json};

use super::{World, is_ready, name_of};
use crate::drain::operators::create;

pub(in crate::drain::operators) async fn step(world: &World<'_>) {
    for cluster in world.list("Cluster").await {
        reconcile(world, &cluster).await;
    }
}

async fn reconcile(world: &World<'_>, cluster: &Value) {
    let (annotations, spec) = (&cluster["metadata"]["annotations"], &cluster["spec"]);
    let (name, status) = (name_of(cluster), &cluster["status"]);
    if annotations["cnpg.io/reconciliationLoop"] == "disabled" {
        return;
    }
    let all = spec["instances"].as_u64().unwrap();
    let window = &spec["nodeMaintenanceWindow"];
    let reuses = window["inProgress"] == true && window["reusePVC"] != false;
    if spec["enablePDB"] == false || reuses && all == 1 {
        world.delete("PodDisruptionBudget", "pg-primary").await;
    }
    if spec["enablePDB"] == false || reuses {
        world.delete("PodDisruptionBudget", "pg").await;
    }
    let pods = world.list("Pod").await;
    let (current, target) = (&status["currentPrimary"], &status["targetPrimary"]);
    if current != target {
        // The instance manager promotes the new primary, and the operator relabels.
        for pod in &pods {
            let role = if pod["metadata"]["name"] == *target {
                "primary"
            } else {
                "replica"
            };
            let labels = json!({"metadata": {"labels": {"cnpg.io/instanceRole": role}}});
            world.patch("Pod", name_of(pod), labels).await;
        }
        let done = json!({"currentPrimary": target, "phase": "Cluster in healthy state"});
        world.patch_status("Cluster", name, done).await;
        return;
    }
    if status["phase"] == "Not enough disk space" {
        return;
    }
    create_missing(world, &pods, all).await;
    let ready = pods.iter().filter(|pod| is_ready(pod)).count() as u64;
    // One that was evicted is Pending at first.
    let failed = (pods.len() as u64) < all;
    let counted = json!({"readyInstances": ready});
    world.patch_status("Cluster", name, counted).await;
    let primary = pods.iter().find(|pod| pod["metadata"]["name"] == *current);
    let Some(primary) = primary else { return };
    let node = primary["spec"]["nodeName"].as_str().unwrap();
    let fenced = annotations["cnpg.io/fencedInstances"]
        .as_str()
        .unwrap_or_default();
    if !world.is_cordoned(node).await || fenced.contains(name_of(primary)) {
        return;
    }
    let elsewhere: Vec<&Value> = pods
        .iter()
        .filter(|pod| pod["spec"]["nodeName"] != node)
        .collect();
    if !failed && (ready != all || (elsewhere.len() as u64) + 1 < all) {
        return;
    }
    for pod in elsewhere {
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        if is_ready(pod) && !world.is_cordoned(node).await {
            let switch = json!({
                "targetPrimary": name_of(pod), "phase": "Switchover in progress",
            });
            world.patch_status("Cluster", name, switch).await;
            return;
        }
    }
}

/// Instances that were evicted are created again, and there is room on node `c`.
async fn create_missing(world: &World<'_>, pods: &[Value], all: u64) {
    let Some(like) = pods.first() else { return };
    for number in 1..=all {
        let name = format!("pg-{number}");
        if pods.iter().any(|pod| name_of(pod) == name) {
            continue;
        }
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "ownerReferences": like["metadata"]["ownerReferences"],
                "labels": {
                    "cnpg.io/cluster": "pg", "cnpg.io/podRole": "instance",
                    "cnpg.io/instanceRole": "replica",
                },
            },
            "spec": {
                "nodeName": format!("{}-c", world.ns.name), "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "example.com/main"}],
            },
        });
        create(&world.api("Pod"), &pod).await;
        world
            .patch_status("Pod", &name, json!({"phase": "Running"}))
            .await;
    }
}
