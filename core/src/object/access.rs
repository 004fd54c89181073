//! ClusterRoles, ClusterRoleBindings and CertificateSigningRequests.

use serde::{Deserialize, Serialize};

use super::Meta;
use super::meta::nullable;
use crate::text::Str;

/// `rbac.authorization.k8s.io/v1` ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterRole {
    pub metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    pub rules: Vec<PolicyRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Groups; `""` is the core group, `*` is all.
    #[serde(deserialize_with = "nullable")]
    pub api_groups: Vec<Str>,
    /// Resources, `nodes/proxy`.
    #[serde(deserialize_with = "nullable")]
    pub resources: Vec<Str>,
}

/// `rbac.authorization.k8s.io/v1` ClusterRoleBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterRoleBinding {
    pub metadata: Meta,
    pub role_ref: RoleRef,
    #[serde(deserialize_with = "nullable")]
    pub subjects: Vec<RoleSubject>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoleRef {
    pub name: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoleSubject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: Str,
    pub name: Str,
    #[serde(deserialize_with = "nullable")]
    pub namespace: Str,
}

/// `certificates.k8s.io/v1` CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SigningRequest {
    pub metadata: Meta,
    pub spec: SigningRequestSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: SigningRequestStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SigningRequestSpec {
    /// `kubernetes.io/kubelet-serving`, …
    pub signer_name: Str,
    #[serde(deserialize_with = "nullable")]
    pub username: Str,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub groups: Vec<Str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SigningRequestStatus {
    /// `Approved`, `Denied` or `Failed`; none: pending.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<super::Condition>,
}
