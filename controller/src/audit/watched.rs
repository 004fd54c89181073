//! [`Watched`]: the resources that the audit watches, and where a snapshot has them.

use std::cmp::Ordering;

use nodelife_cluster::listing::{self, Listing, Object};
use nodelife_core::object::{
    Budget, ClusterRole, ClusterRoleBinding, CsiNode, Event, Lease, Meta, Node, PersistentVolume,
    Pod, SigningRequest, VolumeAttachment, Workload,
};
use nodelife_core::snapshot::{Snapshot, Source};

/// One resource, with its place in a snapshot.
pub(super) struct Watched<T: 'static> {
    pub(super) listing: &'static Listing<T>,
    pub(super) source: Source,
    list: fn(&mut Snapshot) -> &mut Vec<T>,
    /// The place of the kind among those of the list, if it has several.
    pub(super) rank: usize,
    rank_of: fn(&T) -> usize,
}

impl<T: Object> Watched<T> {
    const fn new(
        listing: &'static Listing<T>,
        source: Source,
        list: fn(&mut Snapshot) -> &mut Vec<T>,
    ) -> Self {
        Self {
            listing,
            source,
            list,
            rank: 0,
            rank_of: |_| 0,
        }
    }

    /// The list of the snapshot.
    pub(super) fn list<'a>(&self, snapshot: &'a mut Snapshot) -> &'a mut Vec<T> {
        (self.list)(snapshot)
    }

    /// The rank of an object of the list.
    pub(super) fn rank_of(&self, object: &T) -> usize {
        (self.rank_of)(object)
    }

    /// By kind, namespace and name, in the order of the keys in etcd, which lists have.
    pub(super) fn compare(&self, a: &T, b: &T) -> Ordering {
        let kinds = self.rank_of(a).cmp(&self.rank_of(b));
        kinds.then_with(|| compare_places(a.metadata(), b.metadata()))
    }
}

fn compare_places(a: &Meta, b: &Meta) -> Ordering {
    if a.namespace == b.namespace {
        return a.name.cmp(&b.name);
    }
    let [a, b] = [a, b].map(|meta| {
        meta.namespace
            .bytes()
            .chain([b'/'])
            .chain(meta.name.bytes())
    });
    a.cmp(b)
}

pub(super) static NODES: Watched<Node> = Watched::new(&listing::NODES, Source::Nodes, |snapshot| {
    &mut snapshot.nodes
});
pub(super) static LEASES: Watched<Lease> =
    Watched::new(&listing::LEASES, Source::Leases, |snapshot| {
        &mut snapshot.leases
    });
pub(super) static PODS: Watched<Pod> =
    Watched::new(&listing::PODS, Source::Pods, |snapshot| &mut snapshot.pods);
pub(super) static BUDGETS: Watched<Budget> =
    Watched::new(&listing::BUDGETS, Source::Budgets, |snapshot| {
        &mut snapshot.budgets
    });
pub(super) static VOLUMES: Watched<PersistentVolume> =
    Watched::new(&listing::VOLUMES, Source::Volumes, |snapshot| {
        snapshot.volumes.get_or_insert_default()
    });
pub(super) static VOLUME_ATTACHMENTS: Watched<VolumeAttachment> = Watched::new(
    &listing::VOLUME_ATTACHMENTS,
    Source::VolumeAttachments,
    |snapshot| snapshot.volume_attachments.get_or_insert_default(),
);
pub(super) static CSI_NODES: Watched<CsiNode> =
    Watched::new(&listing::CSI_NODES, Source::CsiNodes, |snapshot| {
        snapshot.csi_nodes.get_or_insert_default()
    });
pub(super) static SIGNING_REQUESTS: Watched<SigningRequest> = Watched::new(
    &listing::SIGNING_REQUESTS,
    Source::SigningRequests,
    |snapshot| snapshot.signing_requests.get_or_insert_default(),
);
pub(super) static CLUSTER_ROLES: Watched<ClusterRole> =
    Watched::new(&listing::CLUSTER_ROLES, Source::ClusterRoles, |snapshot| {
        snapshot.cluster_roles.get_or_insert_default()
    });
pub(super) static CLUSTER_ROLE_BINDINGS: Watched<ClusterRoleBinding> = Watched::new(
    &listing::CLUSTER_ROLE_BINDINGS,
    Source::ClusterRoleBindings,
    |snapshot| snapshot.cluster_role_bindings.get_or_insert_default(),
);
/// Those about nodes.
pub(super) static EVENTS: Watched<Event> =
    Watched::new(&listing::EVENTS, Source::Events, |snapshot| {
        snapshot.events.get_or_insert_default()
    });
/// The controllers of pods: one list of a snapshot holds all kinds, in this order.
pub(super) static WORKLOADS: [Watched<Workload>; listing::WORKLOADS.len()] = {
    let [a, b, c, d, e, f] = &listing::WORKLOADS;
    [
        workloads(a, 0),
        workloads(b, 1),
        workloads(c, 2),
        workloads(d, 3),
        workloads(e, 4),
        workloads(f, 5),
    ]
};

const fn workloads(listing: &'static Listing<Workload>, rank: usize) -> Watched<Workload> {
    Watched {
        rank,
        rank_of: |workload| workload.kind as usize,
        ..Watched::new(listing, Source::Workloads, |snapshot| {
            &mut snapshot.workloads
        })
    }
}

/// Every kind that is watched, and its source.
pub(super) static KINDS: [(&str, Source); 17] = [
    ("Node", Source::Nodes),
    ("Lease", Source::Leases),
    ("Pod", Source::Pods),
    ("PodDisruptionBudget", Source::Budgets),
    ("Deployment", Source::Workloads),
    ("ReplicaSet", Source::Workloads),
    ("StatefulSet", Source::Workloads),
    ("DaemonSet", Source::Workloads),
    ("Job", Source::Workloads),
    ("ReplicationController", Source::Workloads),
    ("PersistentVolume", Source::Volumes),
    ("VolumeAttachment", Source::VolumeAttachments),
    ("CSINode", Source::CsiNodes),
    ("CertificateSigningRequest", Source::SigningRequests),
    ("ClusterRole", Source::ClusterRoles),
    ("ClusterRoleBinding", Source::ClusterRoleBindings),
    ("Event", Source::Events),
];

/// A list that was not read is absent, where the snapshot can say so, and not empty.
pub(super) fn forget(snapshot: &mut Snapshot, source: Source) {
    match source {
        Source::Volumes => snapshot.volumes = None,
        Source::VolumeAttachments => snapshot.volume_attachments = None,
        Source::CsiNodes => snapshot.csi_nodes = None,
        Source::SigningRequests => snapshot.signing_requests = None,
        Source::ClusterRoles => snapshot.cluster_roles = None,
        Source::ClusterRoleBindings => snapshot.cluster_role_bindings = None,
        Source::Events => snapshot.events = None,
        _ => {}
    }
}
