//! Interprets the response to an eviction or a deletion.
//!
//! The budget's refusal, priority and fairness, a webhook and an overloaded server
//! all say 429, and a terminating namespace and a missing right both say 403. What
//! tells them apart is in the body (v1.36.3: pkg/registry/core/pod/storage/eviction.go,
//! k8s.io/apiserver pkg/server/filters/{priority-and-fairness,with_retry_after}.go).

use nodelife_core::object::Status;
use nodelife_core::response::ApiResponse;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionResult {
    /// The pod is being deleted now.
    Accepted,
    /// No pod has this name. In a terminating namespace this answer never comes.
    NotFound,
    /// Another pod has this name, or the pod changed. Never to be repeated blindly:
    /// the budget was charged before the precondition was looked at.
    Conflict,
    /// The budget allows nothing at present; its status will say when it does.
    BudgetExhausted {
        /// The server's sentence with the budget's name.
        message: String,
    },
    /// The budget was changed and not counted since, or the pod's readiness changed
    /// under the request.
    BudgetNotObserved {
        /// The server's sentence with the budget's name.
        message: String,
        /// Seconds to wait, by the server's word.
        retry_after: u32,
    },
    /// The budget's status does not make sense to the server.
    BudgetBroken(String),
    SeveralBudgets,
    /// The server asks to slow down: priority and fairness, or overload.
    Throttled {
        /// Who says so.
        by: Throttle,
        /// Seconds to wait, by the server's word.
        retry_after: Option<u32>,
    },
    /// A webhook or an admission plugin says no.
    Denied {
        message: String,
        /// Whether it said 429: in progress, ask again.
        later: bool,
        /// Seconds to wait, by its word.
        retry_after: Option<u32>,
    },
    /// The namespace is being deleted, the pod with it or before.
    NamespaceTerminating,
    Forbidden(String),
    /// The server does not take the credentials now; nothing was done.
    Unauthorized(String),
    /// The server failed; whether the eviction took effect is not known.
    Uncertain {
        message: String,
        /// Seconds to wait, by the server's word.
        retry_after: Option<u32>,
    },
    /// The server does not take the request as it is.
    Invalid(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    /// API priority and fairness; the server's plain text says so.
    PriorityAndFairness,
    /// The server or its storage is overloaded, or shuts down.
    Overload,
}

/// When an eviction is sent again that failed since a webhook did, in seconds.
const WEBHOOK_WAIT: u32 = 5;

/// The text of priority and fairness (`tooManyRequests` in priority-and-fairness.go).
const FAIRNESS_TEXT: &str = "Too many requests, please try again later.";

impl EvictionResult {
    fn denied(message: String, later: bool, retry_after: Option<u32>) -> Self {
        Self::Denied {
            message,
            later,
            retry_after,
        }
    }

    /// The answer that came over the wire.
    pub fn of(answer: &ApiResponse) -> Self {
        let Some(status) = &answer.status else {
            return Self::of_text(answer);
        };
        let message = status.message.clone();
        match answer.code {
            200..=299 => Self::Accepted,
            // Admission comes before all that an eviction changes
            // (`ErrCallingWebhook` in pkg/util/webhook/error.go of k8s.io/apiserver, v0.36.3).
            500 if message.contains("failed calling webhook") => {
                Self::denied(message, true, Some(WEBHOOK_WAIT))
            }
            401 => Self::Unauthorized(message),
            403 => Self::of_403(status),
            404 => Self::NotFound,
            409 => Self::Conflict,
            429 => Self::of_429(status, retry_after(answer)),
            500 if message.contains("more than one PodDisruptionBudget") => Self::SeveralBudgets,
            // Strimzi's drain cleaner denies with 500, and has its operator roll the pod.
            500..=599 if is_denial(&message) => Self::denied(message, true, retry_after(answer)),
            500..=599 => Self::Uncertain {
                message,
                retry_after: retry_after(answer),
            },
            _ if is_denial(&message) => Self::denied(message, false, None),
            _ => Self::Invalid(message),
        }
    }

    fn of_403(status: &Status) -> Self {
        let message = status.message.clone();
        if status.cause("NamespaceTerminating").is_some() {
            Self::NamespaceTerminating
        } else if message.contains("pdb disruptions allowed is negative")
            || message.contains("DisruptedPods map too big")
        {
            Self::BudgetBroken(message)
        } else if is_denial(&message) {
            Self::denied(message, false, None)
        } else {
            Self::Forbidden(message)
        }
    }

    fn of_429(status: &Status, retry_after: Option<u32>) -> Self {
        if let Some(cause) = status.cause("DisruptionBudget") {
            let message = cause.message.clone();
            return match retry_after {
                Some(retry_after) => Self::BudgetNotObserved {
                    message,
                    retry_after,
                },
                None => Self::BudgetExhausted { message },
            };
        }
        if is_denial(&status.message) {
            return Self::denied(status.message.clone(), true, retry_after);
        }
        Self::Throttled {
            by: Throttle::Overload,
            retry_after,
        }
    }

    /// Answers without a `Status`: filters of the server, and proxies in between.
    fn of_text(answer: &ApiResponse) -> Self {
        let text = answer.text.clone().unwrap_or_default();
        match answer.code {
            200..=299 => Self::Accepted,
            429 if text.trim() == FAIRNESS_TEXT => Self::Throttled {
                by: Throttle::PriorityAndFairness,
                retry_after: answer.retry_after,
            },
            429 => Self::Throttled {
                by: Throttle::Overload,
                retry_after: answer.retry_after,
            },
            401 => Self::Unauthorized(text),
            403 => Self::Forbidden(text),
            // Only a Status tells that the pod is gone: a proxy says 404 as well.
            _ => Self::Uncertain {
                message: format!("HTTP {} {}", answer.code, text.trim())
                    .trim_end()
                    .to_owned(),
                retry_after: answer.retry_after,
            },
        }
    }
}

/// `admission webhook "x" denied the request: …` of k8s.io/apiserver
/// (pkg/admission/plugin/webhook/errors/statuserror.go), and the sentence of a
/// `ValidatingAdmissionPolicy`.
fn is_denial(message: &str) -> bool {
    message.contains("denied the request") || message.contains("denied request")
}

/// The header goes first; the body's field says the same where there is one.
fn retry_after(answer: &ApiResponse) -> Option<u32> {
    let in_body = || {
        let details = answer.status.as_ref()?.details.as_ref()?;
        (details.retry_after_seconds > 0).then_some(details.retry_after_seconds)
    };
    answer.retry_after.or_else(in_body)
}

#[cfg(test)]
mod tests {
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
                message: "The disruption budget c2 needs 1 healthy pods and has 1 currently"
                    .to_owned()
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
}
