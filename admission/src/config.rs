//! The policies' configuration: which rules are enforced, and their settings.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use nodelife_core::names::{is_label_name, is_subdomain};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::policy::node_restriction::hardening;
use crate::rule::{AdmissionRule, Mode};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Policies {
    /// Namespaces whose token requests pass while the webhook is down, even with `Fail`, and whose pods
    /// get no tolerations: the webhook's own, and those of pods that a node needs before the webhook
    /// can run. All their other requests are reviewed: a node that may create a pod there can take its
    /// account's token.
    pub exempt_namespaces: Vec<String>,
    pub node_restriction: NodeRestrictionConfig,
    pub tolerations: Tolerations,
    #[serde(deserialize_with = "agents")]
    pub agents: Vec<Agent>,
    pub agent_mode: Mode,
    pub drain_safety: Mode,
    pub drain_safety_namespaces: BTreeMap<String, Mode>,
    /// What it only writes to the audit log.
    pub drain_safety_exceptions: Vec<DrainSafetyException>,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            exempt_namespaces: ["kube-system", "nodelife-system"].map(str::to_owned).into(),
            node_restriction: NodeRestrictionConfig::default(),
            tolerations: Tolerations::default(),
            agents: Vec::new(),
            agent_mode: Mode::default(),
            drain_safety: Mode::Off,
            drain_safety_namespaces: BTreeMap::new(),
            drain_safety_exceptions: Vec::new(),
        }
    }
}

impl Policies {
    /// A setting that may have no effect.
    pub fn warning(&self) -> Option<&'static str> {
        let Tolerations {
            enabled,
            annotations,
            rewrite,
            ..
        } = self.tolerations;
        if enabled && annotations && !rewrite {
            return Some(
                "tolerations.annotations changes nothing where the in-tree plugin \
                 DefaultTolerationSeconds is on, unless tolerations.rewrite is true",
            );
        }
        let is_off = self.mode(AdmissionRule::OwnLabels) == Mode::Off;
        (is_off && !self.node_restriction.own_labels.is_empty()).then_some(
            "nodeRestriction.ownLabels changes nothing while nodeRestriction.modes.ownLabels is off",
        )
    }

    pub(crate) fn drain_safety_of(
        &self,
        namespace: &str,
        name: &str,
    ) -> (Mode, Option<&DrainSafetyException>) {
        let mode = self.drain_safety_namespaces.get(namespace);
        let mode = *mode.unwrap_or(&self.drain_safety);
        let mut exceptions = self.drain_safety_exceptions.iter();
        let exception = exceptions.find(|one| one.is_of(namespace, name));
        match exception.filter(|_| mode != Mode::Off) {
            Some(exception) => (Mode::Audit, Some(exception)),
            None => (mode, None),
        }
    }

    pub fn mode(&self, rule: AdmissionRule) -> Mode {
        match rule {
            AdmissionRule::Agents => self.agent_mode,
            AdmissionRule::DrainSafety => self.drain_safety,
            rule => self.node_restriction.mode(rule),
        }
    }
}

/// A budget, workload or autoscaler that a drain may have to wait for, for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrainSafetyException {
    pub namespace: String,
    /// Absent: each object of the namespace.
    pub name: Option<String>,
    pub reason: String,
    /// Its last day, in UTC. Who reads the configuration leaves those out that have ended.
    pub until: Date,
}

impl DrainSafetyException {
    fn is_of(&self, namespace: &str, name: &str) -> bool {
        let is_named = self.name.as_deref().is_none_or(|own| own == name);
        is_named && self.namespace == namespace
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeRestrictionConfig {
    /// The mode of every in-tree rule that `modes` does not name. The stricter ones are off unless named.
    pub mode: Mode,
    /// Modes by rule ([`AdmissionRule::as_str`]).
    pub modes: BTreeMap<AdmissionRule, Mode>,
    /// The API server's feature gate `PodCertificateRequest`; default: by the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_certificate_requests: Option<bool>,
    /// The API server's feature gate `CSIVolumeHealth` (off by default).
    pub csi_volume_health: bool,
    /// The API server's feature gate `ServiceAccountNodeAudienceRestriction` (on by default).
    pub token_audiences: TokenAudiences,
    /// The Kubernetes version whose plugin is mirrored, where versions differ; default: the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<MinorVersion>,
    /// Prefixes of label keys that mirror pods may have, if the rule `mirrorPodLabels` is on.
    pub mirror_pod_labels: Vec<String>,
    /// Names of the CSI drivers that a node may announce, if the rule `csiDrivers` is on.
    pub csi_drivers: Vec<String>,
    /// Keys of the labels that a node may write besides those that every kubelet sets, if the rule
    /// `ownLabels` is on. An entry that ends with `/` stands for all keys that begin with it.
    #[serde(deserialize_with = "label_keys")]
    pub own_labels: Vec<String>,
}

/// A minor version of Kubernetes, since `1.33`.
///
/// Checks that closed a hole are made whatever the version is: owners of a node (since 1.33.4), claims
/// of a mirror pod (since 1.33.2) and its other references (all of them since 1.34). Held against
/// `plugin/pkg/admission/noderestriction/admission.go` and `pkg/features/kube_features.go` of
/// v1.33.13, v1.34.4, v1.35.4, v1.36.3 and v1.37.2; from 1.34 to 1.36 the plugin did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MinorVersion(u8);

impl MinorVersion {
    const OLDEST: Self = Self(33);
    /// The newest one whose plugin is mirrored.
    pub const NEWEST: Self = Self(37);

    /// That of a server, by the `minor` of its `/version`: `36`, `36+`. A too old one counts as the oldest.
    pub fn of_server(minor: &str) -> Option<Self> {
        let minor = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
        Some(Self(minor.parse().ok()?).max(Self::OLDEST))
    }

    /// Since 1.37, `PodCertificateRequest` is served by default, the signer of a pod's certificate is
    /// checked, a pod's `status.nodeAllocatableResourceClaimStatuses` is compared, there is
    /// `csinodes/status`, and the refusal of an audience names the user before the audience.
    pub(crate) fn is_1_37_or_later(self) -> bool {
        self.0 >= 37
    }
}

impl Default for MinorVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl From<MinorVersion> for String {
    fn from(version: MinorVersion) -> Self {
        format!("1.{}", version.0)
    }
}

impl TryFrom<String> for MinorVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
        minor
            .map(Self)
            .filter(|version| *version >= Self::OLDEST)
            .ok_or_else(|| {
                let oldest = String::from(Self::OLDEST);
                format!("expected a version from {oldest:?} on, got {text:?}")
            })
    }
}

/// Whether and where the audience of a kubelet's `TokenRequest` is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TokenAudiences {
    /// Whether it is checked; default: it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restrict: Option<bool>,
    /// The API server's `--api-audiences`. A request without audiences bears exactly these
    /// in the validating phase (pkg/registry/core/serviceaccount/storage/token.go puts them
    /// there before validating admission), so without them that phase cannot judge the
    /// audience and leaves it to the mutating one, which sees the raw request.
    pub api_audiences: Vec<String>,
}

impl NodeRestrictionConfig {
    pub(crate) fn version(&self) -> MinorVersion {
        self.version.unwrap_or_default()
    }

    pub fn mode(&self, rule: AdmissionRule) -> Mode {
        let is_stricter = hardening::rules().any(|one| one == rule);
        let unnamed = if is_stricter { Mode::Off } else { self.mode };
        self.modes.get(&rule).copied().unwrap_or(unnamed)
    }
}

/// The default tolerations, as the in-tree plugin DefaultTolerationSeconds gives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Tolerations {
    pub enabled: bool,
    /// Seconds on a node that is not ready (`--default-not-ready-toleration-seconds`).
    #[serde(deserialize_with = "seconds")]
    pub not_ready_seconds: i64,
    /// Seconds on a node that is unreachable (`--default-unreachable-toleration-seconds`).
    #[serde(deserialize_with = "seconds")]
    pub unreachable_seconds: i64,
    /// Whether a new pod's toleration that equals the in-tree plugin's default is changed to this
    /// policy's seconds. The plugin runs before any webhook, so where it is on there is nothing
    /// left to add.
    pub rewrite: bool,
    pub in_tree: InTreeDefaults,
    /// Whether the annotations `nodelife.dev/not-ready-seconds` and
    /// `nodelife.dev/unreachable-seconds` of a pod override every policy.
    pub annotations: bool,
    /// Seconds for some pods; the first matching policy counts.
    pub policies: Vec<TolerationPolicy>,
    /// Seconds that nodes take to shut down (`shutdownGracePeriod`). Longer grace periods cause a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_grace_period_seconds: Option<i64>,
}

impl Default for Tolerations {
    fn default() -> Self {
        let InTreeDefaults {
            not_ready_seconds,
            unreachable_seconds,
        } = InTreeDefaults::default();
        Self {
            enabled: true,
            not_ready_seconds,
            unreachable_seconds,
            rewrite: false,
            in_tree: InTreeDefaults::default(),
            annotations: false,
            policies: Vec::new(),
            shutdown_grace_period_seconds: None,
        }
    }
}

/// The API server's `--default-not-ready-toleration-seconds` and `--default-unreachable-…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct InTreeDefaults {
    pub not_ready_seconds: i64,
    pub unreachable_seconds: i64,
}

impl Default for InTreeDefaults {
    /// defaulttolerationseconds/admission.go, v1.36.3.
    fn default() -> Self {
        Self {
            not_ready_seconds: 300,
            unreachable_seconds: 300,
        }
    }
}

/// Seconds for the pods that match. An empty list matches every pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TolerationPolicy {
    pub namespaces: Vec<String>,
    /// Kinds of the pod's controller: `ReplicaSet`, `StatefulSet`, `Job`.
    pub owner_kinds: Vec<String>,
    pub priority_classes: Vec<String>,
    /// Seconds on a node that is not ready; else those of the cluster.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_seconds")]
    pub not_ready_seconds: Option<i64>,
    /// Seconds on a node that is unreachable; else those of the cluster.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "optional_seconds")]
    pub unreachable_seconds: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// `NAMESPACE:NAME` of the ServiceAccount.
    #[serde(deserialize_with = "account")]
    pub service_account: String,
    /// Label keys of its own Node that it may change, by prefix.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Annotation keys of its own Node that it may change, by prefix.
    #[serde(default)]
    pub annotations: Vec<String>,
    /// Other fields of its own Node that it may change, by prefix: `spec.taints`, `status.`.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Custom resources, by `resource.group`, and the field that names their node (`spec.nodeName`).
    #[serde(default)]
    pub resources: BTreeMap<String, String>,
    /// Other ServiceAccounts whose tokens it may request, by `NAMESPACE:NAME`.
    #[serde(default, deserialize_with = "accounts")]
    pub tokens: Vec<String>,
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let seconds = i64::deserialize(deserializer)?;
    if seconds < 0 {
        let error = format!("expected 0 or more seconds, got {seconds}");
        return Err(D::Error::custom(error));
    }
    Ok(seconds)
}

fn optional_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    #[derive(Deserialize)]
    struct Seconds(#[serde(deserialize_with = "seconds")] i64);
    let seconds = Option::<Seconds>::deserialize(deserializer)?;
    Ok(seconds.map(|Seconds(seconds)| seconds))
}

/// Accepts only one entry for an account: the second one would have no effect.
fn agents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Agent>, D::Error> {
    let agents = Vec::<Agent>::deserialize(deserializer)?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = agents.iter().find(|one| !seen.insert(&one.service_account)) {
        let error = format!("two agents for {}", twice.service_account);
        return Err(D::Error::custom(error));
    }
    Ok(agents)
}

/// Accepts only valid names: a misspelled one would restrict nobody.
fn account<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.split_once(':') {
        Some((namespace, name)) if is_subdomain(namespace) && is_subdomain(name) => Ok(text),
        _ => Err(D::Error::custom(format!(
            "expected NAMESPACE:NAME of a ServiceAccount, got {text:?}"
        ))),
    }
}

fn accounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Account(#[serde(deserialize_with = "account")] String);
    let accounts = Vec::<Account>::deserialize(deserializer)?;
    Ok(accounts.into_iter().map(|Account(name)| name).collect())
}

/// More entries of `ownLabels` than anybody needs: the API server bounds the cost of a filter.
const MOST_LABELS: usize = 100;

/// Accepts only keys that a label can have, and their prefixes: a misspelled one would allow nothing.
fn label_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let keys = Vec::<String>::deserialize(deserializer)?;
    let is_wrong = |(index, key): &(usize, &String)| *index == MOST_LABELS || !is_label_key(key);
    let Some((index, key)) = keys.iter().enumerate().find(is_wrong) else {
        return Ok(keys);
    };
    let error = format!(
        "nodeRestriction.ownLabels[{index}]: expected at most {MOST_LABELS} label keys such as team \
         or example.com/team, or prefixes such as example.com/, got {key:?}"
    );
    Err(D::Error::custom(error))
}

/// Whether `text` is a label key, or the prefix of some with its slash (`IsLabelKey`, apimachinery
/// pkg/api/validate/content/kube.go, v0.37.2).
fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_label_name(text),
        Some((prefix, name)) => is_subdomain(prefix) && (name.is_empty() || is_label_name(name)),
    }
}
