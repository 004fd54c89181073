//! Kinds of objects that snapshot files may contain.

use nodelife_core::snapshot::{Snapshot, Source};
use serde::Deserialize as _;
use serde::de::value::{Error, StrDeserializer};

/// `kind` of a snapshot document.
pub(super) const KIND: &str = "Snapshot";

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectKind(pub(super) &'static str);

/// The kinds that can be read: API group, kind and source.
const OBJECT_KINDS: [(&str, &str, Source); 17] = [
    ("", "Node", Source::Nodes),
    ("", "Pod", Source::Pods),
    ("coordination.k8s.io", "Lease", Source::Leases),
    ("policy", "PodDisruptionBudget", Source::Budgets),
    ("apps", "Deployment", Source::Workloads),
    ("apps", "ReplicaSet", Source::Workloads),
    ("apps", "StatefulSet", Source::Workloads),
    ("apps", "DaemonSet", Source::Workloads),
    ("batch", "Job", Source::Workloads),
    ("", "ReplicationController", Source::Workloads),
    ("", "PersistentVolume", Source::Volumes),
    (
        "storage.k8s.io",
        "VolumeAttachment",
        Source::VolumeAttachments,
    ),
    ("storage.k8s.io", "CSINode", Source::CsiNodes),
    (
        "certificates.k8s.io",
        "CertificateSigningRequest",
        Source::SigningRequests,
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRole",
        Source::ClusterRoles,
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        Source::ClusterRoleBindings,
    ),
    ("", "Event", Source::Events),
];

impl ObjectKind {
    /// The kind of this name in the group of this version.
    pub(super) fn find(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        OBJECT_KINDS
            .iter()
            .find(|(g, k, _)| *g == group && *k == kind)
            .map(|(_, kind, _)| Self(kind))
    }

    /// The kind of the objects under this key of a snapshot; workloads are of several kinds.
    pub(super) fn of_list(key: &str) -> Option<Self> {
        // The key of a list is the name of its source.
        let of = Source::deserialize(StrDeserializer::<Error>::new(key)).ok()?;
        let mut kinds = OBJECT_KINDS.iter();
        let found = kinds.find(|(.., source)| *source == of && of != Source::Workloads);
        found.map(|(_, kind, _)| Self(kind))
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
    let mut kinds = OBJECT_KINDS.iter();
    let found = kinds.find(|(_, known, _)| *known == kind);
    found.map_or(Source::Workloads, |(.., source)| *source)
}

/// The list behind an option: there from now on.
pub(super) fn some<T>(list: &mut Option<Vec<T>>) -> &mut Vec<T> {
    list.get_or_insert_default()
}
