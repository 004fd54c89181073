//! Tests of the match conditions: the API server sends every request that the in-tree plugin
//! refuses. Its own code compiles and evaluates them.

use nodelife_admission::{Policies, Webhook, webhook_configurations};
use nodelife_core::object::{LabelSelector, Labels};
use nodelife_tests::oracle::{self, AdmissionAnswer, FilterAnswer};
use nodelife_tests::seed;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::oracle::admission::cases::case;
use crate::oracle::admission::random::Random;

/// How the configurations register for a request.
fn registered<'c>(configurations: &'c [Value], case: &Value) -> Option<&'c Value> {
    let resource = &case["resource"];
    let subresource = case["subresource"].as_str().unwrap_or_default();
    let plain = resource["resource"].as_str().unwrap();
    let has = |list: &Value, wanted: &str| {
        list.as_array()
            .unwrap()
            .iter()
            .any(|one| one == wanted || one == "*")
    };
    let fits = |rule: &Value| {
        let resources = &rule["resources"];
        has(&rule["apiGroups"], resource["group"].as_str().unwrap())
            && has(&rule["apiVersions"], resource["version"].as_str().unwrap())
            && has(&rule["operations"], case["operation"].as_str().unwrap())
            && match subresource {
                "" => has(resources, plain),
                _ => {
                    has(resources, &format!("{plain}/{subresource}"))
                        || has(resources, &format!("{plain}/*"))
                }
            }
    };
    let webhooks = configurations
        .iter()
        .flat_map(|one| one["webhooks"].as_array().unwrap());
    let namespace = case["namespace"].as_str().unwrap_or_default();
    let labels = Labels::from([("kubernetes.io/metadata.name".into(), namespace.into())]);
    let selects = |webhook: &Value| {
        let selector = &webhook["namespaceSelector"];
        selector.is_null()
            || LabelSelector::deserialize(selector)
                .unwrap()
                .matches(&labels)
    };
    let mut registered = webhooks.filter(|webhook| {
        webhook["name"] != Webhook::Tolerations.as_str()
            && webhook["rules"].as_array().unwrap().iter().any(fits)
            && selects(webhook)
    });
    let first = registered.next();
    assert_eq!(registered.next(), None, "{case:#}");
    first
}

/// The API server converts a request to a registered version only if it serves that version.
#[test]
fn resources_with_many_versions_are_sent_in_each() {
    let configurations = webhook_configurations(&Policies::default());
    for (group, version, resource, subresource) in [
        ("certificates.k8s.io", "v1", "podcertificaterequests", ""),
        ("resource.k8s.io", "v1alpha3", "resourceslices", ""),
        ("storage.k8s.io", "v1", "csinodes", "status"),
    ] {
        let case = json!({
            "resource": {"group": group, "version": version, "resource": resource},
            "subresource": subresource,
            "operation": "UPDATE",
        });
        assert!(registered(&configurations, &case).is_some(), "{resource}");
    }
}

#[test]
fn tokens_are_sent_in_exempt_namespaces_too() {
    let configurations = webhook_configurations(&Policies::default());
    let resource = json!({"group": "", "version": "v1", "resource": "serviceaccounts"});
    for (namespace, name) in [
        ("default", Webhook::NodeTokens.as_str()),
        ("kube-system", Webhook::ExemptTokens.as_str()),
        ("nodelife-system", Webhook::ExemptTokens.as_str()),
    ] {
        let case = json!({"resource": resource, "subresource": "token", "operation": "CREATE",
            "namespace": namespace});
        assert_eq!(registered(&configurations, &case).unwrap()["name"], name);
    }
}

/// Of a `CSINode`'s status: the node authorizer refuses it first (`node_authorizer.go`, v1.37.2).
const GATE_IS_OFF: &str = "CSIVolumeHealth feature gate is disabled";

/// Requests that nobody sends although the plugin refuses them, each with what refuses it
/// before: the node authorizer, or the API server because there is no such subresource.
fn is_left_out(case: &Value, message: &str) -> bool {
    let (resource, operation) = (
        case["resource"]["resource"].as_str().unwrap(),
        &case["operation"],
    );
    // The authorizer knows no node without a name.
    message.contains("could not determine node from user")
        // It holds a node to its own lease; only a creation has the name in the body.
        || (resource == "leases" && operation != "CREATE")
}

#[test]
fn no_filter_lets_a_refusal_through() {
    // Others than the engine is compared over.
    let seed = seed::seed() + 1;
    let count = seed::cases(20_000);
    let configurations = webhook_configurations(&Policies::default());
    let mut random = Random::new(seed);
    let cases: Vec<Value> = (0..count)
        .map(|_| case(&mut random))
        .filter(|case| case["plugin"] == "noderestriction")
        .collect();
    let answers: Vec<AdmissionAnswer> = oracle::ask("admission", &cases).unwrap();
    let mut sent = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        match registered(&configurations, case) {
            Some(webhook) => {
                let mut case = case.clone();
                case["matchConditions"] = webhook["matchConditions"].clone();
                sent.push((case, answer));
            }
            None => assert!(
                answer.allowed || is_left_out(case, &answer.message),
                "{} is registered nowhere: {case:#}",
                answer.message
            ),
        }
    }
    let questions: Vec<&Value> = sent.iter().map(|(case, _)| case).collect();
    let filtered: Vec<FilterAnswer> = oracle::ask("filter", &questions).unwrap();
    let mut refused = 0;
    let mut quiet = 0;
    for ((case, answer), filter) in sent.iter().zip(&filtered) {
        assert_eq!(filter.error, "", "{case:#}");
        let called = filter.matches;
        refused += usize::from(!answer.allowed && called);
        quiet += usize::from(answer.allowed && !called);
        assert!(
            answer.allowed || called || answer.message.contains(GATE_IS_OFF),
            "{} filters {}: {case:#}",
            filter.failed,
            answer.message
        );
    }
    println!("{refused} refusals are sent, {quiet} allowed requests are not");
    assert!(
        refused > count / 10 && quiet > count / 50,
        "{refused} {quiet}"
    );
}

/// A request of the node n1, and the filters of NodeRestriction.
pub(super) fn ask(resource: &str, operation: &str, new: &Value, old: &Value) -> Value {
    let (path, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (plain, group) = path.split_once('.').unwrap_or((path, ""));
    let object = if new.is_null() { old } else { new };
    json!({
        "operation": operation,
        "subresource": subresource,
        "resource": {"group": group, "version": "v1", "resource": plain},
        "name": object["metadata"]["name"],
        "namespace": object["metadata"]["namespace"],
        "user": {"name": "system:node:n1", "groups": ["system:nodes"]},
        "object": new,
        "oldObject": old,
        "matchConditions":
            webhook_configurations(&Policies::default())[1]["webhooks"][0]["matchConditions"],
    })
}

/// The object with one field changed.
fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels":
        {"kubernetes.io/hostname": "n1", "team": "a", "x.node.kubernetes.io/y": ""}}})
}

/// Changes of a node, and whether they are sent.
fn node_updates() -> Vec<(bool, Value)> {
    let old = node();
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let heartbeat = with(&old, "/status", ready);
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]);
    let taint = json!({"taints": [{"key": "a", "effect": "NoExecute"}]});
    let network = json!({"podCIDR": "10.0.0.0/24"});
    [
        (false, "nodes/status", heartbeat.clone()),
        (false, "nodes", with(&old, "/spec", network)),
        // Labels that a kubelet may set, and a forbidden one, before or after.
        (false, "nodes", with(&old, "/metadata/labels", json!({}))),
        (
            true,
            "nodes",
            with(&old, "/metadata/labels", json!({"a.k8s.io/x": ""})),
        ),
        (true, "nodes", with(&old, "/spec", taint)),
        (
            true,
            "nodes/status",
            with(&heartbeat, "/metadata/ownerReferences", owner),
        ),
        (
            true,
            "nodes/status",
            with(&heartbeat, "/metadata/name", json!("n2")),
        ),
    ]
    .map(|(sent, resource, new)| (sent, ask(resource, "UPDATE", &new, &old)))
    .into()
}

fn registrations() -> Vec<(bool, Value)> {
    let clean = node();
    let forbidden = json!({"k8s.io/x": ""});
    let source = json!({"configSource": {}});
    let taint = json!({"taints": [{"key": "a", "effect": "NoExecute"}]});
    [
        (false, clean.clone()),
        (false, with(&clean, "/spec", taint)),
        (false, with(&clean, "/metadata/labels", Value::Null)),
        (true, with(&clean, "/metadata/labels", forbidden)),
        (true, with(&clean, "/spec", source)),
        (true, with(&clean, "/metadata/name", json!("n2"))),
    ]
    .map(|(sent, new)| (sent, ask("nodes", "CREATE", &new, &Value::Null)))
    .into()
}

fn pods_and_leases() -> Vec<(bool, Value)> {
    let nothing = Value::Null;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    let running = with(&pod, "/status", json!({"phase": "Running"}));
    let labelled = with(&running, "/metadata/labels", json!({"a": "b"}));
    let theirs = with(&pod, "/spec/nodeName", json!("n2"));
    let lease = |name: &str, namespace: &str| {
        let new = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace}});
        ask("leases.coordination.k8s.io", "CREATE", &new, &Value::Null)
    };
    vec![
        (false, ask("pods/status", "UPDATE", &running, &pod)),
        (true, ask("pods/status", "UPDATE", &labelled, &pod)),
        (true, ask("pods/status", "UPDATE", &running, &theirs)),
        (false, ask("pods", "DELETE", &nothing, &pod)),
        (true, ask("pods", "DELETE", &nothing, &theirs)),
        (true, ask("nodes", "DELETE", &nothing, &node())),
        (false, lease("n1", "kube-node-lease")),
        (true, lease("n2", "kube-node-lease")),
        (true, lease("n1", "kube-system")),
    ]
}

/// Keys and prefixes; the last one the plugin refuses all the same.
const OWN_LABELS: [&str; 5] = [
    "team",
    "plain",
    "example.com/",
    "x.node.kubernetes.io/",
    "k8s.io/",
];

/// All rules that are stricter than the plugin.
pub(super) fn stricter_policies() -> Policies {
    let mut policies = Policies::default();
    let modes = json!({"podStatusMetadata": "enforce", "mirrorPodLabels": "warn",
        "selfUncordon": "audit", "registrationOwners": "enforce", "events": "enforce",
        "selfDeletion": "enforce", "csiDrivers": "enforce", "ownLabels": "enforce"});
    policies.node_restriction.modes = serde_json::from_value(modes).unwrap();
    policies.node_restriction.csi_drivers = vec!["csi.example.com".to_owned()];
    policies.node_restriction.mirror_pod_labels = vec!["static/".to_owned()];
    policies.node_restriction.own_labels = OWN_LABELS.map(str::to_owned).into();
    policies
}

/// Changes of the labels that the rule `ownLabels` leaves a node, and of others.
fn own_labels() -> Vec<(bool, Value)> {
    let labelled = |labels: Value| with(&node(), "/metadata/labels", labels);
    let (plain, none) = (
        labelled(json!({"zone": "a", "team": "a"})),
        labelled(Value::Null),
    );
    vec![
        (true, ask("nodes", "CREATE", &plain, &Value::Null)),
        (true, ask("nodes", "UPDATE", &plain, &node())),
        (true, ask("nodes/status", "UPDATE", &node(), &plain)),
        (
            true,
            ask(
                "nodes/status",
                "UPDATE",
                &labelled(json!({"zone": "b", "team": "a"})),
                &plain,
            ),
        ),
        (
            true,
            ask(
                "nodes/status",
                "UPDATE",
                &labelled(json!({"k8s.io/x": ""})),
                &none,
            ),
        ),
        (
            false,
            ask(
                "nodes",
                "UPDATE",
                &labelled(json!({"zone": "a", "team": "b"})),
                &plain,
            ),
        ),
        (false, ask("nodes/status", "UPDATE", &none, &node())),
        (
            false,
            ask(
                "nodes/status",
                "UPDATE",
                &with(&plain, "/status", json!({})),
                &plain,
            ),
        ),
    ]
}

/// What the stricter rules ask about, once they are on, and whether it is sent.
pub(super) fn stricter() -> Vec<(bool, Value)> {
    let nothing = Value::Null;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    let annotated = with(&pod, "/metadata/annotations", json!({"a": "b"}));
    let kept = with(&pod, "/metadata/finalizers", json!(["x/y"]));
    let cordoned = with(&node(), "/spec", json!({"unschedulable": true}));
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]);
    let held = with(&node(), "/metadata/ownerReferences", owner);
    let event = |host: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "d"},
            "involvedObject": {}, "source": {"host": host}})
    };
    let mirror = |labels: Value| {
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1",
            "controller": true}]);
        let mirror = with(
            &pod,
            "/metadata/annotations",
            json!({"kubernetes.io/config.mirror": "x"}),
        );
        let mirror = with(&mirror, "/metadata/ownerReferences", owner);
        with(&mirror, "/metadata/labels", labels)
    };
    let csi_node = |drivers: &[&str]| {
        let drivers = drivers
            .iter()
            .map(|name| json!({"name": name, "nodeID": "i"}));
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"},
            "spec": {"drivers": drivers.collect::<Value>()}})
    };
    let (known, unknown) = (
        csi_node(&["csi.example.com"]),
        csi_node(&["x", "csi.example.com"]),
    );
    let csi = "csinodes.storage.k8s.io";
    let policies = stricter_policies();
    let conditions = &webhook_configurations(&policies)[1]["webhooks"][0]["matchConditions"];
    [
        (true, ask("pods/status", "UPDATE", &annotated, &pod)),
        (true, ask("pods/status", "UPDATE", &pod, &annotated)),
        (true, ask("pods/status", "UPDATE", &kept, &pod)),
        (false, ask("pods/status", "UPDATE", &annotated, &annotated)),
        (true, ask("nodes", "UPDATE", &node(), &cordoned)),
        (false, ask("nodes/status", "UPDATE", &cordoned, &cordoned)),
        (true, ask("nodes", "CREATE", &held, &nothing)),
        (false, ask("nodes", "CREATE", &node(), &nothing)),
        (true, ask("events", "CREATE", &event("n2"), &nothing)),
        (true, ask("events", "UPDATE", &event("n2"), &event("n1"))),
        (false, ask("events", "CREATE", &event("n1"), &nothing)),
        (false, ask("events", "CREATE", &event(""), &nothing)),
        (true, ask("nodes", "DELETE", &nothing, &node())),
        (
            true,
            ask("pods", "CREATE", &mirror(json!({"app": "web"})), &nothing),
        ),
        (
            true,
            ask("pods", "CREATE", &mirror(json!({"static/a": ""})), &nothing),
        ),
        (
            true,
            ask(
                "pods",
                "CREATE",
                &mirror(json!({"topology.kubernetes.io/zone": "a"})),
                &nothing,
            ),
        ),
        (false, ask(csi, "CREATE", &known, &nothing)),
        (true, ask(csi, "CREATE", &unknown, &nothing)),
        (true, ask(csi, "UPDATE", &unknown, &known)),
        (false, ask(csi, "UPDATE", &known, &unknown)),
    ]
    .into_iter()
    .chain(own_labels())
    .map(|(sent, mut case)| {
        case["matchConditions"] = conditions.clone();
        (sent, case)
    })
    .collect()
}

/// A kubelet of 1.37 reports the health of its volumes there.
fn csi_node_statuses() -> Vec<(bool, Value)> {
    let csi_node = |node: &str, drivers: Value| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": node}, "spec": {"drivers": drivers}})
    };
    let status = "csinodes.storage.k8s.io/status";
    let own = csi_node("n1", json!([{"name": "d", "nodeID": "n1"}]));
    let healthy = with(&own, "/status", json!({"storageHealth": [{"name": "d"}]}));
    let other = csi_node("n2", json!([]));
    let empty = csi_node("n1", json!([]));
    vec![
        (false, ask(status, "UPDATE", &healthy, &own)),
        (true, ask(status, "UPDATE", &empty, &own)),
        (true, ask(status, "UPDATE", &other, &other)),
        (true, ask(status, "CREATE", &own, &Value::Null)),
    ]
}

/// A heartbeat, a status that says nothing new, a clean registration and a first lease are
/// not sent; the same with one field more is.
#[test]
fn what_is_quiet_is_not_sent() {
    let cases = [
        node_updates(),
        registrations(),
        pods_and_leases(),
        csi_node_statuses(),
        stricter(),
    ]
    .concat();
    let questions: Vec<&Value> = cases.iter().map(|(_, case)| case).collect();
    let answers: Vec<FilterAnswer> = oracle::ask("filter", &questions).unwrap();
    for ((sent, case), answer) in cases.iter().zip(answers) {
        assert_eq!(
            (answer.matches, answer.error.as_str()),
            (*sent, ""),
            "{case:#}"
        );
    }
}

/// Beyond a cost (`PerCallLimit`, apiserver pkg/apis/cel/config.go, v0.37.2) the API server skips the call
/// under `Ignore`.
#[test]
fn the_longest_labels_stay_within_the_budget() {
    let prefix = |number: usize| format!("{number:0>253}/");
    let listed = (0..50)
        .map(|number| format!("{}{}", prefix(number), "a".repeat(63)))
        .chain((50..100).map(prefix));
    let settings = json!({"nodeRestriction": {"modes": {"ownLabels": "enforce"},
        "ownLabels": listed.collect::<Value>()}});
    let policies: Policies = serde_json::from_value(settings).unwrap();
    let conditions = &webhook_configurations(&policies)[1]["webhooks"][0]["matchConditions"];
    let labelled = |first: usize| {
        let labels: Value = (first..first + 100)
            .map(|number| (format!("{}{number:0>63}", prefix(99)), json!("")))
            .collect();
        with(&node(), "/metadata/labels", labels)
    };
    let cases = [
        ask("nodes", "CREATE", &labelled(0), &Value::Null),
        ask("nodes/status", "UPDATE", &labelled(0), &labelled(100)),
    ]
    .map(|mut case| {
        case["matchConditions"] = conditions.clone();
        case
    });
    let answers: Vec<FilterAnswer> = oracle::ask("filter", &cases).unwrap();
    for answer in answers {
        assert_eq!((answer.matches, answer.error.as_str()), (false, ""));
    }
}
