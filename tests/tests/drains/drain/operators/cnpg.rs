//! CloudNativePG.

use serde_json::{Value, json};

use super::scene::{Expect, Scene, exhausted, owner, pod};

/// A cluster with its changes, its instances as (name, node, whether Ready), and the primary's
/// budget.
pub(super) fn cluster(changes: Value, instances: &[(&str, &str, bool)]) -> Vec<Value> {
    let ready = instances.iter().filter(|(_, _, ready)| *ready).count();
    let mut cluster = json!({
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "metadata": {"name": "pg"},
        "spec": {"instances": instances.len(), "storage": {"size": "1Gi"}},
        "status": {
            "currentPrimary": "pg-1", "targetPrimary": "pg-1", "readyInstances": ready,
            "phase": "Cluster in healthy state",
        },
    });
    json_patch(&mut cluster, changes);
    let role = |name: &str| if name == "pg-1" { "primary" } else { "replica" };
    let labels = |name: &str| {
        json!({
            "cnpg.io/cluster": "pg", "cnpg.io/podRole": "instance",
            "cnpg.io/instanceRole": role(name),
        })
    };
    let mut objects = vec![cluster];
    let owners = || owner("postgresql.cnpg.io/v1", "Cluster", "pg");
    objects.extend(
        instances
            .iter()
            .map(|(name, node, ready)| pod(name, node, &labels(name), &owners(), *ready)),
    );
    let budget = |name, role, healthy| {
        let labels = json!({"cnpg.io/cluster": "pg", "cnpg.io/instanceRole": role});
        let mut budget = exhausted(name, &labels, json!({"minAvailable": healthy}), healthy);
        budget["metadata"]["ownerReferences"] = owners();
        budget
    };
    objects.push(budget("pg-primary", "primary", 1));
    if instances.len() > 2 {
        objects.push(budget("pg", "replica", 1));
    }
    objects
}

/// A JSON merge patch.
pub(super) fn json_patch(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in fields {
                json_patch(&mut target[key.as_str()], value);
            }
        }
        value => *target = value,
    }
}

const PRIMARY: (&str, &str, bool) = ("pg-1", "a", true);

pub(super) fn scenes() -> Vec<Scene> {
    let mut scenes = working_scenes();
    scenes.extend(halted_scenes());
    scenes
}

fn working_scenes() -> Vec<Scene> {
    let two = [PRIMARY, ("pg-2", "b", true)];
    let one = [PRIMARY];
    let window = |reuse: bool| json!({"spec": {"nodeMaintenanceWindow": {"inProgress": true, "reusePVC": reuse}}});
    vec![
        Scene::new(
            "a primary with a candidate",
            cluster(json!({}), &two),
            Expect::Lifts(
                "Cluster $ns/pg switches over, for example to pg-2, once the node of its primary is \
                 cordoned",
            ),
        ),
        Scene::new(
            "a switchover under way",
            cluster(json!({"status": {"targetPrimary": "pg-2"}}), &two),
            Expect::Lifts("Cluster $ns/pg switches over from pg-1 to pg-2"),
        ),
        Scene::new(
            "one instance",
            cluster(json!({}), &one),
            Expect::Never(
                "Cluster $ns/pg has one instance: set spec.instances to 2, or accept downtime with \
                 spec.enablePDB: false or spec.nodeMaintenanceWindow.inProgress: true",
            ),
        ),
        Scene::new(
            "one instance, and the budget is being removed",
            cluster(json!({"spec": {"enablePDB": false}}), &one),
            Expect::Lifts("the operator of Cluster $ns/pg is removing its budget"),
        ),
        Scene::new(
            "one instance in a maintenance window",
            cluster(window(true), &one),
            Expect::Lifts("the operator of Cluster $ns/pg is removing its budget"),
        ),
        Scene::new(
            "one instance in a maintenance window without its volume",
            cluster(window(false), &one),
            Expect::Never(
                "Cluster $ns/pg has one instance and spec.nodeMaintenanceWindow.reusePVC is false: \
                 set it to true, or spec.instances to 2",
            ),
        ),
        Scene::new(
            "the only candidate is on a cordoned node",
            cluster(json!({}), &two),
            Expect::Stays(NO_CANDIDATE),
        )
        .cordoned(&["b"]),
        Scene::new(
            "the only candidate is drained at the same time",
            cluster(json!({}), &two),
            Expect::Lifts(
                "Cluster $ns/pg switches over when pg-2, whose node $b$ is drained as well, is Ready on \
                 another node",
            ),
        )
        .drained(&["a", "b"]),
        Scene::new(
            "a replica on the primary's node",
            cluster(
                json!({}),
                &[PRIMARY, ("pg-2", "a", true), ("pg-3", "b", true)],
            ),
            Expect::Lifts(
                "Cluster $ns/pg does not switch over before its replica pg-2 has left the same node",
            ),
        ),
        Scene::new(
            "an instance that is not Ready",
            cluster(
                json!({}),
                &[PRIMARY, ("pg-2", "b", true), ("pg-3", "c", false)],
            ),
            Expect::Lifts("Cluster $ns/pg switches over when all instances are Ready (2 of 3 are)"),
        ),
    ]
}

fn halted_scenes() -> Vec<Scene> {
    let two = [PRIMARY, ("pg-2", "b", true)];
    vec![
        Scene::new(
            "an operator that is told to stay away",
            cluster(
                json!({"metadata": {"annotations": {"cnpg.io/reconciliationLoop": "disabled"}}}),
                &two,
            ),
            Expect::Never(
                "Cluster $ns/pg is not reconciled: remove its annotation \
                 cnpg.io/reconciliationLoop",
            ),
        ),
        Scene::new(
            "a fenced primary",
            cluster(
                json!({"metadata": {"annotations": {"cnpg.io/fencedInstances": "[\"pg-1\"]"}}}),
                &two,
            ),
            Expect::Never(
                "Cluster $ns/pg: the primary pg-1 is fenced, so no other takes over; remove it from \
                 the annotation cnpg.io/fencedInstances",
            ),
        ),
        Scene::new(
            "a full disk",
            cluster(json!({"status": {"phase": "Not enough disk space"}}), &two),
            Expect::Stays("fix Cluster $ns/pg: Not enough disk space"),
        ),
    ]
}

const NO_CANDIDATE: &str = "Cluster $ns/pg has no instance to switch over to: pg-2 is on node $b$, \
                            which is cordoned; uncordon $b$, and annotate the Cluster so that its \
                            operator looks again";
