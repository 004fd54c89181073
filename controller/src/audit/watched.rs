//! [`Watched`]: the resources that the audit watches, and where a snapshot has them.

use std::cmp::Ordering;

use nodelife_cluster::listing::{self, Listing, Object};
use nodelife_core::disruption::protections;
use nodelife_core::object::{
    Budget, ClusterRole, ClusterRoleBinding, CsiNode, Event, Lease, Meta, Node, PersistentVolume,
    Pod, SigningRequest, VolumeAttachment, Workload,
};
use nodelife_core::snapshot::{Snapshot, Source};

use super::pace::Extent;

/// One resource, with its place in a snapshot.
pub(super) struct Watched<T: 'static> {
    pub(super) listing: &'static Listing<T>,
    pub(super) source: Source,
    list: fn(&mut Snapshot) -> &mut Vec<T>,
    /// The place of the kind among those of the list, if it has several.
    pub(super) rank: usize,
    rank_of: fn(&T) -> usize,
    /// The changes that have an early audit.
    pub(super) early: Option<Early<T>>,
}

/// Changes that may be a fault by themselves, and what has to be checked then.
pub(super) struct Early<T: 'static> {
    pub(super) extent: Extent,
    /// Judges an object before and after the change; none is one that is not there.
    pub(super) wants: fn(Option<&T>, Option<&T>) -> bool,
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
            early: None,
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

    /// What this change wants an early audit of.
    pub(super) fn wanted(&self, before: Option<&T>, after: Option<&T>) -> Option<Extent> {
        let early = self.early.as_ref()?;
        (early.wants)(before, after).then_some(early.extent)
    }

    /// By kind, namespace and name, in the order of the keys in etcd, which lists have.
    pub(super) fn compare(&self, a: &T, b: &T) -> Ordering {
        let kinds = self.rank_of(a).cmp(&self.rank_of(b));
        kinds.then_with(|| compare_places(a.metadata(), b.metadata()))
    }
}

/// Whether more than the times of a kubelet's report has changed.
fn is_more_than_a_heartbeat(before: Option<&Node>, after: Option<&Node>) -> bool {
    let (Some(a), Some(b)) = (before, after) else {
        return true;
    };
    let mut beat = b.clone();
    beat.metadata.resource_version = a.metadata.resource_version.clone();
    for (condition, before) in beat.status.conditions.iter_mut().zip(&a.status.conditions) {
        condition.last_heartbeat_time = before.last_heartbeat_time;
    }
    beat != *a
}

/// Whether a pod has other labels, another controller or another request not to be disrupted, or is
/// new and has no controller or such a request. That a controller's pods come, run and go is usual,
/// and waits for the next whole audit.
fn is_unusual(before: Option<&Pod>, after: Option<&Pod>) -> bool {
    let Some(pod) = after else {
        return false;
    };
    match before {
        Some(known) => {
            known.metadata.labels != pod.metadata.labels
                || known.metadata.controller() != pod.metadata.controller()
                || protections(known).ne(protections(pod))
        }
        None => pod.metadata.controller().is_none() || protections(pod).next().is_some(),
    }
}

/// Whether the disruption controller has taken up another specification: until then the status is
/// that of the one before.
fn is_taken_up(before: Option<&Budget>, after: Option<&Budget>) -> bool {
    let generation = |budget: Option<&Budget>| budget.map(|one| one.status.observed_generation);
    after.is_some()
        && generation(before).unwrap_or_default() != generation(after).unwrap_or_default()
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

pub(super) static NODES: Watched<Node> = Watched {
    early: Some(Early {
        extent: Extent::Nodes,
        wants: is_more_than_a_heartbeat,
    }),
    ..Watched::new(&listing::NODES, Source::Nodes, |snapshot| {
        &mut snapshot.nodes
    })
};
pub(super) static LEASES: Watched<Lease> =
    Watched::new(&listing::LEASES, Source::Leases, |snapshot| {
        &mut snapshot.leases
    });
pub(super) static PODS: Watched<Pod> = Watched {
    early: Some(Early {
        extent: Extent::Whole,
        wants: is_unusual,
    }),
    ..Watched::new(&listing::PODS, Source::Pods, |snapshot| &mut snapshot.pods)
};
pub(super) static BUDGETS: Watched<Budget> = Watched {
    early: Some(Early {
        extent: Extent::Whole,
        wants: is_taken_up,
    }),
    ..Watched::new(&listing::BUDGETS, Source::Budgets, |snapshot| {
        &mut snapshot.budgets
    })
};
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
pub(super) static EVENTS: Watched<Event> = Watched {
    early: Some(Early {
        extent: Extent::Nodes,
        wants: |before, _| before.is_none(),
    }),
    ..Watched::new(&listing::EVENTS, Source::Events, |snapshot| {
        snapshot.events.get_or_insert_default()
    })
};
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
