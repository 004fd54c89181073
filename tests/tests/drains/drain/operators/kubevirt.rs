//! KubeVirt, which has no budgets since 1.6.

use serde_json::{Value, json};

use super::cnpg::json_patch;
use super::scene::{Expect, Scene, owner, pod};

/// A virtual machine on node `a` with its changes, and its pod.
pub(super) fn machine(strategy: &str, changes: Value, beside: &[Value]) -> Vec<Value> {
    let mut machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm"},
        "spec": {"domain": {"devices": {}}, "evictionStrategy": strategy},
        "status": {"phase": "Running", "nodeName": "$a$", "conditions": [
            {"type": "LiveMigratable", "status": "True"},
        ]},
    });
    json_patch(&mut machine, changes);
    let owners = owner("kubevirt.io/v1", "VirtualMachineInstance", "vm");
    let labels = json!({"kubevirt.io": "virt-launcher"});
    let mut objects = vec![
        machine,
        pod("virt-launcher-vm-x", "a", &labels, &owners, true),
    ];
    objects.extend_from_slice(beside);
    objects
}

fn fixed() -> Value {
    json!({"status": {"conditions": [{
        "type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable",
        "message": "cannot migrate VMI: PVC data is not shared",
    }]}})
}

pub(super) fn marked(node: &str) -> Value {
    json!({"status": {"evacuationNodeName": node}})
}

pub(super) fn migration(phase: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
        "metadata": {"name": "kubevirt-evacuation-x"}, "spec": {"vmiName": "vm"},
        "status": {"phase": phase},
    })
}

fn to_b() -> Value {
    json!({"status": {"evacuationNodeName": "$a$", "migrationState": {"targetNode": "$b$"}}})
}

/// The pod to which a migration goes, which has no place.
fn target() -> Value {
    let labels = json!({"kubevirt.io/migrationJobUID": "$uid:kubevirt-evacuation-x$"});
    let owners = owner("kubevirt.io/v1", "VirtualMachineInstance", "vm");
    let mut target = pod("virt-launcher-vm-y", "b", &labels, &owners, false);
    target["spec"].as_object_mut().unwrap().remove("nodeName");
    target["status"] = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]});
    target
}

fn migrated_in_vain() -> Scene {
    Scene::new(
        "a machine whose migrations fail again and again",
        machine(
            "LiveMigrate",
            json!({"status": {"evacuationNodeName": "$a$", "migrationState": {
                "failed": true, "failureReason": "no suitable target: CPU model mismatch",
            }}}),
            &["x", "y", "z"].map(|name| {
                let mut failed = migration("Failed");
                failed["metadata"]["name"] = json!(format!("kubevirt-evacuation-{name}"));
                failed
            }),
        ),
        Expect::Stays(
            "3 migrations of VirtualMachineInstance $ns/vm failed, the last: no suitable target: \
             CPU model mismatch",
        ),
    )
}

pub(super) fn scenes() -> Vec<Scene> {
    vec![
        Scene::new(
            "a machine that can be migrated",
            machine("LiveMigrate", json!({}), &[]),
            Expect::Lifts("KubeVirt migrates VirtualMachineInstance $ns/vm at the first eviction"),
        ),
        Scene::new(
            "a machine that cannot",
            machine("LiveMigrate", fixed(), &[]),
            Expect::Never(
                "VirtualMachineInstance $ns/vm cannot be migrated (DisksNotLiveMigratable: cannot \
                 migrate VMI: PVC data is not shared): shut the virtual machine down, or set its \
                 spec.evictionStrategy to LiveMigrateIfPossible and restart it",
            ),
        ),
        Scene::new(
            "a machine that cannot, and is shut down then",
            machine("LiveMigrateIfPossible", fixed(), &[]),
            Expect::Goes,
        ),
        Scene::new(
            "a machine that is shut down",
            machine("None", json!({}), &[]),
            Expect::Goes,
        ),
        Scene::new(
            "a machine whose migration runs",
            machine("LiveMigrate", to_b(), &[migration("Running")]),
            Expect::Lifts(
                "migration kubevirt-evacuation-x of VirtualMachineInstance $ns/vm to node $b$: \
                 Running",
            ),
        ),
        Scene::new(
            "a machine whose migration waits",
            machine("LiveMigrate", marked("$a$"), &[migration("Pending")]),
            Expect::Lifts(
                "migration kubevirt-evacuation-x of VirtualMachineInstance $ns/vm waits for its turn \
                 (spec.configuration.migrations of KubeVirt limits them)",
            ),
        ),
        migrated_in_vain(),
        Scene::new(
            "a machine whose migration failed",
            machine(
                "LiveMigrate",
                json!({"status": {"evacuationNodeName": "$a$", "migrationState": {
                    "failed": true, "failureReason": "no suitable target: CPU model mismatch",
                }}}),
                &[migration("Failed")],
            ),
            Expect::Lifts(
                "1 migration of VirtualMachineInstance $ns/vm failed, the last: no suitable target: \
                 CPU model mismatch",
            ),
        ),
        Scene::new(
            "a machine for which no node has room",
            machine(
                "LiveMigrate",
                marked("$a$"),
                &[migration("Scheduling"), target()],
            ),
            Expect::Stays(
                "migration kubevirt-evacuation-x of VirtualMachineInstance $ns/vm finds no node: pod \
                 virt-launcher-vm-y is unschedulable",
            ),
        ),
        Scene::new(
            "a machine that another controller moves",
            machine("External", json!({}), &[]),
            Expect::Stays(
                "VirtualMachineInstance $ns/vm leaves evictions to another controller \
                 (evictionStrategy External): it has to stop or move the virtual machine",
            ),
        ),
        Scene::new(
            "a mark of another node",
            machine("LiveMigrate", marked("$b$"), &[]),
            Expect::Never(
                "VirtualMachineInstance $ns/vm is marked to leave node $b$, but runs on $a$, so \
                 nothing migrates it: take the mark back with virtctl evacuate-cancel vmi vm -n $ns",
            ),
        ),
        Scene::new(
            "a machine that has just started",
            machine("LiveMigrate", json!({"status": {"conditions": null}}), &[]),
            Expect::Lifts(
                "VirtualMachineInstance $ns/vm has just started: whether it can be migrated is not \
                 known yet",
            ),
        ),
    ]
}
