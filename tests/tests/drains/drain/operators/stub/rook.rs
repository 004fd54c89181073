//! Rook: `reconcilePDBsForOSDs` and `reconcileMonPDB`. Ceph copies the data while nothing is down.

use serde_json::{Value, json};

use super::{World, name_of};

pub(in crate::drain::operators) async fn step(world: &World<'_>) {
    for cluster in world.list("CephCluster").await {
        if cluster["spec"]["disruptionManagement"]["managePodBudgets"] == true {
            reconcile(world, &cluster).await;
        }
    }
}

async fn reconcile(world: &World<'_>, cluster: &Value) {
    let deployments = world.list("Deployment").await;
    let down = |app: &str| {
        let of_app = deployments
            .iter()
            .filter(|d| d["metadata"]["labels"]["app"] == app);
        let down = of_app.filter(|d| d["status"]["readyReplicas"].as_u64().unwrap_or(0) == 0);
        down.cloned().collect::<Vec<Value>>()
    };
    reconcile_mons(world, cluster, &down("rook-ceph-mon")).await;
    let down = down("rook-ceph-osd");
    let details = &cluster["status"]["ceph"]["details"];
    if !down.is_empty() {
        // A drain goes on: the budgets of the other failure domains stay.
        return;
    }
    if details["PG_DEGRADED"].is_object() {
        let clean = json!({"ceph": {"health": "HEALTH_OK", "details": {"PG_DEGRADED": null}}});
        return world
            .patch_status("CephCluster", name_of(cluster), clean)
            .await;
    }
    for map in world.list("ConfigMap").await {
        if map["metadata"]["name"] == "rook-ceph-pdbstatemap"
            && map["data"]["draining-failure-domain"] != ""
        {
            let none = json!({"data": {"draining-failure-domain": ""}});
            world
                .patch("ConfigMap", "rook-ceph-pdbstatemap", none)
                .await;
            let default = json!({"spec": {"maxUnavailable": 1}});
            world
                .patch("PodDisruptionBudget", "rook-ceph-osd", default)
                .await;
        }
    }
}

async fn reconcile_mons(world: &World<'_>, cluster: &Value, down: &[Value]) {
    if cluster["spec"]["mon"]["count"].as_u64().unwrap_or(0) < 3 {
        return;
    }
    let Some(mon) = down.first() else {
        let one = json!({"spec": {"maxUnavailable": 1}});
        return world
            .patch("PodDisruptionBudget", "rook-ceph-mon", one)
            .await;
    };
    let selector = &mon["spec"]["template"]["spec"]["nodeSelector"];
    let node = selector["kubernetes.io/hostname"].as_str().unwrap();
    if !world.is_cordoned(node).await {
        // Its kubelet starts it again.
        let status = json!({"readyReplicas": 1});
        world.patch_status("Deployment", name_of(mon), status).await;
    }
}
