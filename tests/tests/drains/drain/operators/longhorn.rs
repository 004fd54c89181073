//! Longhorn.

use serde_json::{Value, json};

use super::cnpg::json_patch;
use super::scene::{Expect, Scene, exhausted, owner, pod};

fn object(kind: &str, name: &str, changes: Value) -> Value {
    let mut object = json!({
        "apiVersion": "longhorn.io/v1beta2", "kind": kind, "metadata": {"name": name},
    });
    json_patch(&mut object, changes);
    object
}

fn setting(name: &str, value: &str) -> Value {
    object("Setting", name, json!({"value": value}))
}

fn replica(name: &str, node: &str, changes: Value) -> Value {
    let mut replica = object(
        "Replica",
        name,
        json!({
            "spec": {
                "volumeName": "data", "nodeID": node, "healthyAt": "2026-01-01T00:00:00Z",
                "failedAt": "", "desireState": "stopped",
            },
            "status": {"currentState": "stopped"},
        }),
    );
    json_patch(&mut replica, changes);
    replica
}

fn volume(replicas: i32) -> Value {
    object(
        "Volume",
        "data",
        json!({"spec": {"numberOfReplicas": replicas}}),
    )
}

/// The instance manager of node `a` with its changes, its pod and its budget, and Longhorn's policy.
fn manager(policy: &str, changes: Value, beside: &[Value]) -> Vec<Value> {
    let mut manager = object(
        "InstanceManager",
        "im-a",
        json!({
            "spec": {"nodeID": "$a$", "type": "aio", "dataEngine": "v1"},
            "status": {"currentState": "running"},
        }),
    );
    json_patch(&mut manager, changes);
    let labels = json!({"longhorn.io/component": "instance-manager", "longhorn.io/node": "$a$"});
    let owners = owner("longhorn.io/v1beta2", "InstanceManager", "im-a");
    let mut objects = vec![
        setting("node-drain-policy", policy),
        manager,
        pod("im-a", "a", &labels, &owners, true),
        exhausted("im-a", &labels, json!({"minAvailable": 1}), 1),
    ];
    // A copy on node `b` protects nothing without the one there.
    let running = json!({
        "spec": {"nodeID": "$b$", "type": "aio", "dataEngine": "v1"},
        "status": {"currentState": "running"},
    });
    objects.push(object("InstanceManager", "im-b", running));
    let labels = json!({"longhorn.io/node": "$b$"});
    objects.push(exhausted("im-b", &labels, json!({"minAvailable": 1}), 1));
    objects.extend_from_slice(beside);
    objects
}

const LAST: &str = "block-if-contains-last-replica";
const SOON: Expect = Expect::Lifts("Longhorn lifts the budget once $a$ is cordoned");

fn attached(kind: &str, more: &[Value]) -> Vec<Value> {
    let engine = object(
        "Engine",
        "data-e-0",
        json!({"spec": {"volumeName": "data"}}),
    );
    let tickets = json!({"spec": {"volume": "data", "attachmentTickets": {"t": {
        "id": "t", "type": kind, "nodeID": "$a$",
    }}}});
    let mut beside = vec![
        engine,
        volume(2),
        object("VolumeAttachment", "data", tickets),
    ];
    beside.extend_from_slice(more);
    let engines =
        json!({"status": {"instanceEngines": {"data-e-0": {"spec": {"name": "data-e-0"}}}}});
    manager(LAST, engines, &beside)
}

pub(super) fn scenes() -> Vec<Scene> {
    let mut scenes = scenes_of_replicas();
    scenes.extend(scenes_of_volumes());
    scenes
}

fn scenes_of_replicas() -> Vec<Scene> {
    let mine = || replica("r-a", "$a$", json!({}));
    let running =
        json!({"spec": {"desireState": "running"}, "status": {"currentState": "running"}});
    vec![
        Scene::new("nothing on the node", manager(LAST, json!({}), &[]), SOON),
        Scene::new(
            "a detached volume with another copy",
            manager(
                LAST,
                json!({}),
                &[volume(2), mine(), replica("r-b", "$b$", json!({}))],
            ),
            SOON,
        ),
        Scene::new(
            "the only copy",
            manager(LAST, json!({}), &[volume(1), mine()]),
            Expect::Never(
                "replica r-a is the only copy of volume data: set the volume's numberOfReplicas to 2, \
                 or set Longhorn's setting node-drain-policy to allow-if-replica-is-stopped",
            ),
        ),
        Scene::new(
            "the only copy, and every drain is allowed",
            manager("always-allow", json!({}), &[volume(1), mine()]),
            SOON,
        ),
        Scene::new(
            "the only copy is stopped, which is enough",
            manager(
                "allow-if-replica-is-stopped",
                json!({}),
                &[volume(1), mine()],
            ),
            SOON,
        ),
        Scene::new(
            "the only copy is in use",
            manager(
                "allow-if-replica-is-stopped",
                json!({}),
                &[volume(1), replica("r-a", "$a$", running)],
            ),
            Expect::Stays(
                "replica r-a, the only copy of volume data, is in use: stop the pods that use the \
                 volume",
            ),
        ),
        Scene::new(
            "the other copy is on a cordoned node",
            manager(
                LAST,
                json!({}),
                &[volume(2), mine(), replica("r-b", "$b$", json!({}))],
            ),
            Expect::Stays(
                "the other copy of volume data is on node $b$, which is cordoned or drained too: \
                 uncordon $b$ first",
            ),
        )
        .cordoned(&["b"]),
        Scene::new(
            "the other copy is on a node that is gone",
            manager(
                LAST,
                json!({}),
                &[volume(2), mine(), replica("r-d", "$ns-d", json!({}))],
            ),
            Expect::Never(
                "replica r-d of volume data is on node $ns-d, which does not exist, and Longhorn \
                 fails at it: delete the replica",
            ),
        ),
    ]
}

fn scenes_of_volumes() -> Vec<Scene> {
    let detach = "detach-manually-attached-volumes-when-cordoned";
    vec![
        Scene::new(
            "a volume that a pod uses",
            attached("csi-attacher", &[]),
            Expect::Lifts(
                "Longhorn lifts the budget when volume data is detached: the pods that use it on \
                 $a$ go first",
            ),
        ),
        Scene::new(
            "a volume that was attached by hand",
            attached("longhorn-api", &[setting(detach, "false")]),
            Expect::Never(
                "volume data was attached to $a$ by hand: detach it, or set Longhorn's setting \
                 detach-manually-attached-volumes-when-cordoned to true",
            ),
        ),
        Scene::new(
            "a volume that was attached by hand and will be detached",
            attached("longhorn-api", &[setting(detach, "true")]),
            Expect::Lifts(
                "Longhorn lifts the budget when volume data is detached (longhorn-api is at work)",
            ),
        ),
        Scene::new(
            "replicas that are being moved",
            manager(
                "block-for-eviction",
                json!({}),
                &[
                    volume(1),
                    replica("r-a", "$a$", json!({"spec": {"evictionRequested": true}})),
                ],
            ),
            Expect::Lifts("Longhorn moves replicas off $a$; 1 are left"),
        ),
        Scene::new(
            "an instance manager that starts",
            manager(LAST, json!({"status": {"currentState": "starting"}}), &[]),
            Expect::Stays(
                "Longhorn keeps the budget of InstanceManager im-a until that runs; it is starting",
            ),
        ),
    ]
}
