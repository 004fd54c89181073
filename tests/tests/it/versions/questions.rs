//! The questions, in the order of the page, and how each is put.

use std::collections::BTreeMap;

use kube::Client;
use nodelife_tests::ControlPlane;
use nodelife_tests::Identity;
use nodelife_tests::kubectl::Kubectl;
use serde_json::{Value, json};

use crate::policy::{Call, PolicyResponse};

/// Resources, by group, whose served versions differ.
const RESOURCES: [(&str, &str); 10] = [
    ("", "pods/resize"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
    ),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("lifecycle.k8s.io", "evictionrequests"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csinodes/status"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// All questions with the answers of this API server.
pub(super) async fn ask(plane: &ControlPlane) -> Vec<(String, String)> {
    let admin = plane.admin().await.unwrap();
    let mut answers = served(&admin).await;
    prepare(&admin).await;
    answers.extend(evictions(&admin).await);
    answers.extend(nodes(&admin).await);
    answers.extend(objects(&admin).await);
    answers.push(kubectl_drain(plane).await);
    answers
}

async fn get(admin: &Client, path: &str) -> PolicyResponse {
    Call::new("GET", path, Value::Null)
        .send(admin)
        .await
        .unwrap()
}

async fn post(admin: &Client, path: &str, body: Value) -> PolicyResponse {
    Call::new("POST", path, body).send(admin).await.unwrap()
}

/// The versions of each resource that are served without a flag.
async fn served(admin: &Client) -> Vec<(String, String)> {
    let mut versions: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let groups = get(admin, "/apis").await.body;
    let groups = groups["groups"].as_array().unwrap();
    let mut paths = vec![("", "v1".to_owned(), "/api/v1".to_owned())];
    for group in groups {
        let name = group["name"].as_str().unwrap();
        for version in group["versions"].as_array().unwrap() {
            let version = version["version"].as_str().unwrap().to_owned();
            let path = format!("/apis/{name}/{version}");
            paths.push((name, version, path));
        }
    }
    for (group, version, path) in paths {
        let known = RESOURCES.iter().filter(|(of, _)| *of == group);
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            continue;
        }
        let list = get(admin, &path).await.body;
        for resource in list["resources"].as_array().unwrap() {
            for (of, name) in &known {
                if resource["name"] == *name {
                    versions
                        .entry((of, name))
                        .or_default()
                        .push(version.clone());
                }
            }
        }
    }
    RESOURCES
        .iter()
        .map(|(group, name)| {
            let served = versions.get(&(*group, *name)).map(|found| found.join(", "));
            let resource = format!("{name}.{group}");
            (
                format!("served: `{}`", resource.trim_end_matches('.')),
                served.unwrap_or_else(|| "not served".to_owned()),
            )
        })
        .collect()
}

/// A node n1 in a zone with a pod on it, another node, and nothing that runs.
async fn prepare(admin: &Client) {
    for (node, zone) in [("n1", "a"), ("n2", "b")] {
        let labels = json!({"topology.kubernetes.io/zone": zone});
        let node = json!({"metadata": {"name": node, "labels": labels}});
        created(&post(admin, "/api/v1/nodes", node).await);
    }
    let account = "/api/v1/namespaces/default/serviceaccounts";
    created(&post(admin, account, json!({"metadata": {"name": "default"}})).await);
    for (name, labels) in [("web", json!({"app": "web"})), ("free", json!({}))] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = labels;
        pod["spec"]["nodeName"] = json!("n1");
        created(&post(admin, PODS, pod).await);
        let running = json!({"status": {"phase": "Running", "conditions":
            [{"type": "Ready", "status": "True"}]}});
        let path = format!("{PODS}/{name}/status");
        created(&Call::patch(path, running).send(admin).await.unwrap());
    }
}

fn created(response: &PolicyResponse) {
    assert!(response.code < 300, "{}", response.body);
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "default"},
    })
}

/// Code, message and causes.
fn answer(response: &PolicyResponse) -> String {
    let causes = response.body["details"]["causes"].as_array();
    let causes: Vec<String> = causes
        .into_iter()
        .flatten()
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap_or_default();
            format!("{}: {}", text("reason"), text("message"))
        })
        .collect();
    let mut answer = response.code.to_string();
    if !response.message.is_empty() {
        answer = format!("{answer} {}", response.message);
    }
    if !causes.is_empty() {
        answer = format!("{answer} (causes: {})", causes.join("; "));
    }
    let words: Vec<&str> = answer.split_whitespace().collect();
    without_uids(&words.join(" "))
}

/// Each time, objects have other UIDs.
fn without_uids(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
    let mut shown = String::new();
    for piece in text.split_inclusive(|c| !is_part(c)) {
        let word = piece.trim_end_matches(|c| !is_part(c));
        let is_uid = word.len() == 36 && word.matches('-').count() == 4;
        let shortened = if is_uid { "…" } else { word };
        shown += shortened;
        shown += &piece[word.len()..];
    }
    shown
}

/// A budget `b` with this status, and the answer to an eviction of the pod `web`, as a dry run.
async fn evicted_under(admin: &Client, status: Value) -> String {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let budget = json!({"metadata": {"name": "b"}, "spec": spec});
    created(&post(admin, BUDGETS, budget).await);
    let path = format!("{BUDGETS}/b/status");
    let written = Call::patch(path, json!({"status": status}));
    created(&written.send(admin).await.unwrap());
    let answer = answer(&evict(admin, "web", json!({})).await);
    let path = format!("{BUDGETS}/b");
    created(
        &Call::new("DELETE", path, Value::Null)
            .send(admin)
            .await
            .unwrap(),
    );
    answer
}

async fn evict(admin: &Client, pod: &str, options: Value) -> PolicyResponse {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod}, "deleteOptions": options,
    });
    post(admin, &format!("{PODS}/{pod}/eviction"), eviction).await
}

async fn evictions(admin: &Client) -> Vec<(String, String)> {
    let status = |allowed: i32, observed: i32, disrupted: Value| {
        json!({
            "observedGeneration": observed, "disruptionsAllowed": allowed, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1, "disruptedPods": disrupted,
        })
    };
    let many: serde_json::Map<String, Value> = (0..2001)
        .map(|n| (format!("p{n}"), json!("2026-01-02T03:04:05Z")))
        .collect();
    let mut answers = Vec::new();
    for (question, status) in [
        ("the budget allows no disruption", status(0, 1, json!({}))),
        (
            "the budget was changed since it was counted",
            status(1, 0, json!({})),
        ),
        (
            "more than 2000 evictions are not confirmed",
            status(1, 1, Value::Object(many)),
        ),
    ] {
        let answer = evicted_under(admin, status).await;
        answers.push((format!("eviction: {question}"), answer));
    }
    let stale = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}});
    let answered = evict(admin, "free", stale).await;
    answers.push((
        "eviction: the UID is another pod's".to_owned(),
        answer(&answered),
    ));
    answers
}

/// What the Node authorizer and NodeRestriction answer to the kubelet of n1.
async fn nodes(admin: &Client) -> Vec<(String, String)> {
    let uid = get(admin, &format!("{PODS}/web")).await.body["metadata"]["uid"].clone();
    let token = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["elsewhere"], "boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid}},
    });
    let mut mirror = pod("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node",
        "name": "n1", "controller": true,
        "uid": get(admin, "/api/v1/nodes/n1").await.body["metadata"]["uid"]}]);
    mirror["spec"]["nodeName"] = json!("n1");
    mirror["spec"]
        .as_object_mut()
        .unwrap()
        .remove("serviceAccountName");
    mirror["spec"]["automountServiceAccountToken"] = json!(false);
    let mut with_secret = mirror.clone();
    with_secret["spec"]["volumes"] = json!([{"name": "s", "secret": {"secretName": "s"}}]);
    let mut with_flex = mirror;
    with_flex["spec"]["volumes"] = json!([{"name": "f", "flexVolume":
        {"driver": "a/b", "secretRef": {"name": "s"}}}]);
    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let csi = json!({"metadata": {"name": "n1"}, "spec": {"drivers": []}});
    created(
        &Call::new("POST", "/apis/storage.k8s.io/v1/csinodes", csi)
            .by_node("n1")
            .send(admin)
            .await
            .unwrap(),
    );
    let claims = json!({"status": {"nodeAllocatableResourceClaimStatuses": [
        {"resourceClaimName": "c", "containers": ["c"], "resources": {"cpu": "1"}}]}});
    let request = json!({
        "metadata": {"name": "r"},
        "spec": {
            "signerName": "example.com/s", "podName": "web", "podUID": uid,
            "serviceAccountName": "default", "serviceAccountUID": "u", "nodeName": "n1",
            "nodeUID": "u", "maxExpirationSeconds": 3600, "stubPKCS10Request": "AA==",
        },
    });
    let requests = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
    let calls = [
        (
            "reads another node",
            Call::new("GET", "/api/v1/nodes/n2", Value::Null),
        ),
        (
            "lists the pods of all nodes",
            Call::new("GET", "/api/v1/pods", Value::Null),
        ),
        (
            "requests a token for an audience that no pod names",
            Call::new("POST", account, token),
        ),
        (
            "creates a mirror pod with a secret",
            Call::new("POST", PODS, with_secret),
        ),
        (
            "creates a mirror pod with a FlexVolume's secret",
            Call::new("POST", PODS, with_flex),
        ),
        (
            "writes `nodeAllocatableResourceClaimStatuses` of its pod",
            Call::patch(format!("{PODS}/web/status"), claims),
        ),
        (
            "writes the status of its CSINode",
            Call::patch(
                "/apis/storage.k8s.io/v1/csinodes/n1/status",
                json!({"status": {}}),
            ),
        ),
        (
            "creates a PodCertificateRequest of v1",
            Call::new("POST", requests, request),
        ),
    ];
    let mut answers = Vec::new();
    for (question, call) in calls {
        let response = call.dry().by_node("n1").send(admin).await.unwrap();
        answers.push((format!("node: {question}"), answer(&response)));
    }
    answers
}

/// What the API server makes of objects.
async fn objects(admin: &Client) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    let mut add = |question: &str, answer: String| {
        answers.push((question.to_owned(), answer));
    };
    let bare = post(admin, &format!("{PODS}?dryRun=All"), pod("bare")).await;
    let tolerations = bare.body["spec"]["tolerations"].as_array().unwrap();
    let shown: Vec<String> = tolerations
        .iter()
        .map(|one| {
            let key = one["key"].as_str().unwrap();
            format!(
                "{key}:{} for {} s",
                one["effect"].as_str().unwrap(),
                one["tolerationSeconds"]
            )
        })
        .collect();
    add("pod: default tolerations", shown.join(", "));

    let path = format!("{PODS}/web/status");
    let other = json!({"status": {"qosClass": "Guaranteed"}});
    let changed = Call::patch(path, other).dry().send(admin).await.unwrap();
    add("pod: its `status.qosClass` is changed", answer(&changed));

    let mut greater = pod("compares");
    greater["spec"]["tolerations"] =
        json!([{"key": "k", "operator": "Gt", "value": "1", "effect": "NoSchedule"}]);
    let compared = post(admin, &format!("{PODS}?dryRun=All"), greater).await;
    add(
        "pod: a toleration with the operator `Gt`",
        answer(&compared),
    );

    created(&post(admin, PODS, pod("bound")).await);
    let binding = json!({"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n1"}});
    created(&post(admin, &format!("{PODS}/bound/binding"), binding).await);
    let bound = get(admin, &format!("{PODS}/bound")).await;
    let zone = bound.body["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str();
    let zone = zone.map_or("no", |_| "the node's");
    add("pod: zone label after it is bound", format!("{zone} zone"));
    answers
}

/// kubectl of this version.
async fn kubectl_drain(plane: &ControlPlane) -> (String, String) {
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let drain = [
        "drain",
        "n1",
        "--force",
        "--disable-eviction",
        "--dry-run=server",
        "--timeout=5s",
    ];
    let output = kubectl.run(drain).await.unwrap();
    let answer = match output.status {
        Some(0) => "ends",
        _ => "waits until its `--timeout`",
    };
    (
        "kubectl: `drain --dry-run=server --disable-eviction`".to_owned(),
        answer.to_owned(),
    )
}
