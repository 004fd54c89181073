use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fact::Fact;
use nodelife_core::natural;
use nodelife_core::text::Str;

nodelife_core::named! {
    /// How bad it is. Ordered: `Info < Warning < Error`.
    #[derive(
        Clone,
        Copy,
        Debug,
        Default,
        PartialEq,
        Eq,
        PartialOrd,
        Ord,
        Hash,
        Serialize,
        Deserialize,
        JsonSchema,
    )]
    #[serde(rename_all = "lowercase")]
    #[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
    pub enum Severity {
        /// Worth knowing.
        #[default]
        Info = "info",
        /// Will hurt under some condition that the finding names.
        Warning = "warning",
        /// Hurts now, or at the next restart, drain or failure.
        Error = "error",
    }
}

/// How the rule knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Read from the objects that decide.
    Measured,
    /// Concluded from other objects, since those that decide were not at hand.
    Inferred,
}

/// The object that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// `Node`, `Pod`, `PodDisruptionBudget`, `Zone`, `Cluster`, …
    pub kind: Str,
    /// Its name.
    pub name: Str,
    /// Its namespace; absent for cluster-scoped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Str>,
}

/// By kind, then by namespace and name in their natural order.
impl Ord for Subject {
    fn cmp(&self, other: &Self) -> Ordering {
        let [place, other_place] =
            [self, other].map(|subject| subject.namespace.as_deref().unwrap_or_default());
        (self.kind.cmp(&other.kind))
            .then_with(|| natural::compare(place, other_place))
            .then_with(|| self.namespace.is_some().cmp(&other.namespace.is_some()))
            .then_with(|| natural::compare(&self.name, &other.name))
    }
}

impl PartialOrd for Subject {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One fault, with the numbers behind it and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Id of the rule, `NL-RES-001`.
    pub rule: Str,
    /// The rule's title: the fault, in a few words.
    pub title: Str,
    /// How bad it is.
    pub severity: Severity,
    /// The object.
    pub subject: Subject,
    /// One sentence with the numbers and the arithmetic.
    pub message: String,
    /// The message without its facts.
    #[serde(skip)]
    pub template: Cow<'static, str>,
    /// The facts of the message, for machines.
    #[schemars(with = "BTreeMap<Str, serde_json::Value>")]
    pub evidence: BTreeMap<&'static str, Fact>,
    /// How the rule knows.
    pub confidence: Confidence,
    /// How to fix it.
    pub fix: String,
    /// Further reading.
    pub link: Str,
}

impl Subject {
    /// `node/worker-1`, `pod/shop/web-0`: the object in one word, in kubectl's habit.
    pub fn path(&self) -> String {
        let kind = self.kind.to_lowercase();
        match &self.namespace {
            Some(namespace) => format!("{kind}/{namespace}/{}", self.name),
            None => format!("{kind}/{}", self.name),
        }
    }
}
