//! Kubernetes objects, cut down to the fields that nodelife reads.
//!
//! The shapes and field names are those of the Kubernetes API (v1.36.3), so that
//! one type serves a live cluster, a snapshot file and a test. A field that may be
//! absent is an `Option`, or empty where Kubernetes treats the two alike; what is
//! not listed here is skipped while reading.
//!
//! Quantities stay the text that the API server sent ([`ResourceList`]): a value
//! that does not parse must not make the object unreadable, but show in a finding.

mod access;
mod affinity;
mod budget;
mod event;
mod lease;
mod meta;
mod node;
mod pod;
mod shared;
mod status;
mod volume;
mod workload;

pub use access::{
    ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, RoleSubject, SigningRequest,
    SigningRequestSpec, SigningRequestStatus,
};
pub use affinity::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm,
};
pub use budget::{
    Budget, BudgetSpec, BudgetStatus, Condition, IntOrString, LabelSelector, Requirement,
    UnhealthyPodEvictionPolicy,
};
pub use event::{Event, ObjectRef};
pub use lease::{Lease, LeaseSpec};
pub(crate) use meta::is_default;
pub use meta::{Annotations, Labels, Meta, OwnerReference, nullable};
pub use node::{
    AttachedVolume, DaemonEndpoint, DaemonEndpoints, Node, NodeAddress, NodeCondition, NodeInfo,
    NodeSpec, NodeStatus, NodeSwap, Taint,
};
pub use pod::{
    ClaimSource, Container, ContainerResources, EmptyDir, HostPath, HostPort, MIRROR_ANNOTATION,
    Pod, PodCondition, PodSpec, PodStatus, SYSTEM_CRITICAL, SpreadConstraint, Toleration, Volume,
};
pub use shared::{Pool, Shared};
pub use status::{Status, StatusCause, StatusDetails, StatusMeta};
pub use volume::{
    ClaimRef, CsiDriver, CsiNode, CsiNodeSpec, PersistentVolume, PersistentVolumeSpec,
    VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus,
    VolumeCount, VolumeError, VolumeNodeAffinity, claims,
};
pub use workload::{
    Autoscaler, AutoscalerSpec, PodFailureRule, PodTemplate, PodTemplateMeta, PodTemplateSpec,
    ScaleTarget, Workload, WorkloadKind, WorkloadSpec, WorkloadStatus,
};

use std::collections::BTreeMap;

use crate::text::Str;

/// Amounts by resource name, as the API server wrote them (`"16078024Ki"`).
pub type ResourceList = BTreeMap<Str, Str>;
