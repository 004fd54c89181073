//! Index of workloads by UID, to find the controller of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::disruption::Autoscalers;
use crate::object::{OwnerReference, Pod, Workload, WorkloadKind};
use crate::snapshot::{Snapshot, Source};
use crate::text::Str;

/// The labels of the pods of a `LeaderWorkerSet`: its name, and the number of the group
/// (`api/leaderworkerset/v1/leaderworkerset_types.go` of sigs.k8s.io/lws, v0.7.0).
pub const GROUP_SET: &str = "leaderworkerset.sigs.k8s.io/name";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// Whether its controller restarts the pods of a group as one.
pub fn is_of_group(pod: &Pod) -> bool {
    pod.metadata.labels.contains_key(GROUP_SET)
}

/// Whether a controller is still there, by its UID: a name may have been taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    /// The kind was read in full, and no object of this UID is there.
    Absent,
    /// The kind was not read: a custom resource, or a right that is missing.
    Unknown,
}

#[derive(Clone, Debug, Default)]
pub struct Workloads {
    by_uid: BTreeMap<Str, Workload>,
    listed: BTreeSet<WorkloadKind>,
    checked: BTreeMap<Str, Presence>,
    /// What may change their scale; nothing where it was not read.
    pub autoscalers: Autoscalers,
}

impl Workloads {
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut workloads = Self {
            autoscalers: Autoscalers::of(snapshot.autoscalers.iter().flatten()),
            ..Self::default()
        };
        if !snapshot.missing.contains_key(&Source::Workloads) {
            workloads.add_listed(WorkloadKind::ALL, snapshot.workloads.iter().cloned());
        }
        workloads
    }

    /// Adds what complete lists of `kinds` said.
    pub fn add_listed(
        &mut self,
        kinds: impl IntoIterator<Item = WorkloadKind>,
        workloads: impl IntoIterator<Item = Workload>,
    ) {
        self.listed.extend(kinds);
        for workload in workloads {
            self.update(workload);
        }
    }

    pub fn update(&mut self, workload: Workload) {
        self.by_uid.insert(workload.metadata.uid.clone(), workload);
    }

    pub fn remove(&mut self, uid: &str) {
        self.by_uid.remove(uid);
    }

    pub fn add_checked(&mut self, uid: Str, presence: Presence) {
        self.checked.insert(uid, presence);
    }

    pub fn is_checked(&self, uid: &str) -> bool {
        self.checked.contains_key(uid)
    }

    pub fn presence(&self, reference: &OwnerReference) -> Presence {
        if let Some(checked) = self.checked.get(reference.uid.as_str()) {
            return *checked;
        }
        if self.by_uid.contains_key(reference.uid.as_str()) {
            return Presence::Present;
        }
        match WorkloadKind::of(reference) {
            Some(kind) if self.listed.contains(&kind) => Presence::Absent,
            _ => Presence::Unknown,
        }
    }

    pub fn workload(&self, uid: &str) -> Option<&Workload> {
        self.by_uid.get(uid)
    }

    /// The controller whose Ready pods are counted before this pod goes: for a `LeaderWorkerSet`, whose groups
    /// restart as one, the StatefulSet of their leaders, which has its name.
    pub fn counted(&self, pod: &Pod) -> Option<&Workload> {
        let own = self.workload(&pod.metadata.controller()?.uid);
        let Some(set) = pod.metadata.labels.get(GROUP_SET) else {
            return own;
        };
        let namespace = &pod.metadata.namespace;
        let leaders = self.by_uid.values().find(|one| {
            let (kind, meta) = (one.kind, &one.metadata);
            kind == WorkloadKind::StatefulSet && meta.namespace == *namespace && meta.name == *set
        });
        leaders.or(own)
    }

    /// The controller that decides how many pods there are: a Deployment rather
    /// than its ReplicaSet.
    ///
    /// Mirrors `getPodDeployment` and `getPodReplicaSet` of
    /// pkg/controller/disruption/disruption.go (v1.36.3).
    pub fn scaler(&self, pod: &Pod) -> Option<&Workload> {
        let direct = self.workload(&pod.metadata.controller()?.uid)?;
        let above = direct
            .metadata
            .controller()
            .filter(|_| direct.kind == WorkloadKind::ReplicaSet)
            .and_then(|reference| self.workload(&reference.uid))
            .filter(|above| above.kind == WorkloadKind::Deployment);
        Some(above.unwrap_or(direct))
    }
}

impl Pod {
    /// The Deployment of its ReplicaSet, which is named after it and the pods' label (v1.36.3,
    /// `pkg/controller/deployment/sync.go`, `getNewReplicaSet`).
    pub fn deployment(&self) -> Option<&str> {
        let owner = self.metadata.controller()?;
        let hash = self.metadata.labels.get("pod-template-hash")?;
        let name = owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
        (owner.kind == "ReplicaSet").then_some(name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadKey {
    pub namespace: Str,
    pub kind: WorkloadKind,
    pub name: Str,
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.kind, self.name)
    }
}

impl Workload {
    pub fn key(&self) -> WorkloadKey {
        WorkloadKey {
            namespace: self.metadata.namespace.clone(),
            kind: self.kind,
            name: self.metadata.name.clone(),
        }
    }

    /// `spec.replicas`: the API server writes 1 where a manifest says nothing.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl WorkloadKind {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::ReplicaSet | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::Job => "batch/v1",
            Self::ReplicationController => "v1",
        }
    }

    /// The kind that a reference names; none for custom resources, even those
    /// that have the name of a kind of Kubernetes in another API group.
    pub fn of(reference: &OwnerReference) -> Option<Self> {
        let (group, _) = reference.api_version.split_once('/').unwrap_or_default();
        match (group, &*reference.kind) {
            ("apps" | "extensions", "Deployment") => Some(Self::Deployment),
            ("apps" | "extensions", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps", "StatefulSet") => Some(Self::StatefulSet),
            ("apps" | "extensions", "DaemonSet") => Some(Self::DaemonSet),
            ("batch", "Job") => Some(Self::Job),
            ("", "ReplicationController") => Some(Self::ReplicationController),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, kind: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "web".into(),
            uid: uid.into(),
            controller: true,
        }
    }

    #[test]
    fn a_kind_of_another_group_is_custom() {
        assert_eq!(
            WorkloadKind::of(&reference("apps.kruise.io/v1", "DaemonSet", "u")),
            None
        );
        assert_eq!(
            WorkloadKind::of(&reference("apps/v1", "DaemonSet", "u")),
            Some(WorkloadKind::DaemonSet)
        );
    }

    #[test]
    fn a_controller_is_missing_only_where_its_kind_was_read() {
        let mut owners = Workloads::default();
        let replica_set = reference("apps/v1", "ReplicaSet", "gone");
        assert_eq!(owners.presence(&replica_set), Presence::Unknown);
        owners.add_listed([WorkloadKind::ReplicaSet], []);
        assert_eq!(owners.presence(&replica_set), Presence::Absent);
        assert_eq!(
            owners.presence(&reference("example.com/v1", "Thing", "x")),
            Presence::Unknown
        );
        owners.add_checked("gone".into(), Presence::Present);
        assert_eq!(owners.presence(&replica_set), Presence::Present);
    }
}
