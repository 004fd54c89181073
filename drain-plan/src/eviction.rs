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
    Accepted,
    /// No pod has this name. In a terminating namespace this answer never comes.
    NotFound,
    /// Another pod has this name, or the pod changed. Never to be repeated blindly:
    /// the budget was charged before the precondition was looked at.
    Conflict,
    /// The budget allows nothing at present; its status will say when it does.
    BudgetExhausted {
        message: String,
    },
    /// The budget was changed and not counted since, or the pod's readiness changed meanwhile.
    BudgetNotObserved {
        message: String,
        /// Seconds to wait, by the server's word.
        retry_after: u32,
    },
    /// The budget's status does not make sense to the server.
    BudgetBroken(String),
    SeveralBudgets,
    /// The server asks to slow down: priority and fairness, or overload.
    Throttled {
        by: Throttle,
        /// Seconds to wait, by the server's word.
        retry_after: Option<u32>,
    },
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
    Invalid(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Throttle {
    #[error("throttled by the API server's priority and fairness")]
    PriorityAndFairness,
    #[error("throttled: the API server is overloaded or shutting down")]
    Overload,
    /// They went first, and it was not sent.
    #[error("waits for evictions of other drains under the same budget")]
    OtherDrains,
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
        let by = Throttle::Overload;
        Self::Throttled { by, retry_after }
    }

    /// Answers without a `Status`: filters of the server, and proxies in between.
    fn of_text(answer: &ApiResponse) -> Self {
        let text = answer.text.clone().unwrap_or_default();
        match answer.code {
            200..=299 => Self::Accepted,
            429 => Self::Throttled {
                by: match text.trim() {
                    FAIRNESS_TEXT => Throttle::PriorityAndFairness,
                    _ => Throttle::Overload,
                },
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
mod tests;
