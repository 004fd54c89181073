//! Cases about pods.

use serde_json::{Value, json};

use super::super::dice::Dice;
use super::{MIRROR, NODE, owner, resource};

/// A volume, often one that a mirror pod may have.
fn volume(dice: &mut Dice) -> Value {
    let secret =
        |dice: &mut Dice| dice.pick(&[Value::Null, json!({"name": ""}), json!({"name": "s"})]);
    let source = match dice.below(40) {
        0 => json!({"secret": {"secretName": dice.pick(&["", "s"])}}),
        1 => json!({"configMap": {"name": dice.pick(&["", "c"])}}),
        2 => json!({"csi": {"driver": "d", "nodePublishSecretRef": secret(dice)}}),
        3 => json!({"glusterfs": {"endpoints": "e", "path": "p"}}),
        4 => json!({"persistentVolumeClaim": {"claimName": "c"}}),
        5 => json!({"ephemeral": {}}),
        6 => json!({"azureFile": {"secretName": dice.pick(&["", "s"]), "shareName": "x"}}),
        7 => json!({"projected": {"sources": [projection(dice), projection(dice)]}}),
        8 => json!({"projected": {"sources": []}}),
        9 => json!({"cephfs": {"monitors": ["m"], "secretRef": secret(dice)}}),
        10 => json!({"cinder": {"volumeID": "v", "secretRef": secret(dice)}}),
        11 => json!({"flexVolume": {"driver": "d", "secretRef": secret(dice)}}),
        12 => json!({"rbd": {"monitors": ["m"], "image": "i", "secretRef": secret(dice)}}),
        13 => json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": secret(dice)}}),
        14 => {
            json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0, "secretRef": secret(dice)}})
        }
        15 => json!({"storageos": {"volumeName": "v", "secretRef": secret(dice)}}),
        16 => json!({"image": {"reference": "r"}}),
        17 => json!({"downwardAPI": {"items": []}}),
        18 => json!({"nfs": {"server": "s", "path": "p"}}),
        19 => json!({"gitRepo": {"repository": "r"}}),
        20 => json!({}),
        21 => json!({"emptyDir": {}, "configMap": {"name": "c"}}),
        22 => json!({"emptyDir": {}, "persistentVolumeClaim": {"claimName": "c"}}),
        23..30 => json!({"emptyDir": {}}),
        _ => json!({"hostPath": {"path": "/"}}),
    };
    let mut volume = source;
    volume["name"] = json!("v");
    volume
}

fn projection(dice: &mut Dice) -> Value {
    match dice.below(14) {
        0 => json!({"configMap": {"name": dice.pick(&["", "c"])}}),
        1 => json!({"secret": {"name": dice.pick(&["", "s"])}}),
        2 => json!({"serviceAccountToken": {"path": "p"}}),
        3 => json!({"clusterTrustBundle": {"path": "p"}}),
        4 => json!({"podCertificate": {"keyType": "ED25519"}}),
        5 => json!({}),
        _ => json!({"downwardAPI": {"items": []}}),
    }
}

fn container(dice: &mut Dice) -> Value {
    let name = |dice: &mut Dice| dice.pick(&["", "x"]);
    let mut container = json!({"name": "c", "image": "i"});
    match dice.below(30) {
        0 => {
            container["env"] = json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name(dice), "key": "k"}}}]);
        }
        1 => {
            container["env"] = json!([{"name": "E", "valueFrom": {"configMapKeyRef": {"name": name(dice), "key": "k"}}}]);
        }
        2 => container["envFrom"] = json!([{"secretRef": {"name": name(dice)}}]),
        3 => container["envFrom"] = json!([{"configMapRef": {"name": name(dice)}}]),
        4 => {
            container["env"] =
                json!([{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
        }
        5 => container["env"] = json!([{"name": "E", "value": "v"}]),
        _ => {}
    }
    container
}

pub(super) fn mirror_pod(dice: &mut Dice) -> Value {
    let mut spec =
        json!({"nodeName": dice.mostly(NODE, &["n2", ""]), "containers": [container(dice)]});
    if dice.chance(15) {
        spec[dice.pick(&["initContainers", "ephemeralContainers"])] = json!([container(dice)]);
    }
    if dice.chance(50) {
        let volumes: Vec<Value> = (0..dice.below(3)).map(|_| volume(dice)).collect();
        spec["volumes"] = json!(volumes);
    }
    if dice.chance(4) {
        spec[dice.pick(&["serviceAccountName", "serviceAccount"])] = json!(dice.pick(&["", "sa"]));
    }
    if dice.chance(4) {
        spec["imagePullSecrets"] = json!([{"name": dice.pick(&["", "s"])}]);
    }
    if dice.chance(4) {
        spec["resourceClaims"] = dice.pick(&[json!([]), json!([{"name": "r"}])]);
    }
    let owners: Vec<Value> = (0..dice.mostly(1, &[0, 2])).map(|_| owner(dice)).collect();
    let annotation = dice.mostly(MIRROR, &["other"]);
    let object = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {
        "name": "p", "namespace": "ns", "annotations": {annotation: dice.pick(&["", "hash"])},
        "ownerReferences": owners}});
    json!({
        "operation": "CREATE",
        "resource": resource("", "v1", "pods"),
        "subresource": dice.mostly("", &["binding", "exec", "log"]),
        "namespace": "ns",
        "name": dice.mostly("p", &[""]),
        "object": dice.mostly(object, &[Value::Null]),
        "lookups": {"nodes": nodes(dice)},
    })
}

pub(super) fn nodes(dice: &mut Dice) -> Value {
    let name = dice.mostly(NODE, &["n2"]);
    let uid = dice.mostly("node-uid", &["other", ""]);
    json!([{"metadata": {"name": name, "uid": uid}}])
}

pub(super) fn pod_deletion(dice: &mut Dice) -> Value {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": dice.pick(&[NODE, NODE, "n2", ""])}});
    json!({
        "operation": "DELETE",
        "resource": resource("", "v1", "pods"),
        "namespace": "ns",
        "name": "p",
        "oldObject": pod.clone(),
        "lookups": {"pods": [pod]},
    })
}

pub(super) fn pod_status(dice: &mut Dice) -> Value {
    let mut old = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}},
        "spec": {"nodeName": dice.mostly(NODE, &["n2", ""])}, "status": {}});
    let statuses = |dice: &mut Dice| {
        let one = |dice: &mut Dice| {
            let mut status = json!({"name": dice.pick(&["r", "s"])});
            if dice.chance(50) {
                status["resourceClaimName"] = json!(dice.pick(&["", "c"]));
            }
            status
        };
        let list: Vec<Value> = (0..dice.below(3)).map(|_| one(dice)).collect();
        dice.mostly(json!(list), &[Value::Null])
    };
    let extended = |dice: &mut Dice| {
        let mapping = json!({"containerName": dice.pick(&["c", "d"]), "resourceName": "r", "requestName": "q"});
        dice.pick(&[
            Value::Null,
            json!({"resourceClaimName": "c", "requestMappings": []}),
            json!({"resourceClaimName": "d"}),
            json!({"resourceClaimName": "c", "requestMappings": [mapping]}),
        ])
    };
    if dice.chance(40) {
        old["status"]["resourceClaimStatuses"] = statuses(dice);
        old["status"]["extendedResourceClaimStatus"] = extended(dice);
    }
    let mut new = old.clone();
    match dice.below(9) {
        0 => {
            new["metadata"]["labels"] = dice.pick(&[
                Value::Null,
                json!({}),
                json!({"a": "c"}),
                json!({"a": "b", "c": ""}),
            ]);
        }
        1 | 2 => new["status"]["resourceClaimStatuses"] = statuses(dice),
        3 | 4 => new["status"]["extendedResourceClaimStatus"] = extended(dice),
        5 => new["metadata"]["annotations"] = json!({"a": "b"}),
        6 => new["spec"]["nodeName"] = json!("n2"),
        _ => new["status"]["phase"] = json!("Running"),
    }
    json!({"operation": "UPDATE", "resource": resource("", "v1", "pods"), "subresource": "status",
        "namespace": "ns", "name": "p", "object": new, "oldObject": old})
}

pub(super) fn eviction(dice: &mut Dice) -> Value {
    let name = dice.mostly("p", &["", "q"]);
    json!({
        "operation": "CREATE",
        "resource": resource("", "v1", "pods"),
        "subresource": "eviction",
        "namespace": "ns",
        "name": dice.pick(&["p", "p", "", "q"]),
        "object": dice.mostly(
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "ns"}}),
            &[Value::Null],
        ),
        "lookups": {"pods": pods(dice)},
    })
}

pub(super) fn pods(dice: &mut Dice) -> Value {
    let mut pod = json!({
        "metadata": {"name": dice.mostly("p", &["q"]), "namespace": dice.mostly("ns", &["other"]),
            "uid": dice.mostly("pod-uid", &["other", ""])},
        "spec": {"nodeName": dice.mostly(NODE, &["n2", ""]), "serviceAccountName": dice.mostly("sa", &["other", ""])},
    });
    if dice.chance(5) {
        pod["metadata"]["annotations"] = json!({MIRROR: ""});
    }
    if dice.chance(70) {
        let volumes: Vec<Value> = (0..dice.below(4)).map(|_| audience_volume(dice)).collect();
        pod["spec"]["volumes"] = json!(volumes);
    }
    json!([pod])
}

/// A volume that may lead to a token's audience.
fn audience_volume(dice: &mut Dice) -> Value {
    let audience = |dice: &mut Dice| dice.pick(&["", "vault", "other"]);
    let name = dice.pick(&["v", "w"]);
    let mut volume = match dice.below(12) {
        0 | 1 => {
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "p", "audience": audience(dice)}},
            {"configMap": {"name": "c"}}]}})
        }
        2 => json!({"csi": {"driver": dice.pick(&["driver", "silent", "missing", ""])}}),
        3 | 4 => {
            json!({"persistentVolumeClaim": {"claimName": dice.pick(&["claim", "claim2", "claim3", "missing"])}})
        }
        5 => json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        6 => json!({"ephemeral": {}}),
        7 => json!({"awsElasticBlockStore": {"volumeID": "v"}}),
        8 => json!({"gcePersistentDisk": {"pdName": "v"}}),
        9 => json!({"azureDisk": {"diskName": "d", "diskURI": "u"}}),
        10 => json!({"vsphereVolume": {"volumePath": "p"}}),
        _ => json!({"emptyDir": {}}),
    };
    volume["name"] = json!(name);
    volume
}
