//! Cases about what kubelets request for their pods: tokens and certificates.

use serde_json::{Value, json};

use super::super::dice::Dice;
use super::pod::{nodes, pods};
use super::{NODE, resource};

pub(super) fn token(dice: &mut Dice) -> Value {
    let bound = json!({
        "apiVersion": dice.mostly("v1", &["", "v2"]),
        "kind": dice.mostly("Pod", &["Secret", "Node"]),
        "name": dice.mostly("p", &["", "q"]),
        "uid": dice.mostly("pod-uid", &["", "stale"]),
    });
    let audiences = dice.pick(&[
        Value::Null,
        json!([]),
        json!([""]),
        json!(["vault"]),
        json!(["vault"]),
        json!(["other"]),
        json!(["a", "b"]),
    ]);
    let object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec":
        {"audiences": audiences, "boundObjectRef": dice.mostly(bound, &[Value::Null])}});
    let claims = json!([
        {"metadata": {"name": "claim", "namespace": "ns"}, "spec": {"volumeName": "pv"}},
        {"metadata": {"name": "claim2", "namespace": "ns"}, "spec": {"volumeName": "missing"}},
        {"metadata": {"name": "claim3", "namespace": "ns"}, "spec": {"volumeName": "plain"}},
        {"metadata": {"name": "p-v", "namespace": "ns"}, "spec": {"volumeName": "migrated"}},
    ]);
    let volumes = json!([
        {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": dice.pick(&["driver", "silent"]), "volumeHandle": "h"}}},
        {"metadata": {"name": "plain"}, "spec": {"hostPath": {"path": "/"}}},
        {"metadata": {"name": "migrated"}, "spec": {"awsElasticBlockStore": {"volumeID": "v"}}},
    ]);
    let requests = |audiences: &[&str]| {
        let list: Vec<Value> = audiences
            .iter()
            .map(|audience| json!({"audience": audience}))
            .collect();
        json!({"tokenRequests": list})
    };
    let drivers = json!([
        {"metadata": {"name": "driver"}, "spec": requests(&["vault", "other"])},
        {"metadata": {"name": "silent"}, "spec": {}},
        {"metadata": {"name": "ebs.csi.aws.com"}, "spec": requests(&["vault"])},
        {"metadata": {"name": "pd.csi.storage.gke.io"}, "spec": requests(&[""])},
        {"metadata": {"name": "disk.csi.azure.com"}, "spec": requests(&["other"])},
        {"metadata": {"name": "csi.vsphere.vmware.com"}, "spec": {}},
    ]);
    let access = dice.pick(&[json!([]), json!([]), json!([{"verb": "request-serviceaccounts-token-audience", "resource": "other", "allowed": true}]),
        json!([{"namespace": "ns", "name": "sa", "allowed": true}]), json!([{"user": "system:node:n1", "error": "the authorizer is down"}])]);
    json!({
        "operation": "CREATE",
        "resource": resource("", "v1", "serviceaccounts"),
        "subresource": dice.mostly("token", &["", "status"]),
        "namespace": "ns",
        "name": "sa",
        "object": dice.mostly(object, &[Value::Null]),
        "lookups": {"pods": pods(dice), "pvcs": claims, "pvs": volumes, "csidrivers": drivers, "sar": access},
        "features": dice.mostly(json!({}), &[json!({"ServiceAccountNodeAudienceRestriction": false})]),
    })
}

pub(super) fn pod_certificate(dice: &mut Dice) -> Value {
    let version = dice.pick(&["v1beta1"]);
    let object = json!({"apiVersion": format!("certificates.k8s.io/{version}"), "kind": "PodCertificateRequest",
        "metadata": {"name": "r", "namespace": "ns"}, "spec": {
            "nodeName": dice.mostly(NODE, &["n2", ""]), "nodeUID": dice.mostly("node-uid", &["stale"]),
            "podName": dice.mostly("p", &["q"]), "podUID": dice.mostly("pod-uid", &["stale"]),
            "serviceAccountName": dice.mostly("sa", &["other"]), "serviceAccountUID": dice.mostly("sa-uid", &["stale"]),
            "signerName": "example.com/s"}});
    json!({
        "operation": "CREATE",
        "resource": resource("certificates.k8s.io", version, "podcertificaterequests"),
        "subresource": dice.mostly("", &["status"]),
        "namespace": "ns",
        "name": "r",
        "object": object,
        "lookups": {"nodes": nodes(dice), "pods": pods(dice), "serviceaccounts": [{"metadata":
            {"name": dice.mostly("sa", &["gone"]), "namespace": "ns", "uid": dice.mostly("sa-uid", &["other"])}}]},
        "features": dice.mostly(json!({"PodCertificateRequest": true}), &[json!({})]),
    })
}
