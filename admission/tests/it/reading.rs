//! Tests of the review parser.

use serde_json::json;

use super::*;

#[test]
fn rejects_what_is_not_a_review() {
    for (bytes, error) in [
        ("", "failed to read the AdmissionReview"),
        ("[]", "expected admission.k8s.io/v1 AdmissionReview"),
        ("{}", "expected admission.k8s.io/v1 AdmissionReview"),
        (
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
            "expected admission.k8s.io/v1 AdmissionReview",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            "the AdmissionReview has no request",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}"#,
            "request.uid must be",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"\ud800"}}"#,
            "request.uid must be",
        ),
        (
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"PATCH"}}"#,
            "unknown operation",
        ),
    ] {
        let found = Review::parse(bytes.as_bytes()).unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }
}

/// Behind the names there may be anything, as long as no rule asks for it.
#[test]
fn a_verdict_by_names_does_not_read_the_objects() {
    let by = |user: &str, operation: &str| {
        let object = json!({"spec": {"nodeName": "n1"}});
        let review = review(
            "pods",
            operation,
            json!({
            "object": object, "oldObject": object,
            "userInfo": {"username": user, "groups": ["system:nodes"]}}),
        );
        let mut bytes = as_sent(&review);
        // It breaks off inside the object.
        bytes.truncate(
            bytes
                .windows(10)
                .position(|ten| ten == br#""nodeName""#)
                .unwrap(),
        );
        assert!(Review::parse(&bytes).is_err());
        let review = Review::begin(&bytes).unwrap();
        match decide(
            &review.request,
            &Policies::default(),
            AdmissionPhase::Validating,
            &Lookups::new(),
        ) {
            Evaluation::Decided(decision) => decision.verdict,
            Evaluation::Needs(lookup) => panic!("{lookup:?}"),
        }
    };
    assert_eq!(by("somebody", "CREATE"), Verdict::Allow);
    let refused = |verdict: Verdict| match verdict {
        Verdict::Deny(denial) => (denial.reason.code(), denial.message),
        other => panic!("{other:?}"),
    };
    let (code, message) = refused(by(NODE, "UPDATE"));
    assert!(
        code == 403 && message.starts_with("unexpected operation"),
        "{message}"
    );
    // What needs the object, and cannot have it, is refused.
    for operation in ["CREATE", "DELETE"] {
        let (code, message) = refused(by(NODE, operation));
        assert!(
            code == 400 && message.starts_with("failed to read"),
            "{message}"
        );
    }
}

/// A name behind the object counts as much as one before it.
#[test]
fn a_review_in_another_order_is_read_whole() {
    let head =
        r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u""#;
    let resource = r#""resource":{"group":"","version":"v1","resource":"nodes"}"#;
    let user = r#""operation":"UPDATE","userInfo":{"username":"system:node:n1","groups":["system:nodes"]}"#;
    let object = r#""object":{},"oldObject":{}"#;
    for rest in [
        [resource, r#""name":"n2""#, user, object],
        [resource, user, r#""name":"n2""#, object],
        [resource, user, object, r#""name":"n2""#],
        [object, user, r#""name":"n2""#, resource],
    ] {
        let bytes = format!("{head},{}}}}}", rest.join(","));
        let review = Review::begin(bytes.as_bytes()).unwrap();
        assert_eq!(
            review.request.name(),
            if rest[3].contains("n2") { "" } else { "n2" }
        );
    }
    let twice = format!("{head},{resource},{user},\"name\":\"n1\",{object},\"name\":\"n2\"}}}}");
    assert!(Review::parse(twice.as_bytes()).is_err());
}
