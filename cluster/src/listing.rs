//! Resources that nodelife lists and watches, with their kinds and protobuf fields.

use std::marker::PhantomData;

use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::object::{
    Autoscaler, Budget, ClusterRole, ClusterRoleBinding, CsiNode, Event, Lease, Meta, Node,
    PersistentVolume, Pod, PodTemplateMeta, SigningRequest, VolumeAttachment, Workload,
    WorkloadKind, WorkloadSpec, WorkloadStatus,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::resource::Resource;
use crate::wire::schema::{self, Message};
use crate::wire::{Sharing, trim_meta, trim_pod};

pub trait Object: Serialize + DeserializeOwned + Clone + Send + Sync + Sized + 'static {
    /// The shape of one item; the type itself unless it serves several kinds.
    type Item: DeserializeOwned + Send;

    fn from_item(item: Self::Item, kind: &'static str) -> Self;

    fn metadata(&self) -> &Meta;

    /// An object of which nothing else could be read: enough to tell that it is gone.
    fn of_metadata(metadata: Meta, kind: &'static str) -> Self;

    fn trim(&mut self);

    /// Trims it, and lets it share its strings and collections with others of its list.
    fn share(&mut self, sharing: &mut Sharing);
}

#[derive(Debug)]
pub struct Listing<T> {
    pub resource: Resource,
    pub kind: &'static str,
    pub namespace: Option<&'static str>,
    pub(crate) message: &'static Message,
    /// Why a part of an object does not read, if the object is read without it.
    pub(crate) unreadable_part: fn(&T) -> Option<&str>,
    object: PhantomData<fn() -> T>,
}

impl<T> Listing<T> {
    const fn new(resource: Resource, kind: &'static str, message: &'static Message) -> Self {
        Self {
            resource,
            kind,
            namespace: None,
            message,
            unreadable_part: |_| None,
            object: PhantomData,
        }
    }
}

pub static NODES: Listing<Node> = Listing::new(crate::resource::NODES, "Node", &schema::NODE);

pub static PODS: Listing<Pod> = Listing::new(crate::resource::PODS, "Pod", &schema::POD);

/// Leases of `kube-node-lease`: the nodes' heartbeats.
pub static LEASES: Listing<Lease> = Listing {
    namespace: Some("kube-node-lease"),
    ..Listing::new(
        Resource::grouped("coordination.k8s.io", "v1", "leases"),
        "Lease",
        &schema::LEASE,
    )
};

/// Leases of drains; select [`LOCK_LABEL`](nodelife_core::node_marks::LOCK_LABEL).
pub static DRAIN_LOCKS: Listing<Lease> = Listing {
    namespace: Some(nodelife_core::node_marks::LOCK_NAMESPACE),
    ..Listing::new(LEASES.resource, LEASES.kind, &schema::LEASE)
};

pub static ALL_LEASES: Listing<Lease> = Listing::new(LEASES.resource, LEASES.kind, &schema::LEASE);

pub static BUDGETS: Listing<Budget> = Listing::new(
    Resource::grouped("policy", "v1", "poddisruptionbudgets"),
    "PodDisruptionBudget",
    &schema::BUDGET,
);

const fn apps<T>(
    plural: &'static str,
    kind: &'static str,
    message: &'static Message,
) -> Listing<T> {
    Listing::new(Resource::grouped("apps", "v1", plural), kind, message)
}

pub static WORKLOADS: [Listing<Workload>; 6] = [
    apps("deployments", "Deployment", &schema::DEPLOYMENT),
    apps("replicasets", "ReplicaSet", &schema::REPLICA_SET),
    apps("statefulsets", "StatefulSet", &schema::STATEFUL_SET),
    apps("daemonsets", "DaemonSet", &schema::DAEMON_SET),
    Listing::new(
        Resource::grouped("batch", "v1", "jobs"),
        "Job",
        &schema::JOB,
    ),
    Listing::new(
        Resource::core("replicationcontrollers"),
        "ReplicationController",
        &schema::REPLICATION_CONTROLLER,
    ),
];

pub static VOLUMES: Listing<PersistentVolume> = Listing::new(
    Resource::core("persistentvolumes"),
    "PersistentVolume",
    &schema::PERSISTENT_VOLUME,
);

pub static VOLUME_ATTACHMENTS: Listing<VolumeAttachment> = Listing::new(
    Resource::grouped("storage.k8s.io", "v1", "volumeattachments"),
    "VolumeAttachment",
    &schema::VOLUME_ATTACHMENT,
);

pub static CSI_NODES: Listing<CsiNode> = Listing::new(
    Resource::grouped("storage.k8s.io", "v1", "csinodes"),
    "CSINode",
    &schema::CSI_NODE,
);

pub static SIGNING_REQUESTS: Listing<SigningRequest> = Listing::new(
    Resource::grouped("certificates.k8s.io", "v1", "certificatesigningrequests"),
    "CertificateSigningRequest",
    &schema::SIGNING_REQUEST,
);

pub static CLUSTER_ROLES: Listing<ClusterRole> = Listing::new(
    Resource::grouped("rbac.authorization.k8s.io", "v1", "clusterroles"),
    "ClusterRole",
    &schema::CLUSTER_ROLE,
);

pub static CLUSTER_ROLE_BINDINGS: Listing<ClusterRoleBinding> = Listing::new(
    Resource::grouped("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    "ClusterRoleBinding",
    &schema::CLUSTER_ROLE_BINDING,
);

/// Custom resources come in JSON alone.
pub static NODE_MAINTENANCES: Listing<NodeMaintenance> = Listing {
    unreadable_part: NodeMaintenance::unreadable,
    ..Listing::new(
        crate::resource::NODE_MAINTENANCES,
        nodelife_core::node_maintenance::KIND,
        &[],
    )
};

pub static AUTOSCALERS: Listing<Autoscaler> = Listing::new(
    Resource::grouped("autoscaling", "v2", "horizontalpodautoscalers"),
    "HorizontalPodAutoscaler",
    &schema::AUTOSCALER,
);

/// Events; select `involvedObject.kind=Node`, there are many.
pub static EVENTS: Listing<Event> = Listing::new(crate::resource::EVENTS, "Event", &schema::EVENT);

macro_rules! object {
    ($kind:ty, $trim:expr, $share:expr) => {
        impl Object for $kind {
            type Item = Self;

            fn from_item(item: Self, _kind: &'static str) -> Self {
                item
            }

            fn metadata(&self) -> &Meta {
                &self.metadata
            }

            fn of_metadata(metadata: Meta, _kind: &'static str) -> Self {
                Self {
                    metadata,
                    ..Self::default()
                }
            }

            fn trim(&mut self) {
                let trim: fn(&mut Self) = $trim;
                trim(self);
            }

            fn share(&mut self, sharing: &mut Sharing) {
                let share: fn(&mut Sharing, &mut Self) = $share;
                share(sharing, self);
            }
        }
    };
    ($($kind:ty),* $(,)?) => {$(
        object!(
            $kind,
            |object| trim_meta(&mut object.metadata),
            |sharing, object| sharing.meta(&mut object.metadata)
        );
    )*};
}

object!(Node, |node| trim_meta(&mut node.metadata), Sharing::node);
object!(Pod, trim_pod, Sharing::pod);
object!(
    Lease,
    Autoscaler,
    Budget,
    PersistentVolume,
    VolumeAttachment,
    CsiNode,
    SigningRequest,
    ClusterRole,
    ClusterRoleBinding,
    Event,
    NodeMaintenance,
);

pub fn workloads(kind: WorkloadKind) -> Option<&'static Listing<Workload>> {
    let mut all = WORKLOADS.iter();
    all.find(|listing| listing.kind == kind.as_str())
}

/// A controller as it stands in a list: there, items have no kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadItem {
    metadata: Meta,
    spec: WorkloadSpec,
    status: Option<WorkloadStatus>,
}

impl Object for Workload {
    type Item = WorkloadItem;

    fn of_metadata(metadata: Meta, kind: &'static str) -> Self {
        let item = WorkloadItem {
            metadata,
            ..WorkloadItem::default()
        };
        Self::from_item(item, kind)
    }

    fn from_item(item: WorkloadItem, kind: &'static str) -> Self {
        let mut known = WorkloadKind::ALL.into_iter();
        let known = known.find(|known| known.as_str() == kind);
        let kind = known.unwrap_or(WorkloadKind::Deployment);
        let mut spec = item.spec;
        if kind == WorkloadKind::ReplicationController {
            // A plain map: read as a selector it would be an empty one, and take everything.
            spec.selector = None;
        }
        Self {
            kind,
            metadata: item.metadata,
            spec,
            status: item.status.unwrap_or_default(),
        }
    }

    fn metadata(&self) -> &Meta {
        &self.metadata
    }

    fn trim(&mut self) {
        trim_meta(&mut self.metadata);
        if !self.metadata.uid.is_empty() {
            self.spec.template.metadata = PodTemplateMeta::default();
        }
    }

    fn share(&mut self, sharing: &mut Sharing) {
        self.trim();
        sharing.meta(&mut self.metadata);
    }
}
