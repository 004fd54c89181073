//! Cases about what kubelets request for their pods: tokens and certificates.

use nodelife_tests::Kubernetes;
use serde_json::{Value, json};

use super::super::random::Random;
use super::pod::{nodes, pods};
use super::{NODE, resource};

pub(super) fn token(random: &mut Random) -> Value {
    let bound = json!({
        "apiVersion": random.mostly("v1", &["", "v2"]),
        "kind": random.mostly("Pod", &["Secret", "Node"]),
        "name": random.mostly("p", &["", "q"]),
        "uid": random.mostly("pod-uid", &["", "stale"]),
    });
    let audiences = random.pick(&[
        Value::Null,
        json!([]),
        json!([""]),
        json!(["vault"]),
        json!(["vault"]),
        json!(["other"]),
        json!(["a", "b"]),
    ]);
    let object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec":
        {"audiences": audiences, "boundObjectRef": random.mostly(bound, &[Value::Null])}});
    let claims = json!([
        {"metadata": {"name": "claim", "namespace": "ns"}, "spec": {"volumeName": "pv"}},
        {"metadata": {"name": "claim2", "namespace": "ns"}, "spec": {"volumeName": "missing"}},
        {"metadata": {"name": "claim3", "namespace": "ns"}, "spec": {"volumeName": "plain"}},
        {"metadata": {"name": "p-v", "namespace": "ns"}, "spec": {"volumeName": "migrated"}},
    ]);
    let volumes = json!([
        {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": random.pick(&["driver", "silent"]), "volumeHandle": "h"}}},
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
    let access = random.pick(&[json!([]), json!([]), json!([{"verb": "request-serviceaccounts-token-audience", "resource": "other", "allowed": true}]),
        json!([{"namespace": "ns", "name": "sa", "allowed": true}]), json!([{"user": "system:node:n1", "error": "the authorizer is down"}])]);
    json!({
        "operation": "CREATE",
        "resource": resource("", "v1", "serviceaccounts"),
        "subresource": random.mostly("token", &["", "status"]),
        "namespace": "ns",
        "name": "sa",
        "object": random.mostly(object, &[Value::Null]),
        "lookups": {"pods": pods(random), "pvcs": claims, "pvs": volumes, "csidrivers": drivers, "sar": access},
        "features": random.mostly(json!({}), &[json!({"ServiceAccountNodeAudienceRestriction": false})]),
    })
}

/// A `PodCertificateRequest`, in a version that the control plane knows; none before 1.34.
pub(super) fn pod_certificate(random: &mut Random) -> Option<Value> {
    let version = match Kubernetes::current().unwrap().minor() {
        "1.33" => return None,
        "1.34" => "v1alpha1",
        "1.35" | "1.36" => "v1beta1",
        _ => random.pick(&["v1", "v1beta1"]),
    };
    let signer = random.pick(&["example.com/s", "example.com/t", "example.com/t"]);
    let verb = "request-serviceaccounts-podcertificate-signer";
    let access = random.pick(&[
        json!([]),
        json!([{"verb": verb, "resource": "example.com:t", "allowed": true}]),
        json!([{"group": "certificates.k8s.io", "namespace": "ns", "name": "sa", "allowed": true}]),
        json!([{"user": "system:node:n1", "error": "the authorizer is down"}]),
    ]);
    let object = json!({"apiVersion": format!("certificates.k8s.io/{version}"), "kind": "PodCertificateRequest",
        "metadata": {"name": "r", "namespace": "ns"}, "spec": {
            "nodeName": random.mostly(NODE, &["n2", ""]), "nodeUID": random.mostly("node-uid", &["stale"]),
            "podName": random.mostly("p", &["q"]), "podUID": random.mostly("pod-uid", &["stale"]),
            "serviceAccountName": random.mostly("sa", &["other"]), "serviceAccountUID": random.mostly("sa-uid", &["stale"]),
            "signerName": signer}});
    Some(json!({
        "operation": "CREATE",
        "resource": resource("certificates.k8s.io", version, "podcertificaterequests"),
        "subresource": random.mostly("", &["status"]),
        "namespace": "ns",
        "name": "r",
        "object": object,
        "lookups": {"nodes": nodes(random), "pods": pods(random), "serviceaccounts": [{"metadata":
            {"name": random.mostly("sa", &["gone"]), "namespace": "ns", "uid": random.mostly("sa-uid", &["other"])}}],
            "sar": access},
        "features": random.mostly(json!({"PodCertificateRequest": true}), &[json!({}), json!({"PodCertificateRequest": false})]),
    }))
}
