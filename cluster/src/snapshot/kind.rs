//! Kinds of objects that snapshot files may contain.

use nodelife_core::snapshot::{Snapshot, Source};

/// `kind` of a snapshot document.
pub(super) const KIND: &str = "Snapshot";

/// A kind that can be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectKind(&'static str);

/// The kinds that can be read, with their API groups.
const OBJECT_KINDS: [(&str, &str); 17] = [
    ("", "Node"),
    ("", "Pod"),
    ("coordination.k8s.io", "Lease"),
    ("policy", "PodDisruptionBudget"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
    ("", "ReplicationController"),
    ("", "PersistentVolume"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "CSINode"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("", "Event"),
];

impl ObjectKind {
    /// Kind of one object.
    pub(super) fn name(self) -> &'static str {
        self.0
    }

    /// The kind of this name in the group of this version.
    pub(super) fn find(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        OBJECT_KINDS
            .iter()
            .find(|(g, k)| *g == group && *k == kind)
            .map(|(_, kind)| Self(kind))
    }

    /// The kind of the objects under this key of a snapshot; workloads are of several kinds.
    pub(super) fn of_list(key: &str) -> Option<Self> {
        let kind = match key {
            "nodes" => "Node",
            "pods" => "Pod",
            "leases" => "Lease",
            "budgets" => "PodDisruptionBudget",
            "volumes" => "PersistentVolume",
            "volumeAttachments" => "VolumeAttachment",
            "csiNodes" => "CSINode",
            "signingRequests" => "CertificateSigningRequest",
            "clusterRoles" => "ClusterRole",
            "clusterRoleBindings" => "ClusterRoleBinding",
            "events" => "Event",
            _ => return None,
        };
        Some(Self(kind))
    }

    /// A list of this kind is there, empty or not: marks those that may be absent.
    pub(super) fn mark(self, snapshot: &mut Snapshot) {
        match self.0 {
            "PersistentVolume" => drop(some(&mut snapshot.volumes)),
            "VolumeAttachment" => drop(some(&mut snapshot.volume_attachments)),
            "CSINode" => drop(some(&mut snapshot.csi_nodes)),
            "CertificateSigningRequest" => drop(some(&mut snapshot.signing_requests)),
            "ClusterRole" => drop(some(&mut snapshot.cluster_roles)),
            "ClusterRoleBinding" => drop(some(&mut snapshot.cluster_role_bindings)),
            "Event" => drop(some(&mut snapshot.events)),
            _ => {}
        }
    }
}

/// The source that a kind belongs to.
pub(super) fn source_of(kind: &str) -> Source {
    match kind {
        "Node" => Source::Nodes,
        "Pod" => Source::Pods,
        "Lease" => Source::Leases,
        "PodDisruptionBudget" => Source::Budgets,
        "PersistentVolume" => Source::Volumes,
        "VolumeAttachment" => Source::VolumeAttachments,
        "CSINode" => Source::CsiNodes,
        "CertificateSigningRequest" => Source::SigningRequests,
        "ClusterRole" => Source::ClusterRoles,
        "ClusterRoleBinding" => Source::ClusterRoleBindings,
        "Event" => Source::Events,
        _ => Source::Workloads,
    }
}

/// The list behind an option: there from now on.
pub(super) fn some<T>(list: &mut Option<Vec<T>>) -> &mut Vec<T> {
    list.get_or_insert_default()
}
