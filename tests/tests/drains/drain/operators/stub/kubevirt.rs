//! KubeVirt: `admitLauncherPod` of the webhook, the evacuation controller, and the migrations.

use http::Method;
use nodelife_tests::proxy::{Fault, FaultRule};
use serde_json::{Value, json};

use super::{World, name_of};

const LAUNCHER: &str = "virt-launcher-vm-x";

fn path(world: &World<'_>) -> String {
    format!("/namespaces/{}/pods/{LAUNCHER}/eviction", world.ns.name)
}

/// The webhook denies the evictions of a virtual machine that is to be migrated; `once`: a pod whose
/// machine has left is let go.
pub(in crate::drain::operators) fn deny(world: &World<'_>, once: bool) {
    let message = "admission webhook \"virt-launcher-eviction-interceptor.kubevirt.io\" denied the \
                   request: Eviction triggered evacuation of VMI";
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": 429,
    });
    let answer = Fault::Answer {
        status: 429,
        headers: vec![("content-type", "application/json".to_owned())],
        body: denied.to_string(),
    };
    let rule = FaultRule::new(answer)
        .method(Method::POST)
        .path(&path(world));
    world.proxy.fault(if once { rule.times(1) } else { rule });
}

pub(in crate::drain::operators) async fn step(world: &World<'_>) {
    for machine in world.list("VirtualMachineInstance").await {
        reconcile(world, &machine).await;
    }
}

async fn reconcile(world: &World<'_>, machine: &Value) {
    let (name, status) = (name_of(machine), &machine["status"]);
    let node = status["nodeName"].as_str().unwrap();
    let condition = |kind: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions
            .find(|condition| condition["type"] == kind)
            .cloned()
    };
    let Some(migratable) = condition("LiveMigratable") else {
        // virt-handler finds out.
        let found =
            json!({"status": {"conditions": [{"type": "LiveMigratable", "status": "True"}]}});
        return world.patch("VirtualMachineInstance", name, found).await;
    };
    let strategy = machine["spec"]["evictionStrategy"].as_str().unwrap();
    let asked = world.proxy.count(&Method::POST, &path(world)) > 0;
    let mark = &status["evacuationNodeName"];
    let may_migrate = strategy.starts_with("LiveMigrate") && migratable["status"] == "True";
    if asked && mark.is_null() && (may_migrate || strategy == "External") {
        let mark = json!({"status": {"evacuationNodeName": node}});
        return world.patch("VirtualMachineInstance", name, mark).await;
    }
    if *mark != node || !may_migrate {
        return;
    }
    // The scheduler has no room for the target of a migration.
    let pods = world.list("Pod").await;
    if pods.iter().any(|pod| pod["status"]["phase"] == "Pending") {
        return;
    }
    // As often as that, the next one fails as well.
    let migrations = world.list("VirtualMachineInstanceMigration").await;
    let failed = migrations
        .iter()
        .filter(|one| one["status"]["phase"] == "Failed");
    if failed.count() >= 3 {
        return;
    }
    let moved =
        json!({"status": {"nodeName": format!("{}-b", world.ns.name), "evacuationNodeName": null}});
    world.patch("VirtualMachineInstance", name, moved).await;
    for migration in world.list("VirtualMachineInstanceMigration").await {
        let done = json!({"phase": "Succeeded"});
        world
            .patch_status("VirtualMachineInstanceMigration", name_of(&migration), done)
            .await;
    }
    world
        .patch_status("Pod", LAUNCHER, json!({"phase": "Succeeded"}))
        .await;
}
