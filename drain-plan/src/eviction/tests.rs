use super::*;

fn of(code: u16, body: &str) -> EvictionResult {
    EvictionResult::of(&ApiResponse {
        code,
        status: Some(serde_json::from_str(body).unwrap()),
        ..ApiResponse::default()
    })
}

fn of_text(code: u16, text: &str, retry_after: Option<u32>) -> EvictionResult {
    EvictionResult::of(&ApiResponse {
        code,
        text: Some(text.to_owned()),
        retry_after,
        ..ApiResponse::default()
    })
}

// The bodies are answers of kube-apiserver v1.36.3.

#[test]
fn an_exhausted_budget() {
    let result = of(
        429,
        r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget c2 needs 1 healthy pods and has 1 currently"}]},"code":429}"#,
    );
    assert_eq!(
        result,
        EvictionResult::BudgetExhausted {
            message: "The disruption budget c2 needs 1 healthy pods and has 1 currently".to_owned()
        }
    );
}

#[test]
fn a_budget_that_was_not_observed_says_when_to_come_back() {
    let result = of(
        429,
        r#"{"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget c3 is still being processed by the server."}],"retryAfterSeconds":10},"code":429}"#,
    );
    assert!(matches!(
        result,
        EvictionResult::BudgetNotObserved {
            retry_after: 10,
            ..
        }
    ));
}

#[test]
fn two_budgets() {
    let result = of(
        500,
        r#"{"status":"Failure","message":"This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.","code":500}"#,
    );
    assert_eq!(result, EvictionResult::SeveralBudgets);
}

#[test]
fn a_terminating_namespace_is_no_missing_right() {
    let result = of(
        403,
        r#"{"message":"pods \"x\" is forbidden: unable to create new content in namespace t because it is being terminated","reason":"Forbidden","details":{"name":"x","kind":"pods","causes":[{"reason":"NamespaceTerminating","message":"namespace t is being terminated","field":"metadata.namespace"}]},"code":403}"#,
    );
    assert_eq!(result, EvictionResult::NamespaceTerminating);
    let rbac = of(
        403,
        r#"{"message":"pods \"x\" is forbidden: User \"u\" cannot create resource \"pods/eviction\" in API group \"\" in the namespace \"t\"","reason":"Forbidden","details":{"name":"x","kind":"pods"},"code":403}"#,
    );
    assert!(matches!(rbac, EvictionResult::Forbidden(_)));
}

#[test]
fn a_wrong_uid_is_a_conflict_and_a_missing_pod_is_not_found() {
    assert_eq!(
        of(409, r#"{"reason":"Conflict","code":409}"#),
        EvictionResult::Conflict
    );
    assert_eq!(
        of(
            404,
            r#"{"message":"pods \"nope\" not found","reason":"NotFound","code":404}"#
        ),
        EvictionResult::NotFound
    );
}

#[test]
fn priority_and_fairness_speaks_plain_text() {
    assert_eq!(
        of_text(429, "Too many requests, please try again later.\n", Some(3)),
        EvictionResult::Throttled {
            by: Throttle::PriorityAndFairness,
            retry_after: Some(3)
        }
    );
    assert_eq!(
        of_text(429, "The apiserver is shutting down", Some(5)),
        EvictionResult::Throttled {
            by: Throttle::Overload,
            retry_after: Some(5)
        }
    );
}

#[test]
fn a_webhook_that_says_429_is_in_progress_and_others_deny() {
    let message = r#""message":"admission webhook \"evict.kubevirt.io\" denied the request: Eviction triggered evacuation of VMI""#;
    let later = of(429, &format!("{{{message},\"code\":429}}"));
    assert!(matches!(later, EvictionResult::Denied { later: true, .. }));
    for code in [400, 403] {
        let result = of(code, &format!("{{{message},\"code\":{code}}}"));
        assert!(
            matches!(result, EvictionResult::Denied { later: false, .. }),
            "{code}"
        );
    }
}

/// Whether it was carried out is known, unlike after other errors of the server.
#[test]
fn a_webhook_that_cannot_be_called_holds_the_eviction_back() {
    let failed = of(
        500,
        r#"{"message":"Internal error occurred: failed calling webhook \"x.example.com\": failed to call webhook: Post \"https://x.default.svc:443/?timeout=10s\": service \"x\" not found","reason":"InternalError","code":500}"#,
    );
    assert!(matches!(failed, EvictionResult::Denied { later: true, .. }));
}

#[test]
fn a_proxys_404_does_not_say_that_the_pod_is_gone() {
    assert!(matches!(
        of_text(404, "<html>not found</html>", None),
        EvictionResult::Uncertain { .. }
    ));
}

#[test]
fn a_failing_server_leaves_the_outcome_open() {
    let result = of(
        504,
        r#"{"message":"Timeout: couldn't update PodDisruptionBudget \"web\" due to conflicts","reason":"Timeout","details":{"retryAfterSeconds":10},"code":504}"#,
    );
    assert!(matches!(
        result,
        EvictionResult::Uncertain {
            retry_after: Some(10),
            ..
        }
    ));
}
