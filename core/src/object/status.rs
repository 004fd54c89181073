//! `metav1.Status`: the API server's response to errors and deletions.

use serde::{Deserialize, Serialize};

use super::meta::{is_default, nullable};

/// The fields that nodelife reads (k8s.io/apimachinery v0.36.3, `pkg/apis/meta/v1/types.go`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `metadata`; of use with 410 alone.
    #[serde(skip_serializing)]
    pub metadata: StatusMeta,
    /// `Success` or `Failure`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A word for machines (`NotFound`, `TooManyRequests`, …); some errors have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    pub code: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatusMeta {
    /// Where an expired list can go on, at a later version.
    #[serde(rename = "continue")]
    pub next: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`) or the kind (`Pod`): upstream writes both.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub causes: Vec<StatusCause>,
    /// Seconds to wait before the next try; 0 says nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub retry_after_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusCause {
    /// A word for machines: `DisruptionBudget`, `NamespaceTerminating`, …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    pub fn cause(&self, reason: &str) -> Option<&StatusCause> {
        let details = self.details.as_ref()?;
        details.causes.iter().find(|cause| cause.reason == reason)
    }
}
