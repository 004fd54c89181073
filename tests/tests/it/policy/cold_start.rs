//! What a kubelet writes from its start until its node is Ready and pods run, with `failurePolicy:
//! Fail` and no replica.
//!
//! The list was read off the kubelet's source (v1.36.3 and v1.37.2, every `Create`, `Update`, `Patch`
//! and `Delete` below `pkg/kubelet` and `pkg/volume`, and the lease and certificate controllers of its
//! libraries). The two differ in `csinodes/status` and the version of `PodCertificateRequest`.

use kube::Client;
use nodelife_tests::{ControlPlane, TIMEOUT, wait_until};
use serde_json::{Value, json};

use super::requests::NODES;
use super::{Call, make, pod};

const NODE: &str = "fresh";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
/// The pods of a node that the webhook needs, and its own: namespace and account. The network plugin
/// has a namespace of its own, which is exempt by a label.
const PODS: [(&str, &str); 3] = [
    ("kube-flannel", "flannel"),
    ("kube-system", "kube-proxy"),
    ("nodelife-system", "nodelife-webhook"),
];

pub(super) async fn without_a_replica(plane: &ControlPlane) {
    let admin = plane.admin().await.unwrap();
    node_becomes_ready(&admin).await;
    let flannel = json!({"metadata": {"name": "kube-flannel"}});
    make(&admin, &[("/api/v1/namespaces", flannel)]).await;
    let mut pods = Vec::new();
    for (namespace, account) in PODS {
        pods.push((
            namespace,
            account,
            bound_pod(&admin, namespace, account).await,
        ));
    }
    let (_, _, flannel) = &pods[0];
    waits(&admin, token("kube-flannel", "flannel", flannel)).await;
    let exempt = json!({"metadata": {"labels": {"nodelife.dev/webhook": "exempt"}}});
    let labelled = Call::patch("/api/v1/namespaces/kube-flannel", exempt);
    assert_eq!(labelled.send(&admin).await.unwrap().code, 200);
    for (namespace, account, pod) in &pods {
        runs_and_ends(&admin, namespace, account, pod).await;
    }
    wait_for_the_webhook(&admin).await;
}

async fn passes(admin: &Client, call: Call) -> Value {
    let response = call.clone().by_node(NODE).send(admin).await.unwrap();
    assert!(response.code < 300, "{call:?} {response:?}");
    response.body
}

/// The kubelet tries this again until a replica answers.
async fn waits(admin: &Client, call: Call) {
    wait_until("a call of the webhook", TIMEOUT, async || {
        let response = call.clone().by_node(NODE).send(admin).await?;
        let called = response.message.contains("failed calling webhook");
        anyhow::ensure!(response.code == 500 && called, "{call:?} {response:?}");
        Ok(Some(()))
    })
    .await
    .unwrap();
}

async fn node_becomes_ready(admin: &Client) {
    let labels = json!({"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux",
        "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "a",
        "topology.kubernetes.io/zone": "a", "example.com/pool": "a"});
    let new = json!({
        "metadata": {"name": NODE, "labels": labels, "annotations":
            {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1", "memory": "1Gi", "pods": "110"}},
    });
    let register = Call::new("POST", "/api/v1/nodes", new);
    passes(admin, register.clone()).await;
    // A kubelet that is started again asks first to create its node.
    let again = register.by_node(NODE).send(admin).await.unwrap();
    assert_eq!(again.code, 409, "{again:?}");

    let status = format!("/api/v1/nodes/{NODE}/status");
    let conditions: Vec<Value> = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .iter()
        .map(
            |name| json!({"type": name, "status": if *name == "Ready" { "True" } else { "False" }}),
        )
        .collect();
    let lease = json!({"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE}});
    let csi_node = json!({"metadata": {"name": NODE, "annotations":
        {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}},
        "spec": {"drivers": []}});
    let driver = json!([{"name": "csi.example.com", "nodeID": NODE, "topologyKeys": []}]);
    for call in [
        // `updateDefaultLabels`, by a new version of the kubelet.
        Call::patch(
            &status,
            json!({"metadata": {"labels": {"kubernetes.io/arch": "arm64"}}}),
        ),
        Call::patch(
            &status,
            json!({"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": "{}"}},
                "status": {"conditions": conditions, "volumesInUse": [],
                "images": [{"names": ["i"], "sizeBytes": 1}]}}),
        ),
        Call::new("POST", LEASES, lease),
        Call::patch(
            format!("{LEASES}/{NODE}"),
            json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}),
        ),
        // Without its CSINode a kubelet reports NotReady, and ends after some tries.
        Call::new("POST", CSI_NODES, csi_node),
        Call::patch(
            format!("{CSI_NODES}/{NODE}"),
            json!({"spec": {"drivers": driver}}),
        ),
        Call::patch(
            format!("{CSI_NODES}/{NODE}"),
            json!({"spec": {"drivers": []}}),
        ),
        // `wipeResourceSlices`, when no driver has registered.
        Call::new(
            "DELETE",
            format!("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName={NODE}"),
            Value::Null,
        ),
        // Whether a caller of the kubelet's own API is who he says, and may do that.
        Call::new(
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({"spec": {"token": "x"}}),
        ),
        Call::new(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({"spec": {"user": "x", "resourceAttributes":
                {"verb": "get", "resource": "nodes", "subresource": "proxy"}}}),
        ),
    ] {
        passes(admin, call).await;
    }
}

/// A pod of this account, bound to the node, as the scheduler and its controller make it.
async fn bound_pod(admin: &Client, namespace: &str, account: &str) -> Value {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let made = Call::new("POST", path, json!({"metadata": {"name": account}}));
    let made = made.send(admin).await.unwrap();
    // Some are there already.
    assert!([201, 409].contains(&made.code), "{made:?}");
    let mut object = pod(namespace, account, NODE);
    object["spec"]["serviceAccountName"] = json!(account);
    object["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    object["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let made = Call::new(
        "POST",
        format!("/api/v1/namespaces/{namespace}/pods"),
        object,
    );
    let made = made.send(admin).await.unwrap();
    assert_eq!(made.code, 201, "{made:?}");
    made.body
}

fn token(namespace: &str, account: &str, pod: &Value) -> Call {
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"]});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let spec = json!({"audiences": [], "expirationSeconds": 3607, "boundObjectRef": bound});
    Call::new("POST", path, json!({"spec": spec}))
}

async fn runs_and_ends(admin: &Client, namespace: &str, account: &str, pod: &Value) {
    let token = token(namespace, account, pod).by_node(NODE);
    // The API server learns of the pod and of the namespace's label by watches.
    wait_until(&format!("a token for {account}"), TIMEOUT, async || {
        let response = token.send(admin).await?;
        anyhow::ensure!(response.code == 201, "{response:?}");
        Ok(Some(()))
    })
    .await
    .unwrap();
    let events = format!("/api/v1/namespaces/{namespace}/events");
    let pulled = json!({"metadata": {"name": format!("{account}.1")}, "reason": "Pulled",
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": account},
        "source": {"component": "kubelet", "host": NODE}});
    passes(admin, Call::new("POST", events, pulled)).await;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{account}");
    let uid = &pod["metadata"]["uid"];
    for phase in ["Pending", "Running"] {
        let ready = if phase == "Running" { "True" } else { "False" };
        let state = json!({"metadata": {"uid": uid}, "status": {
            "phase": phase, "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
            "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "observedGeneration": 1,
            "startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "c", "image": "i", "imageID": "i", "ready": true,
                "restartCount": 0}]}});
        passes(admin, Call::patch(format!("{path}/status"), state)).await;
    }
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    passes(admin, Call::new("DELETE", path, options)).await;
}

/// What cannot be judged without a lookup, or by CEL, waits: mirror pods (the kubelet runs static
/// pods without them), certificates (it has one as long as it can ask), tokens of all other pods.
/// And what the webhook exists for is refused.
async fn wait_for_the_webhook(admin: &Client) {
    let uid = Call::new("GET", format!("/api/v1/nodes/{NODE}"), Value::Null);
    let uid = uid.send(admin).await.unwrap().body["metadata"]["uid"].clone();
    let mut mirror = pod("kube-system", "etcd", NODE);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x",
        "kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "x"});
    mirror["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node",
        "name": NODE, "uid": uid, "controller": true}]);
    let mirror = Call::new("POST", "/api/v1/namespaces/kube-system/pods", mirror);
    waits(admin, mirror.dry()).await;
    let app = bound_pod(admin, "default", "runner").await;
    waits(admin, token("default", "runner", &app)).await;
    let path = "/api/v1/namespaces/default/pods/runner";
    passes(
        admin,
        Call::new("DELETE", path, json!({"gracePeriodSeconds": 0})),
    )
    .await;
    for node in NODES {
        let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}});
        let dirty = Call::patch(format!("/api/v1/nodes/{node}"), label).by_node(node);
        let response = dirty.send(admin).await.unwrap();
        assert_eq!(response.code, 500, "{response:?}");
        assert!(
            response.message.contains("failed calling webhook"),
            "{response:?}"
        );
    }
}
