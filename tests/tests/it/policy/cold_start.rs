//! What kubelets write from their start until their node is Ready and pods run, with `failurePolicy:
//! Fail` and no replica.
//!
//! `cold_start/VERSION.json` was read off the audit log of real kubelets, with an API server of their
//! version and an audit policy of level `RequestResponse` for the group `system:nodes`. To record
//! another version:
//!
//! 1. Start the control plane alone, with the overlay `fail-closed` of `manifests`, whose image no node
//!    has, and these pods: a DaemonSet in kube-system; a DaemonSet in the namespace `cni` with the label
//!    `nodelife.dev/webhook: exempt`, which gives each node its CNI configuration once it has a token;
//!    Deployments `web` without a token and `token` with one, in `default`.
//! 2. Start `node-1` (`--rotate-server-certificates`) and `node-2`, each with containerd, runc, CNI and
//!    a static pod. Wait until both are Ready and the pods run, except `token`, which waits.
//! 3. Read logs, execute a command, send the kubelet a bearer token, delete pods.
//! 4. Cut the power of both nodes and start them again. Cut it, delete their Nodes, and start them as
//!    new ones. Both times, wait as in 2.
//! 5. Run `cold_start/distil.jq` on the audit log. The test reads each file that lies beside it.
//!
//! What those kubelets had no reason to write was read off their source ([`not_recorded`]): every
//! `Create`, `Update`, `Patch` and `Delete` below `pkg/kubelet` and `pkg/volume`, and the lease and
//! certificate controllers of its libraries.

use std::collections::BTreeMap;
use std::fs;

use kube::Client;
use nodelife_tests::{ControlPlane, until};
use serde::Deserialize;
use serde_json::{Value, json};

use super::requests::{NODES, is_served};
use super::{Call, make, pod};

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/policy/cold_start");
/// The node whose kubelet writes what was not recorded.
const NODE: &str = "fresh";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

#[derive(Deserialize)]
struct Recorded {
    verb: String,
    path: String,
    /// Refused until a replica answers. The kubelet tries these again and goes on without.
    waits: bool,
    body: Value,
}

pub(super) async fn without_a_replica(plane: &ControlPlane) {
    let admin = plane.admin().await.unwrap();
    let cni = json!({"metadata": {"name": "cni", "labels": {"nodelife.dev/webhook": "exempt"}}});
    make(&admin, &[("/api/v1/namespaces", cni)]).await;
    let mut replayed = 0;
    for entry in fs::read_dir(RECORDED).unwrap() {
        let path = entry.unwrap().path();
        if let Some(version) = path.to_str().and_then(|path| path.strip_suffix(".json")) {
            let node = format!("kubelet-{}", version.rsplit('/').next().unwrap());
            let recorded = fs::read_to_string(&path).unwrap().replace("$node", &node);
            let writes: Vec<Recorded> = serde_json::from_str(&recorded).unwrap();
            replay(&admin, &node, &writes).await;
            replayed += writes.len();
        }
    }
    println!("{replayed} recorded writes");
    assert!(replayed > 30, "{replayed}");
    not_recorded(&admin).await;
    a_label_exempts_the_network_plugin(&admin).await;
    the_webhook_is_missed(&admin).await;
}

async fn replay(admin: &Client, node: &str, writes: &[Recorded]) {
    let mut uids = BTreeMap::new();
    for (name, (namespace, account)) in pods(writes) {
        let pod = bound_pod(admin, node, namespace, name, account).await;
        uids.insert(format!("uid of {name}"), pod["metadata"]["uid"].clone());
    }
    for write in writes {
        let call = write.call(admin, &uids).await.by_node(node);
        if write.waits {
            assert!(write.may_wait(), "{call:?}");
            waits(admin, call).await;
            continue;
        }
        let response = if write.path.ends_with("/token") {
            // The API server learns of pods by a watch.
            comes_through(admin, call).await
        } else {
            passes(admin, call).await
        };
        if write.path == "/api/v1/nodes" {
            let uid = response["metadata"]["uid"].clone();
            uids.insert(format!("uid of {node}"), uid);
        }
    }
    for (name, (namespace, _)) in pods(writes) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let deleted = |write: &Recorded| write.verb == "delete" && write.path == path;
        if !writes.iter().any(deleted) {
            let options = json!({"gracePeriodSeconds": 0});
            passes(admin, Call::new("DELETE", path, options).by_node(node)).await;
        }
    }
}

/// Namespace and account of each pod that the kubelet runs.
fn pods(writes: &[Recorded]) -> BTreeMap<&str, (&str, &str)> {
    let mut pods = BTreeMap::new();
    for write in writes {
        let path: Vec<&str> = write.path.split('/').collect();
        if let [.., namespace, "pods", name, "status"] = path[..] {
            pods.entry(name).or_insert((namespace, "default"));
        }
    }
    for write in writes {
        let path: Vec<&str> = write.path.split('/').collect();
        if let [.., "serviceaccounts", account, "token"] = path[..] {
            let name = write.body["spec"]["boundObjectRef"]["name"].as_str();
            pods.get_mut(name.unwrap()).unwrap().1 = account;
        }
    }
    pods
}

impl Recorded {
    async fn call(&self, admin: &Client, uids: &BTreeMap<String, Value>) -> Call {
        let mut body = self.body.clone();
        fill(&mut body, uids);
        match self.verb.as_str() {
            "create" => Call::new("POST", &self.path, body),
            "patch" => Call::patch_as("strategic-merge-patch", &self.path, body),
            "update" => {
                let live = Call::new("GET", &self.path, Value::Null);
                let live = live.send(admin).await.unwrap().body;
                for field in ["uid", "resourceVersion"] {
                    body["metadata"][field] = live["metadata"][field].clone();
                }
                Call::new("PUT", &self.path, body)
            }
            _ => Call::new("DELETE", &self.path, body),
        }
    }

    /// Mirror pods (the kubelet runs static pods without them), certificates (it has one as long as
    /// it can ask), and tokens outside the exempt namespaces.
    fn may_wait(&self) -> bool {
        let token = self.path.ends_with("/token") && self.path.contains("/default/");
        self.verb == "create"
            && (token
                || self.path.ends_with("/pods")
                || self.path.ends_with("/certificatesigningrequests"))
    }
}

/// Puts in the UIDs that the objects have here.
fn fill(value: &mut Value, uids: &BTreeMap<String, Value>) {
    match value {
        Value::String(text) => {
            if let Some(uid) = uids.get(text) {
                *value = uid.clone();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, uids)),
        Value::Object(fields) => fields.values_mut().for_each(|item| fill(item, uids)),
        _ => {}
    }
}

async fn passes(admin: &Client, call: Call) -> Value {
    if !is_served(&call.path) {
        return Value::Null;
    }
    let response = call.send(admin).await.unwrap();
    // A name that is taken is found out after admission.
    let taken = call.method == "POST" && response.code == 409;
    assert!(response.code < 300 || taken, "{call:?} {response:?}");
    response.body
}

async fn comes_through(admin: &Client, call: Call) -> Value {
    until("a call that passes", async || {
        let response = call.send(admin).await?;
        anyhow::ensure!(response.code < 300, "{call:?} {response:?}");
        Ok(Some(response.body))
    })
    .await
}

/// The kubelet tries this again until a replica answers.
async fn waits(admin: &Client, call: Call) {
    until("a call of the webhook", async || {
        let response = call.send(admin).await?;
        let called = response.message.contains("failed calling webhook");
        anyhow::ensure!(response.code == 500 && called, "{call:?} {response:?}");
        Ok(Some(()))
    })
    .await;
}

/// Read off the kubelet's source.
async fn not_recorded(admin: &Client) {
    let new = json!({"metadata": {"name": NODE, "labels": {"kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "a", "example.com/pool": "a"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
    let csi_node = json!({"metadata": {"name": NODE}, "spec": {"drivers": []}});
    let own_csi_node = format!("{CSI_NODES}/{NODE}");
    let driver = json!([{"name": "csi.example.com", "nodeID": NODE, "topologyKeys": []}]);
    let status = format!("/api/v1/nodes/{NODE}/status");
    for call in [
        // `--register-with-taints`, `--node-labels`.
        Call::new("POST", "/api/v1/nodes", new.clone()),
        // A kubelet that is started again asks first to create its node.
        Call::new("POST", "/api/v1/nodes", new),
        // `updateDefaultLabels`, by a new version of the kubelet.
        Call::patch(
            &status,
            json!({"metadata": {"labels": {"kubernetes.io/arch": "arm64"}}}),
        ),
        // A CSI driver registers, and goes.
        Call::patch(
            &status,
            json!({"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": "{}"}},
                "status": {"volumesInUse": ["kubernetes.io/csi/x"]}}),
        ),
        Call::new("POST", CSI_NODES, csi_node),
        Call::patch(&own_csi_node, json!({"spec": {"drivers": driver}})),
        Call::patch(&own_csi_node, json!({"spec": {"drivers": []}})),
    ] {
        passes(admin, call.by_node(NODE)).await;
    }
}

/// A pod of this account, bound to the node, as the scheduler and its controller make it.
async fn bound_pod(
    admin: &Client,
    node: &str,
    namespace: &str,
    name: &str,
    account: &str,
) -> Value {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let made = Call::new("POST", path, json!({"metadata": {"name": account}}));
    let made = made.send(admin).await.unwrap();
    // Some are there already.
    assert!([201, 409].contains(&made.code), "{made:?}");
    let mut object = pod(namespace, name, node);
    object["spec"]["serviceAccountName"] = json!(account);
    object["spec"]["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    object["spec"]["containers"][0]["securityContext"] =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let made = Call::new("POST", path, object).send(admin).await.unwrap();
    assert_eq!(made.code, 201, "{made:?}");
    made.body
}

async fn a_label_exempts_the_network_plugin(admin: &Client) {
    let flannel = json!({"metadata": {"name": "kube-flannel"}});
    make(admin, &[("/api/v1/namespaces", flannel)]).await;
    let pod = bound_pod(admin, NODE, "kube-flannel", "flannel", "flannel").await;
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "flannel",
        "uid": pod["metadata"]["uid"]});
    let spec = json!({"audiences": [], "expirationSeconds": 3607, "boundObjectRef": bound});
    let path = "/api/v1/namespaces/kube-flannel/serviceaccounts/flannel/token";
    let token = Call::new("POST", path, json!({"spec": spec})).by_node(NODE);
    waits(admin, token.clone()).await;
    let exempt = json!({"metadata": {"labels": {"nodelife.dev/webhook": "exempt"}}});
    let labelled = Call::patch("/api/v1/namespaces/kube-flannel", exempt);
    assert_eq!(labelled.send(admin).await.unwrap().code, 200);
    comes_through(admin, token).await;
    let path = "/api/v1/namespaces/kube-flannel/pods/flannel";
    let options = json!({"gracePeriodSeconds": 0});
    passes(admin, Call::new("DELETE", path, options).by_node(NODE)).await;
}

/// What the webhook exists for is refused.
async fn the_webhook_is_missed(admin: &Client) {
    for node in NODES {
        let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/x": ""}}});
        let dirty = Call::patch(format!("/api/v1/nodes/{node}"), label).by_node(node);
        waits(admin, dirty).await;
    }
}
