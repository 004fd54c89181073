//! The other programs that drain nodes: what each does with a pod, and when it gives up. `docs/drainers.md`
//! tells where that was read.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::disruption::{PROTECTIONS, protections};
use crate::format;
use crate::go_duration::time_limit;
use crate::object::{EmptyDir, Pod, Taint, WorkloadKind};
use crate::taint::untolerated;
use crate::workload::Presence;

const LOCAL_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const DAEMONSET_POD: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod";

const COMPLETION: &str = "it is waited for until it completes";
const DRAIN_LABEL: &str = "cluster.x-k8s.io/drain";
/// Kinds of controllers whose pods cluster-autoscaler takes for replicated.
const REPLICATED: [&str; 4] = ["ReplicationController", "Job", "ReplicaSet", "StatefulSet"];

/// The annotations of pods that are read here, beside [`PROTECTIONS`].
pub const ANNOTATIONS: [&str; 2] = [LOCAL_VOLUMES, DAEMONSET_POD];

crate::named! {
    /// A program that drains nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Drainer {
        /// The update of a managed node group of Amazon EKS.
        Eks = "eks",
        /// The upgrade of a node pool of Google Kubernetes Engine.
        Gke = "gke",
        /// The upgrade of a node pool of Azure Kubernetes Service.
        Aks = "aks",
        /// Karpenter's termination of a `NodeClaim`.
        Karpenter = "karpenter",
        /// The scale-down of cluster-autoscaler, with its default flags.
        ClusterAutoscaler = "cluster-autoscaler",
        /// The deletion of a Machine by Cluster API.
        ClusterApi = "cluster-api",
        /// `kubectl drain`.
        Kubectl = "kubectl",
    }
}

/// What becomes of a drain that has not ended when its time limit has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLimit {
    /// The drain has failed.
    Fails,
    /// The pods are deleted, whatever blocks their eviction.
    Deletes,
}

struct Facts {
    name: &'static str,
    /// Seconds for one node; none: for ever.
    limit: Option<u64>,
    /// Where its user sets another.
    set_by: Option<&'static str>,
    at_limit: AtLimit,
    /// The same as a sentence, after "then".
    then: &'static str,
}

impl Drainer {
    fn facts(self) -> Facts {
        match self {
            Self::Eks => Facts {
                name: "EKS",
                limit: Some(15 * 60),
                set_by: None,
                at_limit: AtLimit::Fails,
                then: "the update fails with PodEvictionFailure, or deletes the pods if it was forced",
            },
            Self::Gke => Facts {
                name: "GKE",
                limit: Some(60 * 60),
                set_by: None,
                at_limit: AtLimit::Deletes,
                then: "it deletes the pods that are left",
            },
            Self::Aks => Facts {
                name: "AKS",
                limit: Some(30 * 60),
                set_by: Some("the drain timeout of the node pool"),
                at_limit: AtLimit::Fails,
                then: "the upgrade fails",
            },
            Self::Karpenter => Facts {
                name: "Karpenter",
                limit: None,
                set_by: Some("terminationGracePeriod of the NodeClaim"),
                at_limit: AtLimit::Deletes,
                then: "it deletes the pods that are left",
            },
            Self::ClusterAutoscaler => Facts {
                name: "cluster-autoscaler",
                limit: None,
                set_by: None,
                at_limit: AtLimit::Fails,
                then: "it keeps the node",
            },
            Self::ClusterApi => Facts {
                name: "Cluster API",
                limit: None,
                set_by: Some("nodeDrainTimeoutSeconds of the Machine"),
                at_limit: AtLimit::Deletes,
                then: "it deletes the Machine with the pods that are left",
            },
            Self::Kubectl => Facts {
                name: "kubectl",
                limit: None,
                set_by: Some("--timeout"),
                at_limit: AtLimit::Fails,
                then: "it fails",
            },
        }
    }
}

/// A drainer with its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainBy {
    /// The program.
    pub drainer: Drainer,
    /// Seconds that it gives a node; absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_seconds: Option<u64>,
}

/// `NAME` or `NAME=DURATION`
impl FromStr for DrainBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, limit) = match text.split_once('=') {
            Some((word, limit)) => (word, Some(time_limit(limit)?.as_secs())),
            None => (text, None),
        };
        let mut all = Drainer::ALL.into_iter();
        let drainer = all.find(|one| one.as_str() == word).ok_or_else(|| {
            let words = Drainer::ALL.map(Drainer::as_str).join(", ");
            format!("expected one of {words}, and its time limit if it is another: eks=20m")
        })?;
        Ok(Self {
            drainer,
            limit_seconds: limit.or_else(|| drainer.facts().limit),
        })
    }
}

/// What it does with a node that is not drained in time.
impl fmt::Display for DrainBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts {
            name, set_by, then, ..
        } = self.drainer.facts();
        match (self.limit_text(), set_by) {
            (Some(limit), _) => write!(f, "{name} drains a node for {limit}, then {then}"),
            (None, Some(set_by)) => {
                write!(
                    f,
                    "{name} drains a node for ever, or for as long as {set_by} says; then {then}"
                )
            }
            (None, None) => write!(
                f,
                "{name} keeps a node as long as one of its pods may not go"
            ),
        }
    }
}

/// What a drainer does with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It leaves the pod on the node, and does not wait for it.
    Leaves,
    /// It evicts the pod, as its budgets allow, and waits until it is gone.
    Evicts,
    /// It does not evict the pod now, which changes by itself.
    Waits(String),
    /// It needs these flags of its own, for these reasons.
    Needs(Vec<(&'static str, &'static str)>),
    /// It does not evict the pod, unless somebody changes what this names.
    Refuses(String),
}

impl DrainBy {
    /// Its name in a sentence.
    pub fn name(&self) -> &'static str {
        self.drainer.facts().name
    }

    /// What happens when its time has passed.
    pub fn at_limit(&self) -> AtLimit {
        self.drainer.facts().at_limit
    }

    /// Its time limit in words.
    pub fn limit_text(&self) -> Option<String> {
        let seconds = i64::try_from(self.limit_seconds?).unwrap_or(i64::MAX);
        Some(format::duration(seconds))
    }

    /// What it does with the pod. `controller`: whether its controller exists. `guarded`: whether a budget selects
    /// it; what the budget allows is not asked here.
    pub fn fate(&self, pod: &Pod, controller: Presence, guarded: bool, now: Timestamp) -> Fate {
        match self.drainer {
            Drainer::Karpenter => karpenter(pod, now),
            Drainer::ClusterAutoscaler => cluster_autoscaler(pod, controller, guarded, now),
            Drainer::Kubectl => kubectl(pod, controller),
            _ if pod.is_mirror() => Fate::Leaves,
            _ if is_daemon(pod, controller) => Fate::Leaves,
            Drainer::ClusterApi => by_label(pod),
            Drainer::Eks | Drainer::Gke | Drainer::Aks => Fate::Evicts,
        }
    }
}

/// Whether it runs for a DaemonSet that exists.
fn is_daemon(pod: &Pod, controller: Presence) -> bool {
    pod.is_of(WorkloadKind::DaemonSet) && !pod.is_terminal() && controller != Presence::Absent
}

/// The filters of k8s.io/kubectl v0.37.2 (`pkg/drain/filters.go`).
fn kubectl(pod: &Pod, controller: Presence) -> Fate {
    if is_daemon(pod, controller) {
        let why = "a DaemonSet manages it, and it stays";
        return Fate::Needs(vec![("--ignore-daemonsets", why)]);
    }
    let orphaned = pod.is_of(WorkloadKind::DaemonSet) && !pod.is_terminal();
    if pod.is_mirror() && !orphaned {
        return Fate::Leaves;
    }
    let mut needs = Vec::new();
    if orphaned || pod.metadata.controller().is_none() {
        needs.push(("--force", "no controller would recreate it"));
    }
    let mut volumes = pod.spec.volumes.iter();
    if !pod.is_mirror() && volumes.any(|volume| volume.empty_dir.is_some()) {
        needs.push((
            "--delete-emptydir-data",
            "its emptyDir volumes would be lost",
        ));
    }
    if pod.is_terminal() || needs.is_empty() {
        return Fate::Evicts;
    }
    Fate::Needs(needs)
}

/// The label of the pod, as Cluster API's `drainLabelFilter` reads it (v1.14.2,
/// `core/reconcilers/machine/drain/filters.go`).
fn by_label(pod: &Pod) -> Fate {
    let label = pod.metadata.labels.get(DRAIN_LABEL);
    match label.map(|label| label.replacen('-', "", 1).to_ascii_lowercase()) {
        Some(word) if word == "waitcompleted" => Fate::Waits(COMPLETION.to_owned()),
        _ if label.is_some_and(|label| label.eq_ignore_ascii_case("skip")) => Fate::Leaves,
        _ => Fate::Evicts,
    }
}

/// `IsDrainable` and `IsEvictable` of Karpenter (v1.14.1, `pkg/utils/pod/scheduling.go`).
fn karpenter(pod: &Pod, now: Timestamp) -> Fate {
    let meta = &pod.metadata;
    let disrupted = [Taint::new("karpenter.sh/disrupted", "NoSchedule")];
    let stuck = |deleted| now.duration_since(deleted) > SignedDuration::from_mins(1);
    let mut owners = meta.owner_references.iter();
    if pod.is_terminal()
        || owners.any(|owner| owner.api_version == "v1" && owner.kind == "Node")
        || untolerated(&disrupted, &pod.spec.tolerations, &["NoSchedule"]).is_none()
        || meta.deletion_timestamp.is_some_and(stuck)
    {
        return Fate::Leaves;
    }
    let [(key, _), _] = PROTECTIONS;
    let protection = protections(pod, now).find(|(protection, _)| *protection == key);
    match protection.filter(|_| !pod.is_terminating()) {
        Some((key, "true")) => Fate::Refuses(format!("its annotation {key} is true")),
        Some((key, time)) => Fate::Waits(format!(
            "its annotation {key} keeps it for {time} after its start"
        )),
        None => Fate::Evicts,
    }
}

/// The default rules of cluster-autoscaler but that of the budgets, which the plan knows (release 1.37,
/// `cluster-autoscaler/simulator/drainability/rules`).
fn cluster_autoscaler(pod: &Pod, controller: Presence, guarded: bool, now: Timestamp) -> Fate {
    let meta = &pod.metadata;
    let owner = meta.controller();
    let kind = owner.map_or("", |owner| owner.kind.as_str());
    let annotation = |key| meta.annotations.get(key).map_or("", |value| value.as_str());
    let is_overdue = |deleted: Timestamp| {
        let grace = pod.spec.termination_grace_period_seconds.unwrap_or(30);
        now.duration_since(deleted) > SignedDuration::from_secs(grace.saturating_add(30))
    };
    if pod.is_mirror() || meta.deletion_timestamp.is_some_and(is_overdue) {
        return Fate::Leaves;
    }
    let as_daemon = annotation(DAEMONSET_POD) == "true";
    // It looks for these among those of Kubernetes, whatever their group.
    let foreign = ["ReplicationController", "Job", "ReplicaSet"].contains(&kind)
        && owner.and_then(WorkloadKind::of).is_none();
    let is_sought = !as_daemon || ["ReplicationController", "DaemonSet"].contains(&kind);
    if is_sought && (foreign || controller == Presence::Absent) {
        return Fate::Refuses(format!("its {kind} does not exist"));
    }
    let [_, (safe_to_evict, _)] = PROTECTIONS;
    let safe = annotation(safe_to_evict);
    // As `IsPodTerminal` has it.
    let (phase, restarts) = (
        pod.status.phase.as_str(),
        pod.spec.restart_policy.is_empty(),
    );
    let is_terminal = phase == "Failed" || phase == "Succeeded" && !restarts;
    if kind == "DaemonSet" || as_daemon || safe == "true" || is_terminal {
        return Fate::Evicts;
    }
    if safe == "on-completion" {
        return Fate::Waits(COMPLETION.to_owned());
    }
    if owner.is_none() {
        return Fate::Refuses("no controller would recreate it".to_owned());
    }
    if !REPLICATED.contains(&kind) {
        let known = format::join(REPLICATED, ", ");
        return Fate::Refuses(format!("its controller is of none of the kinds {known}"));
    }
    if meta.namespace == "kube-system" && !guarded {
        let old = |created| now.duration_since(created) > SignedDuration::from_hours(1);
        return match meta.creation_timestamp {
            Some(created) if old(created) => Fate::Evicts,
            _ => Fate::Waits(
                "no budget selects it, and it is in kube-system, for less than an hour".into(),
            ),
        };
    }
    if safe == "false" {
        return Fate::Refuses(format!("its annotation {safe_to_evict} is false"));
    }
    let mut volumes = pod.spec.volumes.iter();
    let may_go: Vec<&str> = annotation(LOCAL_VOLUMES).split(',').collect();
    let local = volumes.find(|volume| {
        let on_disk = |dir: &EmptyDir| dir.medium != "Memory";
        let local = volume.host_path.is_some() || volume.empty_dir.as_ref().is_some_and(on_disk);
        local && !may_go.contains(&volume.name.as_str())
    });
    match local {
        Some(volume) => Fate::Refuses(format!(
            "its volume {} is local, and its annotation {LOCAL_VOLUMES} does not name it",
            volume.name
        )),
        None => Fate::Evicts,
    }
}
