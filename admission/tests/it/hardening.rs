//! Tests of the hardening rules, and of the versions in which the in-tree plugin changed.

use nodelife_admission::{
    AdmissionPhase, Decision, MinorVersion, Mode, Policies, Review, Verdict, decide_with,
};
use serde_json::{Value, json};

fn policies(restriction: Value) -> Policies {
    serde_json::from_value(json!({"nodeRestriction": restriction})).unwrap()
}

/// A request of the node n1.
fn request(resource: &str, operation: &str, new: Value, old: Value) -> Value {
    let (path, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (plain, group) = path.split_once('.').unwrap_or((path, ""));
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "name": "n1", "namespace": "d", "operation": operation,
        "resource": {"group": group, "version": "v1", "resource": plain},
        "subResource": subresource, "object": new, "oldObject": old,
        "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]}}})
}

fn decided(review: &Value, policies: &Policies) -> Decision {
    let bytes = serde_json::to_vec(review).unwrap();
    let review = Review::parse(&bytes).unwrap();
    decide_with(
        &review.request,
        policies,
        AdmissionPhase::Validating,
        |lookup| nodelife_admission::LookupResult::read(lookup, br#"{"metadata": {"uid": "u1"}}"#),
    )
}

/// A rule, what it refuses, what it lets pass, and a piece of its message.
type Case = (&'static str, Vec<Value>, Vec<Value>, &'static str);

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn pod(mut meta: Value) -> Value {
    meta["name"] = json!("p");
    json!({"metadata": meta, "spec": {"nodeName": "n1"}})
}

fn register(mut meta: Value) -> Value {
    meta["name"] = json!("n1");
    request("nodes", "CREATE", json!({"metadata": meta}), Value::Null)
}

fn of_pods() -> Vec<Case> {
    let status = |new: Value, old: Value| request("pods/status", "UPDATE", pod(new), pod(old));
    let mirror = |labels: Value| {
        let mut pod = pod(json!({"labels": labels,
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1",
                "controller": true}]}));
        pod["spec"]["containers"] = json!([{"name": "c"}]);
        request("pods", "CREATE", pod, Value::Null)
    };
    vec![
        (
            "podStatusMetadata",
            vec![
                status(json!({"annotations": {"a": "b"}}), json!({})),
                status(json!({}), json!({"annotations": {"a": "b"}})),
                status(json!({"finalizers": ["x/y"]}), json!({})),
            ],
            vec![status(
                json!({"annotations": {}, "finalizers": null}),
                json!({}),
            )],
            "through pod status",
        ),
        (
            "mirrorPodLabels",
            vec![
                mirror(json!({"app": "web"})),
                mirror(json!({"static/a": "", "b": ""})),
            ],
            vec![
                mirror(json!({"static/a": ""})),
                mirror(Value::Null),
                mirror(json!({"topology.kubernetes.io/zone": "a",
                    "topology.kubernetes.io/region": "r"})),
            ],
            "cannot create a mirror pod with the label",
        ),
    ]
}

fn of_labels() -> Case {
    let labelled = |labels: &[&str]| {
        let labels: Value = labels.iter().map(|key| (*key, json!("x"))).collect();
        json!({"metadata": {"name": "n1", "labels": labels}})
    };
    let label = |resource: &str, new: &[&str], old: &[&str]| {
        request(resource, "UPDATE", labelled(new), labelled(old))
    };
    let mut changed = label("nodes", &["zone"], &["zone"]);
    changed["request"]["object"]["metadata"]["labels"]["zone"] = json!("y");
    (
        "ownLabels",
        vec![
            label("nodes", &["team", "zone"], &["team"]),
            label("nodes", &["team"], &["team", "zone"]),
            label("nodes/status", &["zone"], &[]),
            label("nodes/status", &[], &["zone"]),
            changed,
            register(json!({"labels": {"kubernetes.io/os": "linux", "zone": "x"}})),
        ],
        vec![
            label("nodes", &["zone", "team"], &["zone"]),
            label("nodes/status", &["example.com/a"], &["example.com/b"]),
            label(
                "nodes",
                &["kubernetes.io/hostname"],
                &["beta.kubernetes.io/os"],
            ),
            register(json!({"labels": {"kubernetes.io/os": "linux", "team": "x"}})),
            register(json!({"labels": null})),
            request("nodes", "DELETE", Value::Null, labelled(&["zone"])),
            request("configmaps", "CREATE", labelled(&["zone"]), Value::Null),
        ],
        "node \"n1\" cannot write the labels: zone",
    )
}

fn of_nodes() -> Vec<Case> {
    let node = |resource: &str, new: Value, old: Value| {
        let node = |spec: Value| json!({"metadata": {"name": "n1"}, "spec": spec});
        request(resource, "UPDATE", node(new), node(old))
    };
    let cordoned = json!({"unschedulable": true});
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]);
    let event = |event: Value| request("events", "CREATE", event, Value::Null);
    let new_event = |event: Value| request("events.events.k8s.io", "UPDATE", event, Value::Null);
    let csi_node = |operation: &str, new: &[&str], old: Option<&[&str]>| {
        let object = |names: &[&str]| {
            let drivers = names
                .iter()
                .map(|name| json!({"name": name, "nodeID": "i"}));
            json!({"metadata": {"name": "n1"}, "spec": {"drivers": drivers.collect::<Value>()}})
        };
        let (new, old) = (object(new), old.map_or(Value::Null, object));
        request("csinodes.storage.k8s.io", operation, new, old)
    };
    vec![
        (
            "selfUncordon",
            vec![
                node("nodes", json!({}), cordoned.clone()),
                node("nodes", json!({"unschedulable": false}), cordoned.clone()),
            ],
            vec![
                node("nodes", cordoned.clone(), json!({})),
                node("nodes/status", cordoned.clone(), cordoned),
            ],
            "cannot make itself schedulable again",
        ),
        (
            "registrationOwners",
            vec![register(json!({"ownerReferences": owner}))],
            vec![
                register(json!({"ownerReferences": []})),
                register(json!({})),
            ],
            "cannot register with ownerReferences",
        ),
        (
            "events",
            vec![
                event(json!({"source": {"host": "n2"}})),
                new_event(json!({"deprecatedSource": {"host": "n2"}})),
            ],
            vec![
                event(json!({"source": {"host": "n1"}})),
                event(json!({"source": null})),
                new_event(json!({"deprecatedSource": {"host": "n1"}})),
            ],
            "cannot write events of the host",
        ),
        (
            "selfDeletion",
            vec![request("nodes", "DELETE", Value::Null, named("n1"))],
            vec![
                request("pods", "DELETE", Value::Null, pod(json!({}))),
                register(json!({})),
            ],
            "cannot delete itself",
        ),
        (
            "csiDrivers",
            vec![
                csi_node("CREATE", &["csi.example.com", "other"], None),
                csi_node("UPDATE", &["kept", "other"], Some(&["kept"])),
            ],
            vec![
                csi_node("CREATE", &["csi.example.com"], None),
                csi_node(
                    "UPDATE",
                    &["kept", "csi.example.com"],
                    Some(&["kept", "gone"]),
                ),
                csi_node("UPDATE", &[], Some(&["kept"])),
                csi_node("DELETE", &[], Some(&["other"])),
            ],
            "cannot announce the CSI driver \"other\"",
        ),
    ]
}

#[test]
fn each_rule_is_off_by_default() {
    let cases = [of_pods(), of_nodes(), vec![of_labels()]].concat();
    for (rule, refused, allowed, message) in cases {
        let labels = json!(["static/"]);
        let named = |mode: &str| {
            policies(json!({"modes": {rule: mode}, "mirrorPodLabels": labels,
                "csiDrivers": ["csi.example.com"], "ownLabels": ["example.com/", "team"]}))
        };
        for review in &refused {
            assert_eq!(
                decided(review, &Policies::default()).verdict,
                Verdict::Allow,
                "{review}"
            );
            match decided(review, &named("enforce")).verdict {
                Verdict::Deny(denial) => {
                    assert_eq!((denial.rule.as_str(), denial.reason.code()), (rule, 403));
                    assert!(denial.message.contains(message), "{denial}");
                }
                other => panic!("{rule}: {other:?} {review}"),
            }
            let warned = decided(review, &named("warn"));
            assert_eq!((warned.verdict, warned.warnings.len()), (Verdict::Allow, 1));
            let audited = decided(review, &named("audit"));
            assert_eq!(
                (audited.verdict, audited.warnings.len()),
                (Verdict::Allow, 0)
            );
            assert_eq!(audited.refusal.unwrap().mode, Mode::Audit);
        }
        for review in &allowed {
            assert_eq!(
                decided(review, &named("enforce")).verdict,
                Verdict::Allow,
                "{review}"
            );
        }
    }
}

/// Each change from some labels to others: exactly the keys that changed and are not listed are named.
#[test]
fn own_labels_names_each_label_that_is_not_listed() {
    const KEYS: [(&str, bool); 4] = [
        ("kubernetes.io/os", true),
        ("example.com/x", true),
        ("topology.kubernetes.io/zone", false),
        ("zone", false),
    ];
    let policies =
        policies(json!({"modes": {"ownLabels": "enforce"}, "ownLabels": ["example.com/"]}));
    // The digits of the number, in base 3: without the label, or with one of two values.
    let values = |number: usize| [1, 3, 9, 27].map(|power| ["", "a", "b"][number / power % 3]);
    let node = |values: [&str; 4]| {
        let set = KEYS
            .iter()
            .zip(values)
            .filter(|(_, value)| !value.is_empty());
        let labels: Value = set.map(|((key, _), value)| (*key, json!(value))).collect();
        json!({"metadata": {"name": "n1", "labels": labels}})
    };
    for (old, new) in (0..81 * 81).map(|number| (values(number / 81), values(number % 81))) {
        let review = request("nodes/status", "UPDATE", node(new), node(old));
        let refused = KEYS.iter().zip(old.iter().zip(new));
        let refused = refused.filter(|((_, free), (old, new))| !free && *old != new);
        let keys: Vec<&str> = refused.map(|((key, _), _)| *key).collect();
        let message = match decided(&review, &policies).verdict {
            Verdict::Deny(denial) => denial.message,
            _ => "node \"n1\" cannot write the labels: ".to_owned(),
        };
        let expected = format!("node \"n1\" cannot write the labels: {}", keys.join(", "));
        assert_eq!(message, expected, "{review}");
    }
}

/// A rule that only warns does not stand before one that refuses.
#[test]
fn the_strictest_mode_counts() {
    let new = json!({"metadata": {"name": "n1", "ownerReferences": [{"name": "x"}]}});
    let review = request("nodes", "CREATE", new, Value::Null);
    let both = policies(json!({"modes": {"registrationOwners": "enforce", "events": "warn"}}));
    assert!(matches!(decided(&review, &both).verdict, Verdict::Deny(_)));
}

/// Each in-tree rule beside each hardening rule that judges the same request, in every pair of modes.
#[test]
fn an_enforced_rule_is_never_hidden_by_a_lenient_one() {
    let node = |spec: Value, labels: Value| json!({"metadata": {"name": "n1", "labels": labels}, "spec": spec});
    let uncordon = request(
        "nodes",
        "UPDATE",
        node(json!({"unschedulable": false}), json!({"k8s.io/x": "y"})),
        node(json!({"unschedulable": true}), json!({})),
    );
    let register =
        register(json!({"labels": {"k8s.io/x": "y"}, "ownerReferences": [{"name": "x"}]}));
    let status = request(
        "pods/status",
        "UPDATE",
        json!({"metadata": {"name": "p", "annotations": {"a": "b"}}, "spec": {"nodeName": "n2"}}),
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n2"}}),
    );
    let mirror = request(
        "pods",
        "CREATE",
        json!({"metadata": {"name": "p", "labels": {"app": "web"},
            "annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "n2"}}),
        Value::Null,
    );
    let drivers = request(
        "csinodes.storage.k8s.io",
        "CREATE",
        json!({"metadata": {"name": "n2"}, "spec": {"drivers": [{"name": "d", "nodeID": "i"}]}}),
        Value::Null,
    );
    let labels = request(
        "nodes/status",
        "UPDATE",
        node(json!({}), json!({"k8s.io/x": "y"})),
        node(json!({}), json!({})),
    );
    let modes = ["off", "audit", "warn", "enforce"];
    for (mut review, in_tree, hardening) in [
        (uncordon, "nodes", "selfUncordon"),
        (register, "nodes", "registrationOwners"),
        (status, "podStatus", "podStatusMetadata"),
        (mirror, "pods", "mirrorPodLabels"),
        (drivers, "csiNodes", "csiDrivers"),
        (labels, "nodes", "ownLabels"),
    ] {
        if in_tree == "csiNodes" {
            review["request"]["name"] = json!("n2");
        }
        for one in modes {
            for other in modes {
                let policies = policies(json!({"modes": {in_tree: one, hardening: other}}));
                let decision = decided(&review, &policies);
                let strictest = modes
                    .into_iter()
                    .rfind(|mode| [one, other].contains(mode))
                    .unwrap();
                let case = format!("{in_tree}: {one}, {hardening}: {other}: {decision:?}");
                let refusal = decision.refusal.as_ref();
                let mode = refusal.map_or("off", |refusal| refusal.mode.as_str());
                assert_eq!(mode, strictest, "{case}");
                let is_denied = matches!(decision.verdict, Verdict::Deny(_));
                assert_eq!(is_denied, strictest == "enforce", "{case}");
            }
        }
    }
}

#[test]
fn each_version_has_its_own_checks() {
    let csr = json!({"spec": {"signerName": "kubernetes.io/kubelet-serving", "request": "eA=="}});
    let csr = request(
        "certificatesigningrequests.certificates.k8s.io",
        "CREATE",
        csr,
        Value::Null,
    );
    let denied = |version: &str, review: &Value| {
        let policies = policies(json!({"version": version}));
        matches!(decided(review, &policies).verdict, Verdict::Deny(_))
    };
    for version in ["1.33", "1.36", "1.37", "1.38"] {
        assert!(denied(version, &csr), "{version}");
    }
    let status = |statuses: Value| json!({"spec": {"nodeName": "n1"}, "status": {"nodeAllocatableResourceClaimStatuses": statuses}});
    let amount = |quantity: &str| json!([{"mapping": [{"name": "memory", "quantity": quantity}]}]);
    let claims = |new: Value| request("pods/status", "UPDATE", status(new), status(amount("1Gi")));
    for (new, is_change) in [(amount("1024Mi"), false), (amount("2Gi"), true)] {
        assert_eq!(denied("1.37", &claims(new.clone())), is_change);
        assert!(!denied("1.36", &claims(new)));
    }
    // What closed a hole is checked for all of them.
    let node = |meta: Value| json!({"metadata": meta});
    let owner = json!({"name": "n1", "ownerReferences": [{"name": "x", "uid": "x"}]});
    let update = request("nodes", "UPDATE", node(owner), node(json!({"name": "n1"})));
    assert!(denied("1.33", &update));
    for wrong in ["1.32", "2.33", "1.3x", "1.", ""] {
        let read: Result<Policies, _> =
            serde_json::from_value(json!({"nodeRestriction": {"version": wrong}}));
        assert!(read.is_err(), "{wrong}");
    }
    for (minor, version) in [
        ("36", "1.36"),
        ("37+", "1.37"),
        ("29", "1.33"),
        ("40", "1.40"),
    ] {
        let found = MinorVersion::of_server(minor).map(String::from);
        assert_eq!(found.as_deref(), Some(version));
    }
    assert!(MinorVersion::of_server("").is_none());
}
