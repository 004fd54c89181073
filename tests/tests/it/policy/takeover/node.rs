//! What a node tries with pods and their tokens, and all that it tries.

use serde_json::{Value, json};

use super::{
    Attempt, Call, LABELLED, NAMESPACES, Refused, Uids, impersonate, node_objects, restricted,
};

const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) fn attempts(uids: &Uids) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for namespace in NAMESPACES {
        pods(namespace, uids, &mut attempts);
        tokens(namespace, uids, &mut attempts);
    }
    tokens(LABELLED, uids, &mut attempts);
    mirror_pods(uids, &mut attempts);
    subresources(&mut attempts);
    attempts.extend(node_objects::attempts());
    attempts.extend(["user", "group"].map(impersonate));
    attempts
}

/// The account of the pods in `namespace`.
fn account(namespace: &str) -> &'static str {
    if namespace == "nodelife-system" {
        "nodelife-webhook"
    } else {
        "runner"
    }
}

fn mirror(namespace: &str, uids: &Uids) -> Value {
    let mut pod = restricted(namespace, "mirror", "own");
    pod["metadata"]["annotations"] = json!({MIRROR: "hash"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node",
        "name": "own", "uid": uids.node, "controller": true}]);
    pod
}

fn pods(namespace: &str, uids: &Uids, attempts: &mut Vec<Attempt>) {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let create = |pod: Value| Call::new("POST", &path, pod);
    let own = || create(mirror(namespace, uids));
    let mut powerful = restricted(namespace, "powerful", "own");
    powerful["spec"]["serviceAccountName"] = json!("clusterrole-aggregation-controller");
    attempts.push(Attempt::by_webhook(
        format!("create a pod with another account in {namespace}"),
        "can only create mirror pods",
        create(powerful.clone()),
        own(),
    ));
    powerful["metadata"] = mirror(namespace, uids)["metadata"].clone();
    attempts.push(Attempt::by_webhook(
        format!("create a mirror pod with another account in {namespace}"),
        "can not create pods that reference serviceaccounts",
        create(powerful),
        own(),
    ));
    let pod = |name: &str, rest: &str| format!("{path}/{name}{rest}");
    attempts.push(Attempt::by_webhook(
        format!("delete another node's pod in {namespace}"),
        "can only delete pods with spec.nodeName set to itself",
        Call::new("DELETE", pod("on-other", ""), Value::Null),
        Call::new("DELETE", pod("on-own", ""), Value::Null),
    ));
    let evict = |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace}});
        Call::new("POST", pod(name, "/eviction"), eviction)
    };
    attempts.push(Attempt::by_webhook(
        format!("evict another node's pod in {namespace}"),
        "can only evict pods with spec.nodeName set to itself",
        evict("on-other"),
        evict("on-own"),
    ));
    let running = json!({"status": {"phase": "Running"}});
    attempts.push(Attempt::by_webhook(
        format!("report the status of another node's pod in {namespace}"),
        "can only update pod status for pods with spec.nodeName set to itself",
        Call::patch(pod("on-other", "/status"), running.clone()),
        Call::patch(pod("on-own", "/status"), running.clone()),
    ));
    let labels = json!({"metadata": {"labels": {"app": "database"}}});
    attempts.push(Attempt::by_webhook(
        format!("label its pod by its status, into a Service, in {namespace}"),
        "cannot update labels through pod status",
        Call::patch(pod("on-own", "/status"), labels),
        Call::patch(pod("on-own", "/status"), running),
    ));
}

fn tokens(namespace: &str, uids: &Uids, attempts: &mut Vec<Attempt>) {
    let account = account(namespace);
    let path =
        |account: &str| format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = |bound: Value, audiences: &[&str]| {
        let spec = json!({"audiences": audiences, "boundObjectRef": bound});
        Call::new("POST", path(account), json!({"spec": spec}))
    };
    let to = |kind: &str, name: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid});
    let own = uids.pod(namespace, "on-own");
    let stale = "00000000-0000-0000-0000-000000000000";
    let backup = &["backup"][..];
    let spec = json!({"spec": {"audiences": [], "boundObjectRef": to("Pod", "on-own", own)}});
    attempts.push(Attempt::by_authorizer(
        format!("request a token of an account that none of its pods has in {namespace}"),
        Call::new("POST", path("default"), spec),
    ));
    for (what, sentence, bound, audiences) in [
        (
            "bound to nothing",
            "not bound to a pod",
            Value::Null,
            backup,
        ),
        (
            "bound to another node's pod",
            "bound to a pod scheduled on a different node",
            to("Pod", "on-other", uids.pod(namespace, "on-other")),
            backup,
        ),
        (
            "bound to another node",
            "not bound to a pod",
            to("Node", "other", &uids.other_node),
            backup,
        ),
        (
            "bound to its pod without a uid",
            "a pod binding without a uid",
            json!({"apiVersion": "v1", "kind": "Pod", "name": "on-own"}),
            backup,
        ),
        (
            "bound to a deleted pod",
            "not found",
            to("Pod", "gone", stale),
            backup,
        ),
        (
            "bound to an earlier pod of the name",
            "does not match the UID in record",
            to("Pod", "on-own", stale),
            backup,
        ),
        (
            "for an audience that its pod does not have",
            "is not authorized to request tokens for",
            to("Pod", "on-own", own),
            &["vault.example.com"],
        ),
        (
            "for two audiences",
            "may only request 0 or 1 audiences",
            to("Pod", "on-own", own),
            &["backup", "vault.example.com"],
        ),
    ] {
        attempts.push(Attempt::by_webhook(
            format!("request a token {what} in {namespace}"),
            sentence,
            request(bound, audiences),
            request(to("Pod", "on-own", own), backup),
        ));
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn mirror_pods(uids: &Uids, attempts: &mut Vec<Attempt>) {
    let create = |pod: Value| Call::new("POST", "/api/v1/namespaces/default/pods", pod);
    let volume = |source: Value| {
        json!([source.as_object().unwrap().iter().fold(
            json!({"name": "v"}),
            |mut volume, (kind, source)| {
                volume[kind] = source.clone();
                volume
            }
        )])
    };
    let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let owner = |field: &str, value: Value| {
        let mut owners = mirror("default", uids)["metadata"]["ownerReferences"].clone();
        owners[0][field] = value;
        owners
    };
    let secret_env =
        json!([{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]);
    for (what, sentence, field, value) in [
        (
            "on another node",
            "spec.nodeName set to itself",
            "/spec/nodeName",
            json!("other"),
        ),
        (
            "with a Secret in a volume",
            "reference secrets",
            "/spec/volumes",
            volume(json!({"secret": {"secretName": "s"}})),
        ),
        (
            "with a Secret in its environment",
            "reference secrets",
            "/spec/containers",
            secret_env,
        ),
        (
            "with a pull Secret",
            "reference secrets",
            "/spec/imagePullSecrets",
            json!([{"name": "s"}]),
        ),
        (
            "with a ConfigMap",
            "reference configmaps",
            "/spec/volumes",
            volume(json!({"configMap": {"name": "c"}})),
        ),
        (
            "with a token of an account",
            "reference serviceaccounts",
            "/spec/volumes",
            projected(json!({"serviceAccountToken": {"path": "t"}})),
        ),
        (
            "with a Secret in a projected volume",
            "reference secrets",
            "/spec/volumes",
            projected(json!({"secret": {"name": "s"}})),
        ),
        (
            "with a claim",
            "reference persistentvolumeclaims",
            "/spec/volumes",
            volume(json!({"persistentVolumeClaim": {"claimName": "claim-other"}})),
        ),
        (
            "with a CSI volume",
            "reference csidrivers",
            "/spec/volumes",
            volume(json!({"csi": {"driver": "driver"}})),
        ),
        (
            "with a resource claim",
            "reference resourceclaims",
            "/spec/resourceClaims",
            json!([{"name": "r", "resourceClaimName": "c"}]),
        ),
        (
            "without an owner",
            "an owner reference set to itself",
            "/metadata/ownerReferences",
            json!([]),
        ),
        (
            "owned by another node",
            "an owner reference set to itself",
            "/metadata/ownerReferences",
            owner("name", json!("other")),
        ),
        (
            "owned by a ReplicaSet",
            "an owner reference set to itself",
            "/metadata/ownerReferences",
            owner("kind", json!("ReplicaSet")),
        ),
        (
            "owned by an earlier node of its name",
            "UID mismatch",
            "/metadata/ownerReferences",
            owner("uid", json!("earlier")),
        ),
    ] {
        let mut pod = mirror("default", uids);
        let (parent, field) = field.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[field] = value;
        attempts.push(Attempt::by_webhook(
            format!("create a mirror pod {what}"),
            sentence,
            create(pod),
            create(mirror("default", uids)),
        ));
    }
}

fn subresources(attempts: &mut Vec<Attempt>) {
    let pods = "/api/v1/namespaces/kube-system/pods";
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "on-other"},
        "target": {"kind": "Node", "name": "own"}});
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    for (name, call) in [
        (
            "bind a pod to itself",
            Call::new("POST", format!("{pods}/on-other/binding"), binding),
        ),
        (
            "add an ephemeral container",
            Call::patch(format!("{pods}/on-other/ephemeralcontainers"), debug),
        ),
        (
            "resize a pod",
            Call::patch(format!("{pods}/on-other/resize"), json!({"spec": {}})),
        ),
        (
            "change a pod",
            Call::patch(
                format!("{pods}/on-own"),
                json!({"metadata": {"labels": {"a": "b"}}}),
            ),
        ),
        (
            "apply a pod",
            Call::apply(
                format!("{pods}/applied"),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "applied"}}),
            ),
        ),
        ("delete all pods", Call::new("DELETE", pods, Value::Null)),
        (
            "run a command in a pod",
            Call::new(
                "POST",
                format!("{pods}/on-other/exec?command=id"),
                Value::Null,
            ),
        ),
        (
            "forward a port of a pod",
            Call::new("POST", format!("{pods}/on-other/portforward"), Value::Null),
        ),
        (
            "reach another kubelet by the API server",
            Call::new("GET", "/api/v1/nodes/other/proxy/pods", Value::Null),
        ),
    ] {
        attempts.push(Attempt::by_authorizer(name, call));
    }
    let other = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "on-other", "namespace": "kube-system"}});
    attempts.push(Attempt {
        name: "evict a pod under the name of its own".to_owned(),
        refused: Refused::ApiServer("name in URL does not match name in Eviction object"),
        call: Call::new("POST", format!("{pods}/on-own/eviction"), other),
        own: None,
    });
}
