//! Disruption budgets and label selectors.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meta::nullable;
use super::{Labels, Meta};
use crate::format::join;
use crate::text::Str;

/// `policy/v1` PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    pub metadata: Meta,
    pub spec: BudgetSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: BudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_available: Option<IntOrString>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Absent selects nothing, empty selects every pod of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// The treatment of pods that are not Ready; absent means `IfHealthyBudget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_pod_eviction_policy: Option<UnhealthyPodEvictionPolicy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnhealthyPodEvictionPolicy {
    /// A pod that is not Ready goes only while enough others are.
    IfHealthyBudget,
    AlwaysAllow,
    /// A value of a later version; the API server treats it as it likes.
    #[serde(untagged)]
    Other(Str),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub observed_generation: i64,
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    pub expected_pods: i32,
    /// Pods by name whose eviction was allowed but not seen yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "crate::time::by_name")]
    pub disrupted_pods: BTreeMap<Str, Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<Condition>,
}

/// `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    pub reason: Str,
    pub message: Str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    Int(i32),
    String(Str),
}

/// `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub match_labels: Labels,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requirement {
    pub key: Str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Str,
    /// Values for `In` and `NotIn`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub values: Vec<Str>,
}

impl fmt::Display for LabelSelector {
    /// In kubectl's syntax: `a=b,c in (d,e),!f`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.match_labels.iter();
        let plain = plain.map(|(key, value)| format!("{key}={value}"));
        let rest = self.match_expressions.iter().map(|requirement| {
            let key = &requirement.key;
            let values = requirement.values.join(",");
            match requirement.operator.as_str() {
                "In" if requirement.values.len() == 1 => format!("{key}={values}"),
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_string(),
            }
        });
        f.write_str(&join(plain.chain(rest), ","))
    }
}

impl LabelSelector {
    /// Whether it has no requirement, and so matches everything.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether `labels` fulfil every requirement.
    ///
    /// Mirrors `LabelSelectorAsSelector` and `Requirement.Matches` of
    /// k8s.io/apimachinery v0.36.3 (`pkg/apis/meta/v1/helpers.go`,
    /// `pkg/labels/selector.go`). A selector that does not convert there (unknown
    /// operator, `In` without values, `Exists` with some) matches nothing here.
    pub fn matches(&self, labels: &Labels) -> bool {
        let mut plain = self.match_labels.iter();
        plain.all(|(key, value)| labels.get(key.as_str()) == Some(value))
            && self.match_expressions.iter().all(Requirement::is_valid)
            && self.match_expressions.iter().all(|r| r.matches(labels))
    }
}

impl Requirement {
    pub(super) fn is_valid(&self) -> bool {
        match self.operator.as_str() {
            "In" | "NotIn" => !self.values.is_empty(),
            "Exists" | "DoesNotExist" => self.values.is_empty(),
            _ => false,
        }
    }

    pub(super) fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(self.key.as_str());
        match self.operator.as_str() {
            "In" => value.is_some_and(|v| self.values.contains(v)),
            "NotIn" => value.is_none_or(|v| !self.values.contains(v)),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    }
}
