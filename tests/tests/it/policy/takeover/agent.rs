//! What an agent tries: the ServiceAccount of a DaemonSet, with the token of its pod on one node.

use nodelife_tests::{ControlPlane, Identity};
use serde_json::{Value, json};

use super::{Attempt, Call, impersonate, make, pod};

/// The first account of `overlays/agents/config.yaml`.
const NAMESPACE: &str = "kubevirt";
const ACCOUNT: &str = "kubevirt-handler";

/// The account with permissions as wide as the published ones, and a pod of it on each node.
pub(super) async fn prepare(admin: &kube::Client) {
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "verbs": ["*"], "resources":
        ["nodes", "nodes/status", "nodes/proxy", "pods", "pods/status", "pods/eviction", "pods/exec",
            "pods/attach", "pods/ephemeralcontainers", "pods/binding", "serviceaccounts/token"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let bind = json!({"metadata": {"name": "agent"}, "subjects": subjects,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "agent"}});
    let mut objects = vec![
        (
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": NAMESPACE}}),
        ),
        (
            format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
            json!({"metadata": {"name": ACCOUNT}}),
        ),
        (
            format!("/apis/{group}/v1/clusterroles"),
            json!({"metadata": {"name": "agent"}, "rules": rules}),
        ),
        (format!("/apis/{group}/v1/clusterrolebindings"), bind),
    ];
    for node in ["own", "other"] {
        let mut object = pod(NAMESPACE, &format!("agent-{node}"), node);
        object["spec"]["serviceAccountName"] = json!(ACCOUNT);
        objects.push((format!("/api/v1/namespaces/{NAMESPACE}/pods"), object));
    }
    make(admin, &objects).await;
}

/// A client with the token of the pod on the first node.
pub(super) async fn client(plane: &ControlPlane, admin: &kube::Client) -> kube::Client {
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "agent-own"});
    let response = Call::new(
        "POST",
        token_path(),
        json!({"spec": {"audiences": [], "boundObjectRef": bound}}),
    )
    .send(admin)
    .await
    .unwrap();
    let token = response.body["status"]["token"].as_str();
    let token = token.unwrap_or_else(|| panic!("{response:?}")).to_owned();
    plane.client(&Identity::Token(token)).await.unwrap()
}

fn token_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token")
}

pub(super) fn attempts() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    nodes(&mut attempts);
    for namespace in ["default", "kube-system"] {
        pods(namespace, &mut attempts);
    }
    tokens(&mut attempts);
    attempts
}

fn nodes(attempts: &mut Vec<Attempt>) {
    let heartbeat = json!({"metadata": {"annotations": {"kubevirt.io/heartbeat": "now"}}});
    let own = || Call::patch("/api/v1/nodes/own", heartbeat.clone());
    let taint = json!({"spec": {"taints": [{"key": "attack", "effect": "NoExecute"}]}});
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]}});
    let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    let other = "may only write nodes with metadata.name set to its own node";
    let named =
        |node: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    let connect = "an agent may not connect to nodes";
    for (what, sentence, call) in [
        (
            "annotate another node",
            other,
            Call::patch("/api/v1/nodes/other", heartbeat.clone()),
        ),
        (
            "taint another node, so that its pods move",
            other,
            Call::patch("/api/v1/nodes/other", taint.clone()),
        ),
        (
            "report another node's status",
            other,
            Call::patch(
                "/api/v1/nodes/other/status",
                json!({"status": {"capacity": {"cpu": "1"}}}),
            ),
        ),
        (
            "apply another node",
            other,
            Call::apply("/api/v1/nodes/other", named("other")),
        ),
        (
            "register another node",
            other,
            Call::new("POST", "/api/v1/nodes", named("third")),
        ),
        (
            "delete another node",
            other,
            Call::new("DELETE", "/api/v1/nodes/other", Value::Null),
        ),
        (
            "delete all nodes",
            "",
            Call::new("DELETE", "/api/v1/nodes", Value::Null),
        ),
        (
            "delete its node",
            "may neither create nor delete nodes",
            Call::new("DELETE", "/api/v1/nodes/own", Value::Null),
        ),
        (
            "change its node's taints",
            "may not change spec.taints",
            Call::patch("/api/v1/nodes/own", taint),
        ),
        (
            "change its node's role",
            "may not change metadata.labels.node-role",
            Call::patch("/api/v1/nodes/own", role),
        ),
        (
            "give its node an owner",
            "may not change metadata.ownerReferences",
            Call::patch("/api/v1/nodes/own", owner),
        ),
        (
            "run a command by another kubelet",
            connect,
            Call::new("POST", "/api/v1/nodes/other/proxy/run/d/p/c", Value::Null),
        ),
        (
            "run a command by its own kubelet",
            connect,
            Call::new("POST", "/api/v1/nodes/own/proxy/run/d/p/c", Value::Null),
        ),
    ] {
        attempts.push(Attempt::by_webhook(what, sentence, call, own()));
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn pods(namespace: &str, attempts: &mut Vec<Attempt>) {
    let path = |pod: &str| format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    let status = |pod: &str| {
        Call::patch(
            format!("{}/status", path(pod)),
            json!({"status": {"phase": "Running"}}),
        )
    };
    let delete = |pod: &str| Call::new("DELETE", path(pod), Value::Null);
    let evict = |pod: &str| {
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        Call::new("POST", format!("{}/eviction", path(pod)), eviction)
    };
    let other = "may only write pods with spec.nodeName set to its own node";
    let connect = "an agent may not connect to pods";
    let subresource = "an agent may not use the pod subresource";
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    let bind = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "unbound"}, "target": {"kind": "Node", "name": "own"}});
    let mut powerful = pod(namespace, "powerful", "own");
    powerful["spec"]["serviceAccountName"] = json!("clusterrole-aggregation-controller");
    for (what, sentence, call, own) in [
        (
            "create a pod with another account",
            "an agent may not create pods",
            Call::new(
                "POST",
                format!("/api/v1/namespaces/{namespace}/pods"),
                powerful,
            ),
            status("on-own"),
        ),
        (
            "delete another node's pod",
            other,
            delete("on-other"),
            delete("on-own"),
        ),
        (
            "delete all pods",
            other,
            Call::new(
                "DELETE",
                format!("/api/v1/namespaces/{namespace}/pods"),
                Value::Null,
            ),
            delete("on-own"),
        ),
        (
            "report the status of another node's pod",
            other,
            status("on-other"),
            status("on-own"),
        ),
        (
            "evict another node's pod",
            "may only evict pods of its own node",
            evict("on-other"),
            evict("on-own"),
        ),
        (
            "run a command in another node's pod",
            connect,
            Call::new(
                "POST",
                format!("{}/exec?command=id&stdout=true", path("on-other")),
                Value::Null,
            ),
            status("on-own"),
        ),
        (
            "run a command in a pod of its node",
            connect,
            Call::new(
                "POST",
                format!("{}/exec?command=id&stdout=true", path("on-own")),
                Value::Null,
            ),
            status("on-own"),
        ),
        (
            "attach to a pod",
            connect,
            Call::new(
                "POST",
                format!("{}/attach?stdout=true", path("on-other")),
                Value::Null,
            ),
            status("on-own"),
        ),
        (
            "add an ephemeral container",
            subresource,
            Call::patch_as(
                "strategic-merge-patch",
                format!("{}/ephemeralcontainers", path("on-other")),
                debug,
            ),
            status("on-own"),
        ),
        (
            "bind a pod to its node",
            subresource,
            Call::new("POST", format!("{}/binding", path("unbound")), bind),
            status("on-own"),
        ),
    ] {
        attempts.push(Attempt::by_webhook(
            format!("{what} in {namespace}"),
            sentence,
            call,
            own,
        ));
    }
}

fn tokens(attempts: &mut Vec<Attempt>) {
    let request = |path: String, bound: Value| {
        let spec = json!({"audiences": [], "boundObjectRef": bound});
        Call::new("POST", path, json!({"spec": spec}))
    };
    let to = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "name": name});
    let others =
        |namespace: &str| format!("/api/v1/namespaces/{namespace}/serviceaccounts/runner/token");
    let own = || request(token_path(), to("Node", "own"));
    let bound = "may only request tokens that are bound to its own node";
    let other = "may not request tokens of";
    for (what, sentence, path, reference) in [
        (
            "of itself on another node",
            bound,
            token_path(),
            to("Node", "other"),
        ),
        (
            "of its account's pod on another node",
            bound,
            token_path(),
            to("Pod", "agent-other"),
        ),
        (
            "of its pod without a uid",
            bound,
            token_path(),
            to("Pod", "agent-own"),
        ),
        (
            "of itself that says no node",
            bound,
            token_path(),
            Value::Null,
        ),
        (
            "of another account in default that says no node",
            other,
            others("default"),
            Value::Null,
        ),
        (
            "of another account in default on its own node",
            other,
            others("default"),
            to("Node", "own"),
        ),
        (
            "of another account in kube-system that says no node",
            other,
            others("kube-system"),
            Value::Null,
        ),
        (
            "of another account in kube-system on its own node",
            other,
            others("kube-system"),
            to("Node", "own"),
        ),
    ] {
        attempts.push(Attempt::by_webhook(
            format!("request a token {what}"),
            sentence,
            request(path, reference),
            own(),
        ));
    }
    attempts.extend(["user", "group"].map(impersonate));
}
