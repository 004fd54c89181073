//! Longhorn: `syncInstanceManagerPDB`, `canDeleteInstanceManagerPDB`,
//! `ListVolumePDBProtectedHealthyReplicasRO`, and what detaches volumes and moves replicas.

use serde_json::{Value, json};

use super::{World, name_of};

pub(in crate::drain::operators) async fn step(world: &World<'_>) {
    for manager in world.list("InstanceManager").await {
        let node = manager["spec"]["nodeID"].as_str().unwrap();
        if manager["status"]["currentState"] != "running" || !world.is_cordoned(node).await {
            continue;
        }
        detach(world, &manager, node).await;
        if may_go(world, &manager, node).await {
            world.delete("PodDisruptionBudget", name_of(&manager)).await;
        }
    }
}

async fn setting(world: &World<'_>, name: &str) -> Option<String> {
    let settings = world.list("Setting").await;
    let setting = settings
        .into_iter()
        .find(|s| s["metadata"]["name"] == name)?;
    Some(setting["value"].as_str()?.to_owned())
}

/// The pods that use volumes have left, and volumes that were attached by hand go if that is set.
async fn detach(world: &World<'_>, manager: &Value, node: &str) {
    let engines = manager["status"]["instanceEngines"].as_object();
    if engines.is_none_or(serde_json::Map::is_empty) {
        return;
    }
    let by_hand = setting(world, "detach-manually-attached-volumes-when-cordoned").await;
    for attachment in world.list("VolumeAttachment").await {
        let tickets = attachment["spec"]["attachmentTickets"].as_object();
        for (id, ticket) in tickets.into_iter().flatten() {
            let stays = ticket["type"] == "longhorn-api" && by_hand.as_deref() != Some("true");
            if ticket["nodeID"] == node && !stays {
                let taken = json!({"spec": {"attachmentTickets": {id: null}}});
                world
                    .patch("VolumeAttachment", name_of(&attachment), taken)
                    .await;
                let engines = engines.into_iter().flatten();
                let gone: serde_json::Map<String, Value> = engines
                    .map(|(name, _)| (name.clone(), Value::Null))
                    .collect();
                let detached = json!({"instanceEngines": gone});
                world
                    .patch_status("InstanceManager", name_of(manager), detached)
                    .await;
            }
        }
    }
}

async fn may_go(world: &World<'_>, manager: &Value, node: &str) -> bool {
    let engines = manager["status"]["instanceEngines"].as_object();
    if engines.is_some_and(|engines| !engines.is_empty()) {
        return false;
    }
    let policy = setting(world, "node-drain-policy").await.unwrap();
    let all = world.list("Replica").await;
    let mut here: Vec<&Value> = all.iter().filter(|r| r["spec"]["nodeID"] == node).collect();
    if policy == "always-allow" || here.is_empty() {
        return true;
    }
    if policy == "block-for-eviction" {
        for replica in here {
            if replica["spec"]["evictionRequested"] == true {
                let to = format!("{}-c", world.ns.name);
                let moved = json!({"spec": {"nodeID": to, "evictionRequested": false}});
                world.patch("Replica", name_of(replica), moved).await;
            }
        }
        return false;
    }
    if policy == "allow-if-replica-is-stopped" {
        here.retain(|replica| {
            replica["spec"]["desireState"] != "stopped"
                || replica["status"]["currentState"] != "stopped"
        });
    }
    for replica in here {
        if !is_protected(world, replica, &all).await {
            return false;
        }
    }
    true
}

async fn is_protected(world: &World<'_>, replica: &Value, all: &[Value]) -> bool {
    let spec = &replica["spec"];
    if spec["healthyAt"] == "" && spec["failedAt"] == "" {
        return true;
    }
    let managers = world.list("InstanceManager").await;
    let budgets = world.list("PodDisruptionBudget").await;
    for other in all {
        let on = other["spec"]["nodeID"].as_str().unwrap();
        let counts = other["spec"]["volumeName"] == spec["volumeName"]
            && other["spec"]["nodeID"] != spec["nodeID"]
            && other["spec"]["healthyAt"] != ""
            && other["spec"]["failedAt"] == "";
        if !counts {
            continue;
        }
        if !world.exists(on).await {
            // The lookup fails, and with it the whole check.
            return false;
        }
        if world.is_cordoned(on).await {
            continue;
        }
        let manager = managers
            .iter()
            .find(|manager| manager["spec"]["nodeID"] == on);
        let runs = manager.is_some_and(|manager| {
            manager["status"]["currentState"] == "running"
                && budgets
                    .iter()
                    .any(|budget| name_of(budget) == name_of(manager))
        });
        if runs {
            return true;
        }
    }
    false
}
