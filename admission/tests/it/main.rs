//! The admission engine on whole reviews: bytes in, bytes out.
// The helpers are tests' code as well, where a panic is a failed test.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value
)]

mod agents;
mod drain_safety;
mod found;
mod hardening;
mod reading;
mod signing_requests;
mod tolerations;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nodelife_admission::{
    AdmissionPhase, Evaluation, Lookup, LookupResult, Lookups, PodFacts, Policies, Review, Verdict,
    VolumeFacts, decide, write_response,
};
use serde_json::{Value, json};

const NODE: &str = "system:node:n1";

/// A request of the node n1, with `fields` over the defaults.
fn review(resource: &str, operation: &str, fields: Value) -> Value {
    let (path, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = path.split_once('.').unwrap_or((path, ""));
    let mut request = json!({
        "uid": "0b4e\u{e9}/\\",
        "resource": {"group": group, "version": "v1", "resource": resource},
        "subResource": subresource,
        "name": "n1",
        "operation": operation,
        "userInfo": {"username": NODE, "groups": ["system:nodes", "system:authenticated"]},
    });
    for (field, value) in fields.as_object().unwrap() {
        request[field] = value.clone();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

/// The review as the API server writes it: names first, then the objects.
fn as_sent(review: &Value) -> Vec<u8> {
    let request = review["request"].as_object().unwrap();
    let last = ["object", "oldObject", "dryRun", "options"];
    let first = [
        "uid",
        "resource",
        "subResource",
        "name",
        "namespace",
        "operation",
        "userInfo",
    ];
    let fields: Vec<String> = first
        .iter()
        .chain(&last)
        .filter_map(|key| Some(format!("{key:?}: {}", request.get(*key)?)))
        .collect();
    assert_eq!(fields.len(), request.len());
    format!(
        r#"{{"kind":{},"apiVersion":{},"request":{{{}}}}}"#,
        review["kind"],
        review["apiVersion"],
        fields.join(" ,")
    )
    .into_bytes()
}

/// The answer to `review`, with lookups answered by `lookups`: the same whether it is read as far
/// as needed or to its end.
fn answer_with(review: &Value, lookups: &Lookups) -> Value {
    let bytes = serde_json::to_vec(review).unwrap();
    let sent = as_sent(review);
    let whole = answer_to(&Review::parse(&bytes).unwrap(), review, lookups);
    for bytes in [&bytes, &sent] {
        let begun = answer_to(&Review::begin(bytes).unwrap(), review, lookups);
        assert_eq!(whole, begun);
    }
    whole
}

fn answer_to(parsed: &Review<'_>, review: &Value, lookups: &Lookups) -> Value {
    let policies = Policies::default();
    match decide(
        &parsed.request,
        &policies,
        AdmissionPhase::Mutating,
        lookups,
    ) {
        Evaluation::Decided(decision) => {
            let mut body = Vec::new();
            write_response(parsed, &decision, &mut body);
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
            answer["response"].clone()
        }
        Evaluation::Needs(lookup) => panic!("{lookup:?} was not answered"),
    }
}

fn answer(review: &Value) -> Value {
    answer_with(review, &Lookups::new())
}

fn assert_denied(answer: &Value, code: u16, start: &str) {
    assert_eq!(answer["allowed"], false, "{answer}");
    assert_eq!(answer["status"]["code"], code, "{answer}");
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.starts_with(start), "{message}");
}

#[test]
fn a_node_must_not_set_reserved_labels() {
    let request = review(
        "nodes",
        "UPDATE",
        json!({
            "object": {"metadata": {"labels": {"node-role.kubernetes.io/x": "", "zone": "b"}}},
            "oldObject": {"metadata": {"labels": {"node-role.kubernetes.io/y": "", "zone": "a"}}},
        }),
    );
    assert_denied(
        &answer(&request),
        403,
        "is not allowed to modify labels: node-role.kubernetes.io/x, node-role.kubernetes.io/y",
    );
}

#[test]
fn subresources_of_nodes_are_nodes() {
    let request = review(
        "nodes/status",
        "UPDATE",
        json!({"name": "n2", "object": {}, "oldObject": {}}),
    );
    assert_denied(
        &answer(&request),
        403,
        r#"node "n1" is not allowed to modify node "n2""#,
    );
}

#[test]
fn taints_and_owners_are_compared_as_go_compares_them() {
    for (new, old, message) in [
        (json!({"spec": {"taints": []}}), json!({"spec": {}}), ""),
        (json!({"spec": {"taints": null}}), json!({}), ""),
        (
            json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
            json!({}),
            r#"node "n1" is not allowed to modify taints"#,
        ),
        (
            json!({"metadata": {"ownerReferences": [{"name": "x", "controller": false}]}}),
            json!({"metadata": {"ownerReferences": [{"name": "x"}]}}),
            r#"node "n1" is not allowed to modify ownerReferences"#,
        ),
        (
            json!({"spec": {"configSource": {}}}),
            json!({"spec": {}}),
            r#"node "n1" is not allowed to update configSource to a new non-nil configSource"#,
        ),
        (
            json!({"spec": {}}),
            json!({"spec": {"configSource": {}}}),
            "",
        ),
    ] {
        let answer = answer(&review(
            "nodes",
            "UPDATE",
            json!({"object": new, "oldObject": old}),
        ));
        if message.is_empty() {
            assert_eq!(answer["allowed"], true, "{answer}");
        } else {
            assert_denied(&answer, 403, message);
        }
    }
}

#[test]
fn users_that_are_not_nodes_are_not_restricted() {
    for user in [
        json!({"username": "system:node:n2", "groups": ["system:authenticated"]}),
        json!({"username": "admin", "groups": ["system:nodes"]}),
    ] {
        let request = review(
            "nodes",
            "UPDATE",
            json!({"userInfo": user, "object": {}, "oldObject": {}}),
        );
        assert_eq!(answer(&request)["allowed"], true);
    }
    let nameless = json!({"username": "system:node:", "groups": ["system:nodes"]});
    let request = review("secrets", "CREATE", json!({"userInfo": nameless}));
    assert_denied(
        &answer(&request),
        403,
        r#"could not determine node from user "system:node:""#,
    );
}

fn pod(uid: &str, node: &str) -> LookupResult {
    LookupResult::Pod(PodFacts {
        uid: uid.to_owned(),
        node: node.to_owned(),
        volumes: vec![VolumeFacts::Audience("vault".to_owned())],
        ..PodFacts::default()
    })
}

#[test]
fn an_eviction_looks_up_its_pod_and_never_passes_without() {
    let request = review(
        "pods/eviction",
        "CREATE",
        json!({"name": "p", "namespace": "d", "object": {}}),
    );
    let bytes = serde_json::to_vec(&request).unwrap();
    let parsed = Review::parse(&bytes).unwrap();
    let lookup = Lookup::Pod {
        namespace: "d".to_owned(),
        name: "p".to_owned(),
    };
    let policies = Policies::default();
    let outcome = decide(
        &parsed.request,
        &policies,
        AdmissionPhase::Mutating,
        &Lookups::new(),
    );
    assert_eq!(outcome, Evaluation::Needs(vec![lookup.clone()]));
    for (found, code, message) in [
        (LookupResult::Missing, 404, r#"pod "p" not found"#),
        (
            LookupResult::Failed("timed out".to_owned()),
            503,
            "timed out",
        ),
        (
            pod("u", "n2"),
            403,
            "node n1 can only evict pods with spec.nodeName set to itself",
        ),
    ] {
        let mut lookups = Lookups::new();
        lookups.insert(lookup.clone(), found);
        assert_denied(&answer_with(&request, &lookups), code, message);
    }
    let mut lookups = Lookups::new();
    lookups.insert(lookup, pod("u", "n1"));
    assert_eq!(answer_with(&request, &lookups)["allowed"], true);
}

#[test]
fn a_token_has_an_audience_of_its_pod() {
    let token = |audiences: Value| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        review(
            "serviceaccounts/token",
            "CREATE",
            json!({"name": "sa", "namespace": "d",
                "object": {"spec": {"audiences": audiences, "boundObjectRef": bound}}}),
        )
    };
    let mut lookups = Lookups::new();
    let lookup = Lookup::Pod {
        namespace: "d".to_owned(),
        name: "p".to_owned(),
    };
    lookups.insert(lookup, pod("u", "n1"));
    assert_eq!(
        answer_with(&token(json!(["vault"])), &lookups)["allowed"],
        true
    );
    assert_denied(
        &answer_with(&token(json!(["a", "b"])), &lookups),
        403,
        "node may only request 0 or 1 audiences",
    );
}

#[test]
fn a_projected_audience_needs_no_lookup_of_a_claim() {
    let mut found = PodFacts {
        uid: "u".to_owned(),
        node: "n1".to_owned(),
        volumes: (0..10)
            .map(|index| VolumeFacts::Claim(format!("c{index}")))
            .collect(),
        ..PodFacts::default()
    };
    found
        .volumes
        .push(VolumeFacts::Audience("vault".to_owned()));
    let mut lookups = Lookups::new();
    let lookup = Lookup::Pod {
        namespace: "d".to_owned(),
        name: "p".to_owned(),
    };
    lookups.insert(lookup, LookupResult::Pod(found));
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let token = review(
        "serviceaccounts/token",
        "CREATE",
        json!({"name": "sa", "namespace": "d",
            "object": {"spec": {"audiences": ["vault"], "boundObjectRef": bound}}}),
    );
    // A lookup that is not there would panic.
    assert_eq!(answer_with(&token, &lookups)["allowed"], true);
}

/// An authorizer may decide by them.
#[test]
fn an_access_review_has_all_that_is_known_of_the_user() {
    let mut lookups = Lookups::new();
    let lookup = Lookup::Pod {
        namespace: "d".to_owned(),
        name: "p".to_owned(),
    };
    lookups.insert(lookup, pod("u", "n1"));
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let user = json!({"username": NODE, "groups": ["system:nodes"],
        "extra": {"a.example.com/b": ["c"]}});
    let token = review(
        "serviceaccounts/token",
        "CREATE",
        json!({"name": "sa", "namespace": "d", "userInfo": user,
            "object": {"spec": {"audiences": ["other"], "boundObjectRef": bound}}}),
    );
    let bytes = serde_json::to_vec(&token).unwrap();
    let parsed = Review::parse(&bytes).unwrap();
    let phase = AdmissionPhase::Mutating;
    let evaluation = decide(&parsed.request, &Policies::default(), phase, &lookups);
    let Evaluation::Needs(needed) = &evaluation else {
        panic!("{evaluation:?}");
    };
    let [Lookup::Access(access)] = &needed[..] else {
        panic!("{needed:?}");
    };
    let extra = [("a.example.com/b".to_owned(), vec!["c".to_owned()])];
    assert_eq!(access.extra, extra.into());
}

/// The tolerations of a pod after the answer's patch.
fn tolerations_after(before: Option<Value>) -> Value {
    let mut spec = json!({});
    if let Some(list) = &before {
        spec["tolerations"] = list.clone();
    }
    let request = review(
        "pods",
        "CREATE",
        json!({"name": "p", "userInfo": {"username": "admin"}, "object": {"spec": &spec}}),
    );
    let answer = answer(&request);
    let Some(patch) = answer.get("patch") else {
        assert!(answer.get("patchType").is_none());
        return before.unwrap_or_else(|| json!([]));
    };
    assert_eq!(answer["patchType"], "JSONPatch");
    let patch = STANDARD.decode(patch.as_str().unwrap()).unwrap();
    let mut pod = json!({"spec": spec});
    tolerations::apply(&mut pod, &patch);
    pod["spec"]["tolerations"].clone()
}

#[test]
fn pods_get_missing_tolerations() {
    let default = |condition: &str| {
        json!({"key": format!("node.kubernetes.io/{condition}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300})
    };
    let (not_ready, unreachable) = (default("not-ready"), default("unreachable"));
    assert_eq!(tolerations_after(None), json!([not_ready, unreachable]));
    assert_eq!(
        tolerations_after(Some(json!([]))),
        json!([not_ready, unreachable])
    );
    for all in [
        json!([{"operator": "Exists"}]),
        json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]),
        json!([unreachable, not_ready]),
    ] {
        assert_eq!(tolerations_after(Some(all.clone())), all);
    }
    let odd = json!({"key": "node.kubernetes.io/not-ready", "operator": "Equal", "value": "x"});
    assert_eq!(
        tolerations_after(Some(json!([odd]))),
        json!([odd, unreachable])
    );
    let other = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    assert_eq!(
        tolerations_after(Some(json!([other]))),
        json!([other, not_ready, unreachable])
    );
}

#[test]
fn warns_of_a_toleration_that_matches_no_taint() {
    let warnings = |tolerations: Value| {
        let object = json!({"spec": {"tolerations": tolerations}});
        let user = json!({"username": "admin"});
        let request = review(
            "pods",
            "CREATE",
            json!({"userInfo": user, "object": object}),
        );
        answer(&request)["warnings"].clone()
    };
    let odd = json!({"key": "node.kubernetes.io/not-ready", "operator": "Equal", "value": "x"});
    let warning = warnings(json!([odd]));
    let text = warning[0].as_str().unwrap();
    assert!(text.contains("node.kubernetes.io/not-ready"), "{text}");
    assert!(text.chars().count() <= 120, "{text}");
    let good = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"});
    assert_eq!(warnings(json!([odd, good])), Value::Null);
    assert_eq!(warnings(json!([{"operator": "Exists"}])), Value::Null);
    assert_eq!(warnings(json!([])), Value::Null);
}
