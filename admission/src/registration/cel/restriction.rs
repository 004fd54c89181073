//! One rule as a `ValidatingAdmissionPolicy`: what it is asked about and its checks.

use serde_json::Value;

use crate::policy::node_restriction::request::USER_PREFIX;
use crate::registration::match_conditions::name_of;
use crate::registration::webhooks::{WRITES, rule};
use crate::rule::AdmissionRule;

pub(super) const SUBRESOURCE: &str = "request.?subResource.orValue('')";

/// What one rule becomes.
pub(super) struct Restriction {
    pub(super) rule: AdmissionRule,
    /// Of the policy and its binding, behind `nodelife-`.
    pub(super) name: &'static str,
    /// What it is asked about.
    pub(super) resources: Vec<Value>,
    /// In the order of the in-tree plugin: the first that fails gives the message.
    pub(super) checks: Vec<Check>,
}

/// A check: what has to hold, and what is said where it does not. Both are CEL.
pub(super) struct Check {
    pub(super) holds: String,
    pub(super) message: String,
}

impl Check {
    /// `{node}`, `{name}`, `{subresource}` and `{operation}` in the message are what the request
    /// says, in quotes.
    pub(super) fn new(holds: impl Into<String>, message: &str) -> Self {
        Self::with(holds, message, "''")
    }

    /// The same, with `{}` for the text that `word` gives.
    pub(super) fn with(holds: impl Into<String>, message: &str, word: &str) -> Self {
        let node = format!("request.userInfo.username.substring({})", USER_PREFIX.len());
        let quoted = |text: &str| format!("\"' + {text} + '\"");
        let message = message
            .replace('\'', "\\'")
            .replace("{node}", &quoted(&node))
            .replace("{name}", &quoted(&name_of("request")))
            .replace("{subresource}", &quoted(SUBRESOURCE))
            .replace("{operation}", &quoted("request.operation"))
            .replace("{}", &format!("' + {word} + '"));
        Self {
            holds: holds.into(),
            message: format!("'{message}'"),
        }
    }
}

pub(super) fn nodes() -> Value {
    rule("", &["v1"], &["nodes", "nodes/*"], &WRITES, "Cluster")
}

pub(super) fn pods(resources: &[&str]) -> Value {
    rule("", &["v1"], resources, &WRITES, "Namespaced")
}
