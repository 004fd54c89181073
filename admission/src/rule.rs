//! The names of the engine's rules, and the modes that they can be in.

use serde::{Deserialize, Serialize};

/// A rule, as named in configuration, metrics and audit annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// Annotations and finalizers that go through pods/status. This one and the next six are
    /// stricter than the in-tree plugin.
    PodStatusMetadata,
    MirrorPodLabels,
    /// A node that uncordons itself.
    SelfUncordon,
    RegistrationOwners,
    Events,
    SelfDeletion,
    CsiDrivers,
    Agents,
    Tolerations,
}

impl AdmissionRule {
    /// Whether it refuses what the in-tree plugin allows. Such a rule is off unless its mode is
    /// configured.
    pub fn is_stricter(self) -> bool {
        matches!(
            self,
            Self::PodStatusMetadata
                | Self::MirrorPodLabels
                | Self::SelfUncordon
                | Self::RegistrationOwners
                | Self::Events
                | Self::SelfDeletion
                | Self::CsiDrivers
        )
    }

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

/// The name of a rule of NodeRestriction in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName(pub AdmissionRule);

impl RuleName {
    const ALL: [AdmissionRule; 19] = [
        AdmissionRule::Identity,
        AdmissionRule::Nodes,
        AdmissionRule::Pods,
        AdmissionRule::PodStatus,
        AdmissionRule::Evictions,
        AdmissionRule::Claims,
        AdmissionRule::Tokens,
        AdmissionRule::PodCertificates,
        AdmissionRule::Leases,
        AdmissionRule::CsiNodes,
        AdmissionRule::ResourceSlices,
        AdmissionRule::SigningRequests,
        AdmissionRule::PodStatusMetadata,
        AdmissionRule::MirrorPodLabels,
        AdmissionRule::SelfUncordon,
        AdmissionRule::RegistrationOwners,
        AdmissionRule::Events,
        AdmissionRule::SelfDeletion,
        AdmissionRule::CsiDrivers,
    ];
}

impl Serialize for RuleName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for RuleName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let rule = Self::ALL.into_iter().find(|rule| rule.as_str() == name);
        rule.map(Self).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|rule| rule.as_str()).collect();
            serde::de::Error::custom(format!(
                "unknown rule {name:?}; the rules are {}",
                names.join(", ")
            ))
        })
    }
}
