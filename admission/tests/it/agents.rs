//! Agents held to their own node: the published attacks, and an agent's honest writes.

use nodelife_admission::{
    AdmissionPhase, Evaluation, Lookups, Policies, RecordedCluster, Review, Verdict, decide,
};
use serde_json::{Value, json};

fn policies() -> Policies {
    serde_json::from_value(json!({"agents": [{
        "serviceAccount": "net:agent",
        "labels": ["agent.example.com/"],
        "annotations": ["agent.example.com/"],
        "resources": {"tunnels.example.com": "spec.nodeName"},
        "tokens": ["net:plugin"],
    }]}))
    .unwrap()
}

fn cluster() -> RecordedCluster {
    let pod = |namespace: &str, name: &str, node: &str| json!({"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {"nodeName": node}});
    RecordedCluster::from_list(json!({"kind": "List", "items": [
        {"kind": "Node", "metadata": {"name": "n1", "uid": "u1"}},
        pod("d", "own", "n1"),
        pod("d", "theirs", "n2"),
        pod("net", "own", "n1"),
        pod("net", "theirs", "n2"),
    ]}))
    .unwrap()
}

fn token() -> Value {
    json!({"authentication.kubernetes.io/node-name": ["n1"], "authentication.kubernetes.io/node-uid": ["u1"]})
}

/// The refusal of a write by the agent; empty when it passes.
fn refusal(extra: Value, resource: &str, operation: &str, request: Value) -> String {
    let (path, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = path.split_once('.').unwrap_or((path, ""));
    let mut whole = json!({
        "uid": "u",
        "resource": {"group": group, "version": "v1", "resource": resource},
        "subResource": subresource,
        "operation": operation,
        "namespace": "d",
        "userInfo": {"username": "system:serviceaccount:net:agent", "extra": extra},
    });
    for (field, value) in request.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole});
    let bytes = review.to_string();
    let review = Review::parse(bytes.as_bytes()).unwrap();
    let (policies, cluster) = (policies(), cluster());
    let mut lookups = Lookups::new();
    loop {
        match decide(
            &review.request,
            &policies,
            AdmissionPhase::Validating,
            &lookups,
        ) {
            Evaluation::Needs(needed) => lookups.extend(needed.into_iter().map(|lookup| {
                let answer = cluster.answer(&lookup);
                (lookup, answer)
            })),
            Evaluation::Decided(decision) => match decision.verdict {
                Verdict::Deny(denial) => return denial.message,
                _ => return String::new(),
            },
        }
    }
}

fn node(name: &str, more: Value) -> Value {
    let mut node = json!({"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {}});
    for (part, value) in more.as_object().unwrap() {
        for (field, value) in value.as_object().unwrap() {
            node[part][field] = value.clone();
        }
    }
    node
}

/// A request of a token of an account in its own namespace, bound to an object or to nothing.
fn request_token(account: &str, bound: Option<[&str; 3]>) -> Value {
    let bound = bound.map(
        |[kind, name, uid]| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}),
    );
    json!({"namespace": "net", "name": account, "object": {"spec": {"boundObjectRef": bound}}})
}

#[test]
fn legitimate_writes_of_an_agent_pass() {
    let old = node("n1", json!({}));
    for new in [
        node(
            "n1",
            json!({"metadata": {"labels": {"a": "b", "agent.example.com/x": "1"}}}),
        ),
        node(
            "n1",
            json!({"metadata": {"annotations": {"agent.example.com/x": "1"}, "resourceVersion": "2"}}),
        ),
    ] {
        let request = json!({"name": "n1", "object": new, "oldObject": old});
        assert_eq!(refusal(token(), "nodes", "UPDATE", request), "");
    }
    let own = json!({"spec": {"nodeName": "n1"}});
    let deletion = json!({"name": "own", "oldObject": own});
    assert_eq!(refusal(token(), "pods", "DELETE", deletion), "");
    let eviction = json!({"name": "own", "object": {}});
    assert_eq!(refusal(token(), "pods/eviction", "CREATE", eviction), "");
    let tunnel = json!({"object": own});
    assert_eq!(
        refusal(token(), "tunnels.example.com", "CREATE", tunnel),
        ""
    );
    for requested in [
        request_token("agent", Some(["Pod", "own", "own"])),
        request_token("agent", Some(["Node", "n1", ""])),
        // As calico-node does it for its CNI plugin.
        request_token("plugin", None),
        request_token("plugin", Some(["Secret", "own", ""])),
        request_token("plugin", Some(["Node", "n1", ""])),
    ] {
        let message = refusal(token(), "serviceaccounts/token", "CREATE", requested);
        assert_eq!(message, "");
    }
    let other = json!({"object": {}});
    assert_eq!(refusal(token(), "events", "CREATE", other), "");
}

#[test]
fn the_published_attacks_are_refused() {
    let theirs = json!({"spec": {"nodeName": "n2"}});
    let patch = |name: &str, more: Value| json!({"name": name, "object": node(name, more), "oldObject": node(name, json!({}))});
    let taints = json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}});
    let label = json!({"metadata": {"labels": {"a": "b", "node-role.kubernetes.io/x": ""}}});
    let allowed = json!({"metadata": {"labels": {"a": "b", "agent.example.com/x": ""}}});
    for (resource, operation, request) in [
        // CVE-2023-26484: taint the others and lure privileged pods.
        ("nodes", "UPDATE", patch("n2", taints.clone())),
        ("nodes", "UPDATE", patch("n2", allowed.clone())),
        (
            "nodes/status",
            "UPDATE",
            patch("n2", json!({"status": {"capacity": {"cpu": "1"}}})),
        ),
        // Its own node, but not its own fields.
        ("nodes", "UPDATE", patch("n1", taints)),
        ("nodes", "UPDATE", patch("n1", label)),
        (
            "nodes",
            "UPDATE",
            patch(
                "n1",
                json!({"metadata": {"ownerReferences": [{"name": "x"}]}}),
            ),
        ),
        (
            "nodes",
            "DELETE",
            json!({"name": "n1", "oldObject": node("n1", json!({}))}),
        ),
        (
            "pods",
            "DELETE",
            json!({"name": "theirs", "oldObject": theirs}),
        ),
        (
            "pods/eviction",
            "CREATE",
            json!({"name": "theirs", "object": {}}),
        ),
        (
            "pods/eviction",
            "CREATE",
            json!({"name": "gone", "object": {}}),
        ),
        (
            "pods/status",
            "UPDATE",
            json!({"object": theirs, "oldObject": theirs}),
        ),
        ("pods/exec", "CONNECT", json!({"name": "own"})),
        (
            "pods",
            "CREATE",
            json!({"object": {"spec": {"nodeName": "n1"}}}),
        ),
        (
            "tunnels.example.com",
            "UPDATE",
            json!({"object": {"spec": {"nodeName": "n1"}}, "oldObject": theirs}),
        ),
        ("tunnels.example.com", "CREATE", json!({"object": theirs})),
    ] {
        let message = refusal(token(), resource, operation, request.clone());
        assert_ne!(message, "", "{operation} {resource} {request}");
    }
    // A legacy token, a node name that was taken again, and extras that say two things.
    let uid = "authentication.kubernetes.io/node-uid";
    let name = "authentication.kubernetes.io/node-name";
    for extra in [
        Value::Null,
        json!({}),
        json!({name: ["n1"]}),
        json!({name: ["n1"], uid: ["stale"]}),
        json!({name: ["n1", "n2"], uid: ["u1"]}),
        json!({name: ["gone"], uid: ["u1"]}),
    ] {
        let message = refusal(
            extra.clone(),
            "nodes",
            "UPDATE",
            patch("n1", allowed.clone()),
        );
        assert_ne!(message, "", "{extra}");
    }
}

/// A token of another node, of a pod that was there before, of no node, or of another account.
#[test]
fn tokens_of_other_nodes_and_accounts_are_refused() {
    let bound = "may only request tokens that are bound to its own node";
    let others = "may not request tokens of \"net:other\"";
    for (expected, account, reference) in [
        (bound, "agent", Some(["Pod", "theirs", "theirs"])),
        (bound, "agent", Some(["Pod", "own", "earlier"])),
        (bound, "agent", Some(["Pod", "own", ""])),
        (bound, "agent", Some(["Pod", "gone", "gone"])),
        (bound, "agent", Some(["Node", "n2", ""])),
        (bound, "agent", Some(["Secret", "own", ""])),
        (bound, "agent", None),
        (bound, "plugin", Some(["Node", "n2", ""])),
        (others, "other", Some(["Node", "n1", ""])),
        (others, "other", Some(["Pod", "own", "own"])),
        (others, "other", None),
    ] {
        let requested = request_token(account, reference);
        let message = refusal(token(), "serviceaccounts/token", "CREATE", requested);
        assert!(
            message.contains(expected),
            "{account} {reference:?}: {message}"
        );
    }
}
