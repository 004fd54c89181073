//! What is to be enforced, and how: the part of the webhook's configuration that decides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::agent::Agent;
use super::verdict::Rule;

/// The policies of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Policies {
    /// What kubelets may do.
    pub node_restriction: NodeRestriction,
    /// Which tolerations pods get.
    pub tolerations: Tolerations,
    /// ServiceAccounts that are held to their own node.
    pub agents: Vec<Agent>,
    /// What a refusal of an agent leads to.
    pub agent_mode: Mode,
}

impl Policies {
    /// The mode that `rule` is in.
    pub fn mode(&self, rule: Rule) -> Mode {
        match rule {
            Rule::Agents => self.agent_mode,
            rule => self.node_restriction.mode(rule),
        }
    }
}

/// What a refusal leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The request is refused.
    #[default]
    Enforce,
    /// The request passes with a warning to the client and a line in the audit log.
    Warn,
    /// The request passes with a line in the audit log.
    Audit,
    /// The rule is not asked.
    Off,
}

impl Mode {
    /// As it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
            Self::Audit => "audit",
            Self::Off => "off",
        }
    }
}

/// The rules of the in-tree plugin NodeRestriction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeRestriction {
    /// The mode of every in-tree rule that `modes` does not name. The stricter ones are off
    /// unless they are named.
    pub mode: Mode,
    /// Modes by rule ([`Rule::as_str`]).
    pub modes: BTreeMap<RuleName, Mode>,
    /// The API server's feature gate `PodCertificateRequest` (off by default in 1.36).
    pub pod_certificate_requests: bool,
    /// The API server's feature gate `ServiceAccountNodeAudienceRestriction` is on, as by
    /// default since 1.33.
    pub token_audiences: TokenAudiences,
    /// The version of Kubernetes whose plugin is mirrored, where that made a difference.
    pub version: Version,
    /// Label keys that mirror pods may bear, by prefix, where the rule `mirrorPodLabels` is on.
    pub mirror_pod_labels: Vec<String>,
    /// Names of the CSI drivers that a node may announce, where the rule `csiDrivers` is on.
    pub csi_drivers: Vec<String>,
}

/// A minor version of Kubernetes, `1.30` to `1.37`.
///
/// Checks that closed a hole are made whatever the version is: owners of a node (since 1.31.12,
/// 1.32.8 and 1.33.4), deletion of a `ResourceSlice` (since 1.31), claims of a mirror pod (since
/// 1.32.6 and 1.33.2) and its other references (all of them since 1.34). Held against
/// `plugin/pkg/admission/noderestriction/admission.go` and `pkg/features/kube_features.go` of
/// v1.30.14, v1.31.14, v1.32.13, v1.33.13, v1.34.4, v1.35.4 and v1.36.3; from 1.34 to 1.36 the
/// plugin did not change. There is no 1.37 yet: it counts as 1.36.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Version(u8);

impl Version {
    const OLDEST: u8 = 30;
    const NEWEST: u8 = 37;

    /// The common name in a kubelet's certificate request is checked since 1.31 (gate
    /// `AllowInsecureKubeletCertificateSigningRequests`, off by default).
    pub(super) fn checks_signing_requests(self) -> bool {
        self.0 >= 31
    }

    /// The audience of a kubelet's token request is checked since 1.33 (gate
    /// `ServiceAccountNodeAudienceRestriction`, off by default in 1.32, where it came without
    /// asking the authorizer, and on since).
    pub(super) fn restricts_audiences(self) -> bool {
        self.0 >= 33
    }
}

impl Default for Version {
    /// What the engine is held against.
    fn default() -> Self {
        Self(36)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        format!("1.{}", version.0)
    }
}

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
        minor
            .filter(|minor| (Self::OLDEST..=Self::NEWEST).contains(minor))
            .map(Self)
            .ok_or_else(|| {
                let (oldest, newest) = (Self::OLDEST, Self::NEWEST);
                format!("expected a version from \"1.{oldest}\" to \"1.{newest}\", got {text:?}")
            })
    }
}

/// Whether and where the audience of a kubelet's `TokenRequest` is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokenAudiences {
    /// Checked at all; without a word, by the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restrict: Option<bool>,
    /// The API server's `--api-audiences`. A request without audiences bears exactly these
    /// in the validating phase (pkg/registry/core/serviceaccount/storage/token.go puts them
    /// there before validating admission), so without them that phase cannot judge the
    /// audience and leaves it to the mutating one, which sees the raw request.
    pub api_audiences: Vec<String>,
}

impl NodeRestriction {
    /// The mode that `rule` is in.
    pub fn mode(&self, rule: Rule) -> Mode {
        let named = self.modes.iter().find(|(name, _)| name.0 == rule);
        named.map_or_else(|| self.unnamed(rule), |(_, mode)| *mode)
    }

    /// The mode of a rule that `modes` does not name.
    fn unnamed(&self, rule: Rule) -> Mode {
        let is_there = match rule {
            Rule::SigningRequests => self.version.checks_signing_requests(),
            rule => !rule.is_stricter(),
        };
        if is_there { self.mode } else { Mode::Off }
    }

    /// Whether the audience of a token request is checked.
    pub(super) fn restricts_audiences(&self) -> bool {
        let named = self.token_audiences.restrict;
        named.unwrap_or_else(|| self.version.restricts_audiences())
    }
}

/// The name of a rule of NodeRestriction in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleName(pub Rule);

impl RuleName {
    const ALL: [Rule; 19] = [
        Rule::Identity,
        Rule::Nodes,
        Rule::Pods,
        Rule::PodStatus,
        Rule::Evictions,
        Rule::Claims,
        Rule::Tokens,
        Rule::PodCertificates,
        Rule::Leases,
        Rule::CsiNodes,
        Rule::ResourceSlices,
        Rule::SigningRequests,
        Rule::PodStatusMetadata,
        Rule::MirrorPodLabels,
        Rule::SelfUncordon,
        Rule::RegistrationOwners,
        Rule::Events,
        Rule::SelfDeletion,
        Rule::CsiDrivers,
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
        let known = Self::ALL.into_iter().find(|rule| rule.as_str() == name);
        known.map(Self).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|rule| rule.as_str()).collect();
            serde::de::Error::custom(format!(
                "unknown rule {name:?}; the rules are {}",
                names.join(", ")
            ))
        })
    }
}

/// The default tolerations, as the in-tree plugin DefaultTolerationSeconds gives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Tolerations {
    /// Whether pods get them.
    pub enabled: bool,
    /// Seconds that a pod stays on a node that is not ready
    /// (`--default-not-ready-toleration-seconds`).
    pub not_ready_seconds: i64,
    /// Seconds that a pod stays on a node that is unreachable
    /// (`--default-unreachable-toleration-seconds`).
    pub unreachable_seconds: i64,
    /// Whether a new pod's toleration that says what the in-tree plugin would have put there
    /// is changed to what this policy says. The plugin runs before any webhook, so where it
    /// is on there is nothing left to add.
    pub rewrite: bool,
    /// What the in-tree plugin puts there.
    pub in_tree: InTree,
    /// Whether the annotations `nodelife.dev/not-ready-seconds` and
    /// `nodelife.dev/unreachable-seconds` of a pod come before every policy.
    pub annotations: bool,
    /// Seconds for some pods; the first policy that fits counts.
    pub policies: Vec<TolerationPolicy>,
    /// Seconds that the nodes take to shut down (the kubelet's `shutdownGracePeriod`). A new
    /// pod that wants longer for its own end is warned of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_grace_period_seconds: Option<i64>,
}

impl Default for Tolerations {
    fn default() -> Self {
        let InTree {
            not_ready_seconds,
            unreachable_seconds,
        } = InTree::default();
        Self {
            enabled: true,
            not_ready_seconds,
            unreachable_seconds,
            rewrite: false,
            in_tree: InTree::default(),
            annotations: false,
            policies: Vec::new(),
            shutdown_grace_period_seconds: None,
        }
    }
}

/// The API server's own `--default-not-ready-toleration-seconds` and
/// `--default-unreachable-toleration-seconds`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct InTree {
    /// For a node that is not ready.
    pub not_ready_seconds: i64,
    /// For a node that is unreachable.
    pub unreachable_seconds: i64,
}

impl Default for InTree {
    /// defaulttolerationseconds/admission.go, v1.36.3.
    fn default() -> Self {
        Self {
            not_ready_seconds: 300,
            unreachable_seconds: 300,
        }
    }
}

/// How long the pods that fit stay. A list that is empty fits every pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TolerationPolicy {
    /// Namespaces, by name.
    pub namespaces: Vec<String>,
    /// Kinds of the controller that made the pod: `ReplicaSet`, `StatefulSet`, `Job`.
    pub owner_kinds: Vec<String>,
    /// Priority classes, by name.
    pub priority_classes: Vec<String>,
    /// Seconds on a node that is not ready; else those of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready_seconds: Option<i64>,
    /// Seconds on a node that is unreachable; else those of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_seconds: Option<i64>,
}
