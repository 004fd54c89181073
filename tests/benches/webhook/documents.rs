//! Reviews that the bench sends, as an API server encodes them.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;
use nodelife_tests::ControlPlane;
use serde_json::{Value, json};

/// How large the pod is, in bytes.
const POD: usize = 6 * 1024;

/// Reviews, ready to send.
pub(crate) struct Documents {
    /// A pod of 6 KB that is created by a controller: it lacks both tolerations, and names tell
    /// that no node wrote it.
    pub(crate) pod: Vec<u8>,
    /// A node evicts a pod: it takes a lookup.
    pub(crate) eviction: Vec<u8>,
}

impl Documents {
    pub(crate) fn new() -> Self {
        let controller = r#"{"username":"system:serviceaccount:kube-system:replicaset-controller","uid":"4d3c1b80-5a2e-4c8e-9a5e-0d7f0a4b2c11","groups":["system:serviceaccounts","system:serviceaccounts:kube-system","system:authenticated"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=7c2e1f0a-93a4-4d11-8f3c-2b1a0c9d8e7f"]}}"#;
        let node =
            r#"{"username":"system:node:n1","groups":["system:nodes","system:authenticated"]}"#;
        let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1",
            "metadata": {"name": "p1", "namespace": "default"}});
        Self {
            pod: review("pods", "", "web-7d4b9c6f8-x2k9q", controller, &pod()),
            eviction: review("pods", "eviction", "p1", node, &eviction),
        }
    }
}

/// In the order in which Go writes an `AdmissionReview` (k8s.io/api/admission/v1, v0.36.3).
fn review(resource: &str, subresource: &str, name: &str, user: &str, object: &Value) -> Vec<u8> {
    let kind = format!(r#"{{"group":"","version":"v1","kind":{}}}"#, object["kind"]);
    let resource = format!(r#"{{"group":"","version":"v1","resource":"{resource}"}}"#);
    let (sub, request_sub) = if subresource.is_empty() {
        (String::new(), String::new())
    } else {
        (
            format!(r#""subResource":"{subresource}","#),
            format!(r#""requestSubResource":"{subresource}","#),
        )
    };
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{kind},"resource":{resource},{sub}"requestKind":{kind},"requestResource":{resource},{request_sub}"name":"{name}","namespace":"default","operation":"CREATE","userInfo":{user},"object":{object},"oldObject":null,"dryRun":false,"options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#
    )
    .into_bytes()
}

/// A pod as a Deployment makes it, filled up to its size with variables of its containers.
fn pod() -> Value {
    let container = |name: &str, port: u16| {
        let probe = json!({"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTP"},
            "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3, "successThreshold": 1});
        json!({
            "name": name, "image": format!("registry.example/{name}:1.27.3"),
            "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"},
                "requests": {"cpu": "100m", "memory": "128Mi"}},
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/app", "readOnly": true},
                {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
            "livenessProbe": probe, "readinessProbe": probe,
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent", "env": [],
        })
    };
    let mut pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": "web-7d4b9c6f8-x2k9q", "generateName": "web-7d4b9c6f8-", "namespace": "default",
            "uid": "b1d6a2a0-3c39-4c47-9d59-0a1b2c3d4e5f", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f8", "tier": "front"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f8",
                "uid": "a0c5b1d4-1111-4c47-9d59-0a1b2c3d4e5f", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "volumes": [
                {"name": "config", "configMap": {"name": "web", "defaultMode": 420}},
                {"name": "token", "projected": {"defaultMode": 420, "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
            "containers": [container("web", 8080), container("proxy", 9090)],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "web", "serviceAccount": "web", "securityContext": {},
            "schedulerName": "default-scheduler", "priority": 0, "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    });
    for index in 0.. {
        if pod.to_string().len() >= POD {
            break;
        }
        let variable = json!({"name": format!("SETTING_{index}"),
            "value": format!("https://service-{index}.example/path?with=a&longer=value")});
        let list = pod["spec"]["containers"][index % 2]["env"].as_array_mut();
        list.unwrap().push(variable);
    }
    pod
}

/// What the eviction's lookup finds.
pub(crate) async fn fill(plane: &ControlPlane) -> Result<()> {
    let admin = plane.admin().await?;
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "n1"}}))?;
    nodes.create(&PostParams::default(), &node).await?;
    let pods: Api<Pod> = Api::namespaced(admin, "default");
    let pod = serde_json::from_value(json!({"metadata": {"name": "p1"},
        "spec": {"nodeName": "n1", "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i"}]}}))?;
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}
