//! One rule as a `ValidatingAdmissionPolicy`: the resources that it matches and its checks.

use serde_json::Value;

use crate::policy::node_restriction::request::USER_PREFIX;
use crate::registration::match_conditions::name_of;
use crate::registration::webhooks::{WRITES, cluster, namespaced};
use crate::rule::AdmissionRule;

pub(super) const SUBRESOURCE: &str = "request.?subResource.orValue('')";

pub(super) struct Restriction {
    pub(super) rule: AdmissionRule,
    pub(super) resources: Vec<Value>,
    /// In the order of the in-tree plugin: the first that fails gives the message.
    pub(super) checks: Vec<Check>,
}

impl Restriction {
    pub(super) fn new(
        rule: AdmissionRule,
        resources: impl Into<Vec<Value>>,
        checks: impl Into<Vec<Check>>,
    ) -> Self {
        Self {
            rule,
            resources: resources.into(),
            checks: checks.into(),
        }
    }
}

/// A check: an expression that must be true, and the message if it is not. Both are CEL.
pub(super) struct Check {
    pub(super) holds: String,
    pub(super) message: String,
}

impl Check {
    /// `{node}`, `{name}`, `{subresource}` and `{operation}` stand for values of the request, in quotes.
    pub(super) fn new(holds: impl Into<String>, message: &str) -> Self {
        Self::with_value(holds, message, "''")
    }

    /// The same; `{}` in the message is replaced by the value of the CEL expression `value`.
    pub(super) fn with_value(holds: impl Into<String>, message: &str, value: &str) -> Self {
        let node = format!("request.userInfo.username.substring({})", USER_PREFIX.len());
        let quoted = |text: &str| format!("\"' + {text} + '\"");
        let message = message
            .replace('\'', "\\'")
            .replace("{node}", &quoted(&node))
            .replace("{name}", &quoted(&name_of("request")))
            .replace("{subresource}", &quoted(SUBRESOURCE))
            .replace("{operation}", &quoted("request.operation"))
            .replace("{}", &format!("' + {value} + '"));
        Self {
            holds: holds.into(),
            message: format!("'{message}'"),
        }
    }
}

pub(super) fn nodes() -> Value {
    cluster("", &["nodes", "nodes/*"], &WRITES)
}

pub(super) fn pods(resources: &[&str]) -> Value {
    namespaced("", resources, &WRITES)
}
