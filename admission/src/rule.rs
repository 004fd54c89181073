//! The names of the engine's rules, and the modes that they can be in.

use serde::{Deserialize, Serialize};

/// A rule, as named in configuration, metrics and audit annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AdmissionRule {
    /// A user `system:node:` without a name.
    Identity,
    Nodes,
    Pods,
    PodStatus,
    Evictions,
    Claims,
    Tokens,
    PodCertificates,
    Leases,
    CsiNodes,
    ResourceSlices,
    SigningRequests,
    /// Annotations and finalizers that go through pods/status.
    PodStatusMetadata,
    MirrorPodLabels,
    /// A node that uncordons itself.
    SelfUncordon,
    RegistrationOwners,
    Events,
    SelfDeletion,
    CsiDrivers,
    /// Not of NodeRestriction: it has a setting of its own.
    #[serde(skip)]
    Agents,
    /// Not of NodeRestriction either.
    #[serde(skip)]
    Tolerations,
}

impl AdmissionRule {
    /// The rules that refuse requests that the in-tree plugin allows. They are off unless their mode is
    /// configured.
    pub(crate) const STRICTER: [Self; 7] = [
        Self::PodStatusMetadata,
        Self::MirrorPodLabels,
        Self::SelfUncordon,
        Self::RegistrationOwners,
        Self::Events,
        Self::SelfDeletion,
        Self::CsiDrivers,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::PodStatus => "podStatus",
            Self::Evictions => "evictions",
            Self::Claims => "claims",
            Self::Tokens => "tokens",
            Self::PodCertificates => "podCertificates",
            Self::Leases => "leases",
            Self::CsiNodes => "csiNodes",
            Self::ResourceSlices => "resourceSlices",
            Self::SigningRequests => "signingRequests",
            Self::PodStatusMetadata => "podStatusMetadata",
            Self::MirrorPodLabels => "mirrorPodLabels",
            Self::SelfUncordon => "selfUncordon",
            Self::RegistrationOwners => "registrationOwners",
            Self::Events => "events",
            Self::SelfDeletion => "selfDeletion",
            Self::CsiDrivers => "csiDrivers",
            Self::Agents => "agents",
            Self::Tolerations => "tolerations",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    #[default]
    Enforce,
    /// The request passes with a warning to the client and a line in the audit log.
    Warn,
    /// The request passes with a line in the audit log.
    Audit,
    Off,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
            Self::Audit => "audit",
            Self::Off => "off",
        }
    }
}
