//! The webhook configurations that the policies need.
//!
//! The `rules` and `matchConditions` of a webhook decide as much as the engine does, so both are
//! derived from the same [`Policies`] and constants. The manifests contain the configurations of
//! the default policies; a test compares them.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::match_conditions::{self, MatchCondition};
use crate::config::Policies;
use crate::policy::node_restriction::hardening;
use crate::rule::{AdmissionRule, Mode};

const NAMESPACE: &str = "nodelife-system";
/// Name of the Service, and of the configurations that restrict nodes.
const NAME: &str = "nodelife-webhook";
/// The API server's timeout for a call; a kubelet gives up on a status update after 10 s.
pub const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const WRITES: [&str; 3] = ["CREATE", "UPDATE", "DELETE"];
pub(super) const CHANGES: [&str; 2] = ["CREATE", "UPDATE"];

nodelife_core::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Webhook {
        /// Tokens that nodes ask for, outside of the exempt namespaces.
        NodeTokens = "node-tokens.nodelife.dev",
        /// Everything else that nodes write.
        NodeRestriction = "node-restriction.nodelife.dev",
        /// Tokens in the namespaces that are exempt by the configuration.
        ExemptTokens = "exempt-node-tokens.nodelife.dev",
        /// Tokens in the namespaces that are exempt by a label.
        LabelledTokens = "labelled-node-tokens.nodelife.dev",
        Tolerations = "tolerations.nodelife.dev",
        Agents = "agents.nodelife.dev",
        /// Budgets and the scales of their pods, whoever writes them.
        DrainSafety = "drain-safety.nodelife.dev",
    }
}

/// The webhook configurations that `policies` need, without a `caBundle`: `certs` owns that field.
///
/// Each contains one webhook. A server-side apply cannot remove a webhook from a configuration that
/// keeps others: `certs` owns its caBundle, so the API server keeps the entry, without the fields
/// that it requires (kubernetes/kubernetes#128102). A whole configuration can be deleted.
pub fn webhook_configurations(policies: &Policies) -> Vec<Value> {
    let wanted = Webhook::ALL.into_iter().filter(|one| one.is_on(policies));
    wanted.map(|one| one.configuration(policies)).collect()
}

/// The name of a resource that a webhook can be registered for, which bounds the labels of metrics;
/// `None` for others and for the custom resources of agents.
pub fn registered_resource(name: &str) -> Option<&'static str> {
    static NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let mut policies = Policies::default();
        policies.node_restriction.modes = hardening::rules()
            .map(|rule| (rule, Mode::Enforce))
            .collect();
        let rules = Webhook::ALL
            .into_iter()
            .flat_map(|one| one.rules(&policies));
        rules
            .filter_map(|rule| Vec::deserialize(rule.get("resources")?).ok())
            .flatten()
            .map(|resource: String| resource.split('/').next().unwrap_or_default().to_owned())
            .collect()
    });
    NAMES.get(name).map(String::as_str)
}

impl Webhook {
    fn is_on(self, policies: &Policies) -> bool {
        let on = |rule| policies.mode(rule) != Mode::Off;
        match self {
            Self::Tolerations => policies.tolerations.enabled,
            Self::NodeTokens | Self::ExemptTokens | Self::LabelledTokens => {
                on(AdmissionRule::Tokens)
            }
            Self::NodeRestriction => restricted(policies).next().is_some(),
            Self::Agents => on(AdmissionRule::Agents) && !policies.agents.is_empty(),
            Self::DrainSafety => {
                let mut modes = policies.drain_safety_namespaces.values();
                on(AdmissionRule::DrainSafety) || modes.any(|mode| *mode != Mode::Off)
            }
        }
    }

    fn is_mutating(self) -> bool {
        !matches!(
            self,
            Self::NodeRestriction | Self::Agents | Self::DrainSafety
        )
    }

    /// The conditions for a request to be sent: none is false for one that the policies would refuse.
    pub fn conditions(self, policies: &Policies) -> Vec<MatchCondition> {
        match self {
            Self::Tolerations => match_conditions::tolerations(),
            Self::NodeTokens | Self::ExemptTokens | Self::LabelledTokens => {
                vec![match_conditions::is_node()]
            }
            Self::NodeRestriction => match_conditions::node_restriction(policies),
            Self::Agents => vec![match_conditions::is_agent(&policies.agents)],
            Self::DrainSafety => vec![
                match_conditions::is_not_the_autoscaler(),
                match_conditions::changes_scale(),
            ],
        }
    }

    fn configuration(self, policies: &Policies) -> Value {
        let kind = if self.is_mutating() {
            "MutatingWebhookConfiguration"
        } else {
            "ValidatingWebhookConfiguration"
        };
        let name = match self {
            Self::NodeTokens | Self::NodeRestriction => NAME,
            Self::ExemptTokens => "nodelife-exempt-tokens",
            Self::LabelledTokens => "nodelife-labelled-tokens",
            Self::Tolerations => "nodelife-tolerations",
            Self::Agents => "nodelife-agents",
            Self::DrainSafety => "nodelife-drain-safety",
        };
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            // AKS' admissions enforcer would add a selector that leaves out kube-system.
            "metadata": {"name": name, "labels": {
                "admissions.enforcer/disabled": "true", "app.kubernetes.io/name": "nodelife"}},
            "webhooks": [self.entry(policies)],
        })
    }

    fn entry(self, policies: &Policies) -> Value {
        let mutating = self.is_mutating();
        let path = if mutating { "/mutate" } else { "/validate" };
        let mut entry = json!({
            "name": self.as_str(),
            "clientConfig": {"service":
                {"namespace": NAMESPACE, "name": NAME, "path": path, "port": 443}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            // The overlay fail-closed changes that of NodeTokens and NodeRestriction to Fail.
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": WEBHOOK_TIMEOUT.as_secs(),
            "matchConditions": self.conditions(policies),
            "rules": self.rules(policies),
        });
        if let Some(entry) = entry.as_object_mut().filter(|_| mutating) {
            entry.insert(
                "namespaceSelector".to_owned(),
                self.namespaces(&policies.exempt_namespaces),
            );
            // A sidecar that is injected later may add tolerations; a token request does not change.
            let again = match self {
                Self::Tolerations => "IfNeeded",
                _ => "Never",
            };
            entry.insert("reinvocationPolicy".to_owned(), json!(again));
        }
        entry
    }

    pub(super) fn rules(self, policies: &Policies) -> Vec<Value> {
        match self {
            Self::Tolerations => vec![namespaced("", &["pods"], &CHANGES)],
            Self::NodeTokens | Self::ExemptTokens | Self::LabelledTokens => {
                vec![namespaced("", &["serviceaccounts/token"], &["CREATE"])]
            }
            Self::NodeRestriction => restricted(policies).collect(),
            Self::Agents => agents(policies),
            Self::DrainSafety => drain_safety(),
        }
    }

    /// The `namespaceSelector`, if the namespaces `exempt` and those with a label are exempt. Each
    /// namespace is selected by exactly one of the three webhooks for tokens; a selector cannot say
    /// "one or the other". The label is sound, because the node authorizer lets no node write a
    /// namespace.
    fn namespaces(self, exempt: &[String]) -> Value {
        const NAME: &str = "kubernetes.io/metadata.name";
        let select = |key: &str, operator: &str, values: &[String]| json!({"key": key, "operator": operator, "values": values});
        // The API server refuses an empty list of values, and gives every namespace its name.
        let named = match exempt {
            [] => json!({"key": NAME, "operator": "DoesNotExist"}),
            _ => select(NAME, "In", exempt),
        };
        let unnamed = (!exempt.is_empty()).then(|| select(NAME, "NotIn", exempt));
        let label = |operator| select("nodelife.dev/webhook", operator, &["exempt".to_owned()]);
        let expressions: Vec<Value> = match self {
            Self::ExemptTokens => vec![named],
            Self::LabelledTokens => unnamed.into_iter().chain([label("In")]).collect(),
            _ => unnamed.into_iter().chain([label("NotIn")]).collect(),
        };
        json!({"matchExpressions": expressions})
    }
}

/// An entry of `rules` for cluster-scoped resources in v1.
pub(super) fn cluster(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    rule(group, &["v1"], resources, operations, "Cluster")
}

/// An entry of `rules` for namespaced resources in v1.
pub(super) fn namespaced(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    rule(group, &["v1"], resources, operations, "Namespaced")
}

// In any version: these come in others than v1, before it or beside it, and the API server converts
// only between the versions that it serves.

pub(super) fn resource_slices() -> Value {
    let resources = &["resourceslices"];
    rule("resource.k8s.io", &["*"], resources, &WRITES, "Cluster")
}

pub(super) fn csi_nodes(operations: &[&str]) -> Value {
    let resources = &["csinodes", "csinodes/*"];
    rule("storage.k8s.io", &["*"], resources, operations, "Cluster")
}

fn pod_certificates() -> Value {
    let resources = &["podcertificaterequests", "podcertificaterequests/*"];
    rule(
        "certificates.k8s.io",
        &["*"],
        resources,
        &WRITES,
        "Namespaced",
    )
}

fn rule(
    group: &str,
    versions: &[&str],
    resources: &[&str],
    operations: &[&str],
    scope: &str,
) -> Value {
    json!({
        "apiGroups": [group],
        "apiVersions": versions,
        "resources": resources,
        "operations": operations,
        "scope": scope,
    })
}

/// The resources that NodeRestriction checks, without the rules that are off. For leases only the
/// creation, since the node authorizer checks the rest; a condition excludes a node's own lease.
fn restricted(policies: &Policies) -> impl Iterator<Item = Value> {
    let on = |rules: &[AdmissionRule]| rules.iter().any(|rule| policies.mode(*rule) != Mode::Off);
    let nodes = on(&[
        AdmissionRule::Nodes,
        AdmissionRule::SelfUncordon,
        AdmissionRule::RegistrationOwners,
        AdmissionRule::SelfDeletion,
        AdmissionRule::OwnLabels,
    ]);
    let pods = on(&[
        AdmissionRule::Pods,
        AdmissionRule::PodStatus,
        AdmissionRule::Evictions,
        AdmissionRule::PodStatusMetadata,
        AdmissionRule::MirrorPodLabels,
    ]);
    let mut core: Vec<&str> = Vec::new();
    if pods {
        core.extend(["pods", "pods/*"]);
    }
    if on(&[AdmissionRule::Claims]) {
        core.extend(["persistentvolumeclaims", "persistentvolumeclaims/*"]);
    }
    let csi = on(&[AdmissionRule::CsiNodes, AdmissionRule::CsiDrivers]);
    let signing_requests = &["certificatesigningrequests"];
    let events =
        |group| on(&[AdmissionRule::Events]).then(|| namespaced(group, &["events"], &CHANGES));
    let all = [
        nodes.then(|| cluster("", &["nodes", "nodes/*"], &WRITES)),
        (!core.is_empty()).then(|| namespaced("", &core, &WRITES)),
        on(&[AdmissionRule::Leases])
            .then(|| namespaced("coordination.k8s.io", &["leases"], &["CREATE"])),
        csi.then(|| csi_nodes(&WRITES)),
        on(&[AdmissionRule::ResourceSlices]).then(resource_slices),
        on(&[AdmissionRule::SigningRequests])
            .then(|| cluster("certificates.k8s.io", signing_requests, &["CREATE"])),
        on(&[AdmissionRule::PodCertificates]).then(pod_certificates),
        events(""),
        events("events.k8s.io"),
    ];
    all.into_iter().flatten()
}

/// Budgets, and what decides on the scales of their pods.
fn drain_safety() -> Vec<Value> {
    const WORKLOADS: &[&str] = &[
        "deployments",
        "deployments/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    vec![
        namespaced("policy", &["poddisruptionbudgets"], &CHANGES),
        namespaced("autoscaling", &["horizontalpodautoscalers"], &CHANGES),
        namespaced("apps", WORKLOADS, &CHANGES),
    ]
}

/// Nodes and pods, including connections to them, tokens, and the configured custom resources.
fn agents(policies: &Policies) -> Vec<Value> {
    let every = &["CREATE", "UPDATE", "DELETE", "CONNECT"];
    let mut rules = vec![
        cluster("", &["nodes", "nodes/*"], every),
        namespaced("", &["pods", "pods/*"], every),
        namespaced("", &["serviceaccounts/token"], &["CREATE"]),
    ];
    let named = policies
        .agents
        .iter()
        .flat_map(|agent| agent.resources.keys());
    let mut named: Vec<&str> = named.map(String::as_str).collect();
    named.sort_unstable();
    named.dedup();
    for kind in named {
        let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
        let resources = [resource.to_owned(), format!("{resource}/*")];
        let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
        rules.push(rule(group, &["*"], &resources, &WRITES, "*"));
    }
    rules
}

#[cfg(test)]
mod tests;
