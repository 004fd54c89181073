//! Fuzz target: the body of an admission call. Each input gets an error status or a response that
//! the API server accepts, and the fast and the full parser agree.
//!
//! The first byte picks the phase, the policies and what lookups find.

#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use nodelife_admission::{
    AdmissionPhase, Decision, Lookup, LookupResult, Mode, Policies, Request, Review, decide_with,
    write_response,
};
use serde_json::{Value, json};

fn policies(choice: u8) -> Policies {
    let mut policies = Policies::default();
    if choice & 1 != 0 {
        let modes = json!({
            "podStatusMetadata": "enforce", "mirrorPodLabels": "warn", "selfUncordon": "enforce",
            "registrationOwners": "audit", "events": "enforce", "nodes": "warn",
            "ownLabels": "enforce",
        });
        policies.node_restriction.modes = serde_json::from_value(modes).unwrap_or_default();
        policies.node_restriction.pod_certificate_requests = Some(true);
        policies.tolerations.rewrite = true;
        policies.tolerations.annotations = true;
        policies.tolerations.not_ready_seconds = 30;
        policies.tolerations.shutdown_grace_period_seconds = Some(20);
        let agents = json!([{"serviceAccount": "a:b", "labels": ["x/"], "fields": ["status."],
            "resources": {"things.example.com": "spec.nodeName"}}]);
        policies.agents = serde_json::from_value(agents).unwrap_or_default();
        policies.agent_mode = Mode::Enforce;
    }
    policies
}

fn look_up(choice: u8, lookup: &Lookup) -> LookupResult {
    match choice >> 2 & 3 {
        0 => LookupResult::Missing,
        1 => LookupResult::Failed("no \"answer\"\n".to_owned()),
        // Whatever was asked for, there is one of the node n1.
        _ => LookupResult::read(
            lookup,
            br#"{"metadata":{"name":"p","uid":"u"},"spec":{"nodeName":"n1","serviceAccountName":"s",
                "volumes":[{"projected":{"sources":[{"serviceAccountToken":{"audience":"a"}}]}},
                {"csi":{"driver":"d"}}],"tokenRequests":[{"audience":"b"}]},"status":{"allowed":true}}"#,
        ),
    }
}

fn names<'r>(request: &'r Request<'_>) -> impl PartialEq + use<'r> {
    let user = request.user();
    (
        (
            request.group_resource(),
            request.version(),
            request.subresource(),
        ),
        (request.name(), request.namespace(), request.operation()),
        (
            user.name(),
            user.uid(),
            user.groups().collect::<Vec<_>>(),
            user.raw_extra(),
        ),
    )
}

fn check(review: &Review<'_>, decision: &Decision, phase: AdmissionPhase) {
    let mut body = Vec::new();
    write_response(review, decision, &mut body);
    let answer: Value = serde_json::from_slice(&body).expect("the answer is JSON");
    let uid: Value = serde_json::from_str(review.uid).expect("the uid is JSON");
    let response = &answer["response"];
    assert_eq!(response["uid"], uid);
    if response["allowed"] == false {
        let code = response["status"]["code"].as_u64();
        assert!(matches!(code, Some(400 | 403 | 404 | 500 | 503)), "{answer}");
    }
    if let Some(patch) = response["patch"].as_str() {
        assert!(phase == AdmissionPhase::Mutating && response["patchType"] == "JSONPatch");
        let patch = STANDARD.decode(patch).expect("the patch is base64");
        let patch: Value = serde_json::from_slice(&patch).expect("the patch is JSON");
        assert!(
            patch.as_array().is_some_and(|steps| !steps.is_empty()),
            "{patch}"
        );
    }
    for warning in &decision.warnings {
        assert!(
            warning.chars().count() <= Decision::LONGEST_WARNING,
            "{warning}"
        );
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let policies = policies(*choice);
    let phase = if choice & 2 == 0 {
        AdmissionPhase::Mutating
    } else {
        AdmissionPhase::Validating
    };
    let decide = |review: &Review<'_>| {
        let find = |lookup: &Lookup| look_up(*choice, lookup);
        let decision = decide_with(&review.request, &policies, phase, find);
        check(review, &decision, phase);
        decision
    };
    let begun = Review::begin(bytes).map(|review| (decide(&review), review));
    let whole = Review::parse(bytes).map(|review| (decide(&review), review));
    let Ok((decision, whole)) = whole else {
        return;
    };
    let (short, begun) = begun.expect("what can be read whole can be begun");
    // A name behind the object is not looked for.
    if names(&begun.request) == names(&whole.request) {
        assert_eq!(short, decision);
    }
});
