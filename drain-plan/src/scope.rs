//! `PlanScope`: the part of a plan that an approval covers, and its digest.
//!
//! An approval says: the pods of these workloads leave these nodes, with these settings. The scope
//! therefore has the nodes, the [`EvictionSettings`], and each workload that loses pods with what is
//! lost with them. It has no single pods of workloads, no waves, reasons or times, so that a pod that
//! its controller has replaced, a restart or a heartbeat change nothing. Of the budgets it has only
//! those that may be bypassed: all others hold as they are at the time of each eviction. It has no
//! pods that stay, so that it covers a drain that removes less than its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use nodelife_core::format::join;
use nodelife_core::object::{OwnerReference, Pod};
use nodelife_core::text::Str;

/// The settings of a drain that an approval covers: how pods are evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EvictionSettings {
    /// Whether pods are deleted instead of evicted, bypassing their budgets.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_eviction: bool,
    /// Seconds that each pod gets to stop; absent: the pod's own grace period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<u32>,
    /// Budgets that may be bypassed, as namespace/name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub bypass_pdb: BTreeSet<Str>,
    /// After how many seconds without an eviction they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_after_seconds: Option<u64>,
    /// The reaction to a budget that can never allow to evict a pod; absent: its node is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_impossible: Option<Str>,
    /// How Deployments get one more pod; absent: they get none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surge: Option<Str>,
}

impl EvictionSettings {
    /// Each setting with its value; those of no effect are left out.
    fn settings(&self) -> BTreeMap<String, String> {
        let Ok(Value::Object(all)) = serde_json::to_value(self) else {
            return BTreeMap::new();
        };
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        all.into_iter()
            .map(|(name, value)| (name, text(value)))
            .collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanScope {
    nodes: BTreeSet<Str>,
    eviction: EvictionSettings,
    /// The losses with the pods of each workload that loses some.
    removed: BTreeMap<Removed, BTreeSet<Str>>,
}

/// A workload as `namespace/Kind/name`; a pod without a controller has `@uid`: no other is like it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Removed(String);

impl Removed {
    fn new(namespace: &str, workload: &str, uid: &str) -> Self {
        let uid = if workload.starts_with("Pod/") {
            format!("@{uid}")
        } else {
            String::new()
        };
        Self(format!("{namespace}/{workload}{uid}"))
    }
}

impl fmt::Display for Removed {
    /// For people, who know a pod by its name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.split('@').next().unwrap_or_default())
    }
}

/// `sha256:` and the digest, as a NodeMaintenance has that of a plan.
pub(crate) fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let digest = digest.iter().map(|byte| format!("{byte:02x}"));
    format!("sha256:{}", join(digest, ""))
}

impl PlanScope {
    pub fn new(nodes: impl IntoIterator<Item = Str>, eviction: EvictionSettings) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            eviction,
            removed: BTreeMap::new(),
        }
    }

    /// Adds a pod that is removed. `workload`: that of [`workload_of`].
    pub(super) fn add<'a>(
        &mut self,
        (namespace, workload, uid): (&str, &str, &str),
        losses: impl IntoIterator<Item = &'a str>,
    ) {
        let removed = Removed::new(namespace, workload, uid);
        let lost = self.removed.entry(removed).or_default();
        lost.extend(losses.into_iter().map(Str::from));
    }

    pub fn covers(&self, pod: &Pod, losses: &BTreeSet<&'static str>) -> bool {
        let meta = &pod.metadata;
        let removed = Removed::new(&meta.namespace, &workload_of(pod), &meta.uid);
        self.removed
            .get(&removed)
            .is_some_and(|lost| losses.iter().all(|loss| lost.contains(*loss)))
    }

    /// `sha256:` and the digest of the scope. Two plans with the same digest do the same.
    pub fn digest(&self) -> String {
        // JSON, so that no name can imitate another entry.
        let text = json!([
            "nodelife.dev/v1alpha1 DrainPlan",
            self.nodes,
            self.eviction.settings(),
            self.removed,
        ])
        .to_string();
        sha256(&text)
    }

    /// Each workload that loses pods, with what is lost: `namespace/Kind/name emptyDir,protected`.
    pub fn entries(&self) -> impl Iterator<Item = String> {
        self.removed.iter().map(|(removed, lost)| {
            let space = if lost.is_empty() { "" } else { " " };
            format!("{}{space}{}", removed.0, join(lost, ","))
        })
    }

    #[must_use]
    pub fn with_entries<'a>(mut self, entries: impl IntoIterator<Item = &'a str>) -> Self {
        for entry in entries {
            let (removed, lost) = entry.split_once(' ').unwrap_or((entry, ""));
            let lost = lost.split(',').filter(|loss| !loss.is_empty());
            let lost = lost.map(Str::from).collect();
            self.removed.insert(Removed(removed.to_owned()), lost);
        }
        self
    }

    /// The differences that exceed the approved plan, in one line each; empty if it covers this one.
    pub fn beyond(&self, approved: &Self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .nodes
            .difference(&approved.nodes)
            .map(|node| format!("node/{node} is not drained by the approved plan"))
            .collect();
        let (ours, theirs) = (self.eviction.settings(), approved.eviction.settings());
        let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        for name in names {
            let value = |of: &BTreeMap<String, String>| {
                let value = of.get(name).map_or("not set", String::as_str);
                value.to_owned()
            };
            if ours.get(name) != theirs.get(name) {
                let (ours, theirs) = (value(&ours), value(&theirs));
                lines.push(format!("{name} is {ours}; in the approved plan: {theirs}"));
            }
        }
        for (removed, lost) in &self.removed {
            let Some(known) = approved.removed.get(removed) else {
                lines.push(format!("{removed} is not removed by the approved plan"));
                continue;
            };
            let more = join(lost.difference(known), ", ");
            if !more.is_empty() {
                lines.push(format!(
                    "{removed} loses more than in the approved plan: {more}"
                ));
            }
        }
        lines
    }
}

/// A plan that was saved as a document, as far as an approval goes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedPlan {
    api_version: Str,
    kind: Str,
    nodes: Vec<Str>,
    digest: String,
    #[serde(default)]
    eviction: EvictionSettings,
    pods: Vec<SavedPod>,
}

#[derive(Clone, Debug, Deserialize)]
struct SavedPod {
    namespace: Str,
    uid: Str,
    workload: Str,
    removed: bool,
    #[serde(default)]
    losses: Vec<Str>,
}

impl SavedPlan {
    pub fn scope(&self) -> Result<PlanScope, String> {
        if self.kind != "DrainPlan" || self.api_version != nodelife_core::API_VERSION {
            return Err(format!(
                "it is a {} of {}, not a DrainPlan of {}",
                self.kind,
                self.api_version,
                nodelife_core::API_VERSION
            ));
        }
        let mut scope = PlanScope::new(self.nodes.iter().cloned(), self.eviction.clone());
        for pod in self.pods.iter().filter(|pod| pod.removed) {
            let which = (&*pod.namespace, &*pod.workload, &*pod.uid);
            scope.add(which, pod.losses.iter().map(Str::as_str));
        }
        if scope.digest() != self.digest {
            return Err(
                "its digest is that of another plan: it was changed, or made by another version"
                    .to_owned(),
            );
        }
        Ok(scope)
    }
}

/// The workload that a pod belongs to, as `kubectl` names objects: `StatefulSet/db`,
/// `Cluster.postgresql.cnpg.io/pg`. A ReplicaSet of a Deployment is the Deployment, so that a rollout
/// changes nothing; a pod without a controller is itself. So is one whose controller cannot exist: whoever
/// makes a pod writes what he likes there, such as a text that reads as two workloads.
pub(super) fn workload_of(pod: &Pod) -> String {
    let owner = pod.metadata.controller();
    let Some(owner) = owner.filter(|owner| can_exist(owner)) else {
        return format!("Pod/{}", pod.metadata.name);
    };
    if let Some(name) = pod.deployment().filter(|name| !name.is_empty()) {
        return ["Deployment/", name].concat();
    }
    let group = owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    let group = if matches!(group, "" | "apps" | "batch") {
        String::new()
    } else {
        format!(".{group}")
    };
    [&*owner.kind, &*group, "/", &*owner.name].concat()
}

/// Whether kind and name are those of an object (apimachinery pkg/api/validation/path/name.go).
fn can_exist(owner: &OwnerReference) -> bool {
    let is_name = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '%' | '@' | ',');
    let is_kind = |c: char| c.is_ascii_alphanumeric();
    let is_version = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/');
    owner.kind.chars().all(is_kind)
        && owner.name.chars().all(is_name)
        && owner.api_version.chars().all(is_version)
}

#[cfg(test)]
mod tests;
