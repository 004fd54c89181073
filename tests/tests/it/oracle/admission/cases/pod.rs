//! Cases about pods.

use serde_json::{Value, json};

use super::super::random::Random;
use super::{MIRROR, NODE, owner, resource};

const ALLOCATABLE: &str = "nodeAllocatableResourceClaimStatuses";

/// A volume, often one that a mirror pod may have.
fn volume(random: &mut Random) -> Value {
    let secret = |random: &mut Random| {
        random.pick(&[Value::Null, json!({"name": ""}), json!({"name": "s"})])
    };
    let source = match random.below(40) {
        0 => json!({"secret": {"secretName": random.pick(&["", "s"])}}),
        1 => json!({"configMap": {"name": random.pick(&["", "c"])}}),
        2 => json!({"csi": {"driver": "d", "nodePublishSecretRef": secret(random)}}),
        3 => json!({"glusterfs": {"endpoints": "e", "path": "p"}}),
        4 => json!({"persistentVolumeClaim": {"claimName": "c"}}),
        5 => json!({"ephemeral": {}}),
        6 => json!({"azureFile": {"secretName": random.pick(&["", "s"]), "shareName": "x"}}),
        7 | 23..26 => json!({"projected": {"sources": [projection(random), projection(random)]}}),
        8 => json!({"projected": {"sources": []}}),
        9 => json!({"cephfs": {"monitors": ["m"], "secretRef": secret(random)}}),
        10 => json!({"cinder": {"volumeID": "v", "secretRef": secret(random)}}),
        11 => json!({"flexVolume": {"driver": "d", "secretRef": secret(random)}}),
        12 => json!({"rbd": {"monitors": ["m"], "image": "i", "secretRef": secret(random)}}),
        13 => json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": secret(random)}}),
        14 => {
            json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0, "secretRef": secret(random)}})
        }
        15 => json!({"storageos": {"volumeName": "v", "secretRef": secret(random)}}),
        16 => json!({"image": {"reference": "r"}}),
        17 => json!({"downwardAPI": {"items": []}}),
        18 => json!({"nfs": {"server": "s", "path": "p"}}),
        19 => json!({"gitRepo": {"repository": "r"}}),
        20 => json!({}),
        21 => json!({"emptyDir": {}, "configMap": {"name": "c"}}),
        22 => json!({"emptyDir": {}, "persistentVolumeClaim": {"claimName": "c"}}),
        26..30 => json!({"emptyDir": {}}),
        _ => json!({"hostPath": {"path": "/"}}),
    };
    let mut volume = source;
    volume["name"] = json!("v");
    volume
}

fn projection(random: &mut Random) -> Value {
    match random.below(14) {
        0 => json!({"configMap": {"name": random.pick(&["", "c"])}}),
        1 => json!({"secret": {"name": random.pick(&["", "s"])}}),
        2 => json!({"serviceAccountToken": {"path": "p"}}),
        3 => json!({"clusterTrustBundle": {"path": "p"}}),
        4 => json!({"podCertificate": {"keyType": "ED25519"}}),
        5 => json!({}),
        _ => json!({"downwardAPI": {"items": []}}),
    }
}

fn container(random: &mut Random) -> Value {
    let name = |random: &mut Random| random.pick(&["", "x"]);
    let mut container = json!({"name": "c", "image": "i"});
    match random.below(30) {
        0 => {
            container["env"] = json!([{"name": "E", "valueFrom": {"secretKeyRef": {"name": name(random), "key": "k"}}}]);
        }
        1 => {
            container["env"] = json!([{"name": "E", "valueFrom": {"configMapKeyRef": {"name": name(random), "key": "k"}}}]);
        }
        2 => container["envFrom"] = json!([{"secretRef": {"name": name(random)}}]),
        3 => container["envFrom"] = json!([{"configMapRef": {"name": name(random)}}]),
        4 => {
            container["env"] =
                json!([{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
        }
        5 => container["env"] = json!([{"name": "E", "value": "v"}]),
        _ => {}
    }
    container
}

pub(super) fn mirror_pod(random: &mut Random) -> Value {
    let mut spec =
        json!({"nodeName": random.mostly(NODE, &["n2", ""]), "containers": [container(random)]});
    if random.chance(15) {
        spec[random.pick(&["initContainers", "ephemeralContainers"])] = json!([container(random)]);
    }
    if random.chance(50) {
        let volumes: Vec<Value> = (0..random.below(3)).map(|_| volume(random)).collect();
        spec["volumes"] = json!(volumes);
    }
    if random.chance(4) {
        spec[random.pick(&["serviceAccountName", "serviceAccount"])] =
            json!(random.pick(&["", "sa"]));
    }
    if random.chance(4) {
        spec["imagePullSecrets"] = json!([{"name": random.pick(&["", "s"])}]);
    }
    if random.chance(4) {
        spec["resourceClaims"] = random.pick(&[json!([]), json!([{"name": "r"}])]);
    }
    let owners: Vec<Value> = (0..random.mostly(1, &[0, 2]))
        .map(|_| owner(random))
        .collect();
    let annotation = random.mostly(MIRROR, &["other"]);
    let object = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {
        "name": "p", "namespace": "ns", "annotations": {annotation: random.pick(&["", "hash"])},
        "ownerReferences": owners}});
    json!({
        "operation": "CREATE",
        "resource": resource("", "v1", "pods"),
        "subresource": random.mostly("", &["binding", "exec", "log"]),
        "namespace": "ns",
        "name": random.mostly("p", &[""]),
        "object": random.mostly(object, &[Value::Null]),
        "lookups": {"nodes": nodes(random)},
    })
}

pub(super) fn nodes(random: &mut Random) -> Value {
    let name = random.mostly(NODE, &["n2"]);
    let uid = random.mostly("node-uid", &["other", ""]);
    json!([{"metadata": {"name": name, "uid": uid}}])
}

pub(super) fn pod_deletion(random: &mut Random) -> Value {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": random.pick(&[NODE, NODE, "n2", ""])}});
    json!({
        "operation": "DELETE",
        "resource": resource("", "v1", "pods"),
        "namespace": "ns",
        "name": "p",
        "oldObject": pod.clone(),
        "lookups": {"pods": [pod]},
    })
}

pub(super) fn pod_status(random: &mut Random) -> Value {
    let mut old = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}},
        "spec": {"nodeName": random.mostly(NODE, &["n2", ""])}, "status": {}});
    let statuses = |random: &mut Random| {
        let one = |random: &mut Random| {
            let mut status = json!({"name": random.pick(&["r", "s"])});
            if random.chance(50) {
                status["resourceClaimName"] = json!(random.pick(&["", "c"]));
            }
            status
        };
        let list: Vec<Value> = (0..random.below(3)).map(|_| one(random)).collect();
        random.mostly(json!(list), &[Value::Null])
    };
    let extended = |random: &mut Random| {
        let mapping = json!({"containerName": random.pick(&["c", "d"]), "resourceName": "r", "requestName": "q"});
        random.pick(&[
            Value::Null,
            json!({"resourceClaimName": "c", "requestMappings": []}),
            json!({"resourceClaimName": "d"}),
            json!({"resourceClaimName": "c", "requestMappings": [mapping]}),
        ])
    };
    if random.chance(40) {
        old["status"]["resourceClaimStatuses"] = statuses(random);
        old["status"]["extendedResourceClaimStatus"] = extended(random);
        old["status"][ALLOCATABLE] = allocatable(random);
    }
    let mut new = old.clone();
    match random.below(11) {
        0 => {
            new["metadata"]["labels"] = random.pick(&[
                Value::Null,
                json!({}),
                json!({"a": "c"}),
                json!({"a": "b", "c": ""}),
            ]);
        }
        1 | 2 => new["status"]["resourceClaimStatuses"] = statuses(random),
        3 | 4 => new["status"]["extendedResourceClaimStatus"] = extended(random),
        5 => new["metadata"]["annotations"] = json!({"a": "b"}),
        6 => new["spec"]["nodeName"] = json!("n2"),
        7 | 8 => new["status"][ALLOCATABLE] = allocatable(random),
        _ => new["status"]["phase"] = json!("Running"),
    }
    json!({"operation": "UPDATE", "resource": resource("", "v1", "pods"), "subresource": "status",
        "namespace": "ns", "name": "p", "object": new, "oldObject": old})
}

/// Since 1.37: what a pod's claims take of the node's allocatable.
fn allocatable(random: &mut Random) -> Value {
    let amount = |random: &mut Random| random.pick(&["1Gi", "1Gi", "1024Mi", "2Gi"]);
    let one = |random: &mut Random| {
        let mut status = json!({"resourceClaimName": random.mostly("c", &["d"])});
        if random.chance(50) {
            status["containers"] = random.pick(&[json!([]), json!(["a"]), json!(["a", "b"])]);
        }
        if random.chance(50) {
            status["mapping"] =
                json!([{"name": random.mostly("memory", &["cpu"]), "quantity": amount(random)}]);
        }
        if random.chance(50) {
            status["overhead"] = json!([{"name": "memory"}]);
            let field = random.pick(&["perPod", "perContainer"]);
            status["overhead"][0][field] = json!(amount(random));
        }
        status
    };
    let list: Vec<Value> = (0..random.below(3)).map(|_| one(random)).collect();
    random.mostly(json!(list), &[Value::Null])
}

pub(super) fn eviction(random: &mut Random) -> Value {
    let name = random.mostly("p", &["", "q"]);
    json!({
        "operation": "CREATE",
        "resource": resource("", "v1", "pods"),
        "subresource": "eviction",
        "namespace": "ns",
        "name": random.pick(&["p", "p", "", "q"]),
        "object": random.mostly(
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "ns"}}),
            &[Value::Null],
        ),
        "lookups": {"pods": pods(random)},
    })
}

pub(super) fn pods(random: &mut Random) -> Value {
    let mut pod = json!({
        "metadata": {"name": random.mostly("p", &["q"]), "namespace": random.mostly("ns", &["other"]),
            "uid": random.mostly("pod-uid", &["other", ""])},
        "spec": {"nodeName": random.mostly(NODE, &["n2", ""]), "serviceAccountName": random.mostly("sa", &["other", ""])},
    });
    if random.chance(5) {
        pod["metadata"]["annotations"] = json!({MIRROR: ""});
    }
    if random.chance(70) {
        let volumes: Vec<Value> = (0..random.below(4))
            .map(|_| audience_volume(random))
            .collect();
        pod["spec"]["volumes"] = json!(volumes);
    }
    json!([pod])
}

/// A volume that may lead to a token's audience.
fn audience_volume(random: &mut Random) -> Value {
    let audience = |random: &mut Random| random.pick(&["", "vault", "other"]);
    let name = random.pick(&["v", "w"]);
    let mut volume = match random.below(14) {
        12 | 13 => {
            let signer = random.pick(&["example.com/s", "example.com/t", "example.com/t"]);
            json!({"projected": {"sources": [{"podCertificate": {"signerName": signer, "keyType": "ED25519"}}]}})
        }
        0 | 1 => {
            json!({"projected": {"sources": [{"serviceAccountToken": {"path": "p", "audience": audience(random)}},
            {"configMap": {"name": "c"}}]}})
        }
        2 => json!({"csi": {"driver": random.pick(&["driver", "silent", "missing", ""])}}),
        3 | 4 => {
            json!({"persistentVolumeClaim": {"claimName": random.pick(&["claim", "claim2", "claim3", "missing"])}})
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
