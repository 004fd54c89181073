//! [`Kind`]: the kinds of objects in a snapshot, each with its resource and its list.
//!
//! Everything that lists, watches, reads, joins or redacts objects goes through [`each_kind`]. A new
//! kind is one more line of `kinds!`.

use nodelife_core::object::{
    Autoscaler, Budget, ClusterRole, ClusterRoleBinding, CsiNode, Event, Lease, Node,
    PersistentVolume, Pod, SigningRequest, VolumeAttachment, Workload,
};
use nodelife_core::snapshot::{Snapshot, Source};
use serde::Deserialize as _;
use serde::de::value::{Error, StrDeserializer};

use super::gathered::{Gathered, append};
use super::piece::{Piece, Result};
use crate::list::ListFilter;
use crate::listing::{self, Listing, Object};

/// One kind of object. The kinds of workloads share a list.
pub struct Kind<T: 'static> {
    pub listing: &'static Listing<T>,
    pub source: Source,
    /// The list, which is read from then on.
    pub list: fn(&mut Snapshot) -> &mut Vec<T>,
    pub take: fn(&mut Snapshot) -> Option<Vec<T>>,
    /// The place of the kind among those that share its list.
    pub rank: usize,
    pub rank_of: fn(&T) -> usize,
    /// A field selector, and a condition for objects from files: those that are of use.
    only: Option<Only<T>>,
}

type Only<T> = (&'static str, fn(&T) -> bool);

/// An operation on every kind, whatever its type.
pub trait Visitor {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>);
}

impl<T: Object> Kind<T> {
    pub fn is_first(&self) -> bool {
        self.rank == 0
    }

    /// Changes the list, if it was read; once for the kinds that share it.
    pub fn change_list(&self, snapshot: &mut Snapshot, change: impl FnOnce(&mut Vec<T>)) {
        let list = self.is_first().then(|| (self.take)(snapshot));
        if let Some(mut list) = list.flatten() {
            change(&mut list);
            *(self.list)(snapshot) = list;
        }
    }

    pub fn filter(&self) -> ListFilter {
        ListFilter {
            fields: self.only.map(|(selector, _)| selector.to_owned()),
            ..ListFilter::default()
        }
    }

    /// Whether an object from a file is one that would be listed.
    pub(super) fn is_listed(&self, object: &T) -> bool {
        let namespace = self.listing.namespace;
        namespace.is_none_or(|namespace| object.metadata().namespace == namespace)
            && self.only.is_none_or(|(_, is_one)| is_one(object))
    }
}

macro_rules! kinds {
    ($($name:ident: $type:ty = $source:ident in $field:ident $($optional:literal)? $(, $only:expr)?;)*) => {
        $(pub static $name: Kind<$type> = Kind {
            listing: &listing::$name,
            source: Source::$source,
            list: |snapshot| kinds!(list snapshot.$field $($optional)?),
            take: |snapshot| kinds!(take snapshot.$field $($optional)?),
            rank: 0,
            rank_of: |_| 0,
            only: kinds!(only $($only)?),
        };)*

        pub fn each_kind(visitor: &mut impl Visitor) {
            $(visitor.visit(&$name);)*
            for workloads in &WORKLOADS {
                visitor.visit(workloads);
            }
        }

        /// All kinds, in the same order.
        pub(super) fn all() -> impl Iterator<Item = ObjectKind> {
            let kinds = [$(&$name as ObjectKind),*];
            kinds.into_iter().chain(WORKLOADS.iter().map(|kind| kind as ObjectKind))
        }
    };
    (list $snapshot:ident.$field:ident) => { &mut $snapshot.$field };
    (list $snapshot:ident.$field:ident $_:literal) => { $snapshot.$field.get_or_insert_default() };
    (take $snapshot:ident.$field:ident) => { Some(std::mem::take(&mut $snapshot.$field)) };
    (take $snapshot:ident.$field:ident $_:literal) => { $snapshot.$field.take() };
    (only) => { None };
    (only $only:expr) => { Some($only) };
}

// With "if read": a snapshot tells an empty list from one that was not read.
kinds! {
    NODES: Node = Nodes in nodes;
    LEASES: Lease = Leases in leases;
    PODS: Pod = Pods in pods;
    BUDGETS: Budget = Budgets in budgets;
    VOLUMES: PersistentVolume = Volumes in volumes "if read";
    VOLUME_ATTACHMENTS: VolumeAttachment = VolumeAttachments in volume_attachments "if read";
    CSI_NODES: CsiNode = CsiNodes in csi_nodes "if read";
    SIGNING_REQUESTS: SigningRequest = SigningRequests in signing_requests "if read";
    CLUSTER_ROLES: ClusterRole = ClusterRoles in cluster_roles "if read";
    CLUSTER_ROLE_BINDINGS: ClusterRoleBinding = ClusterRoleBindings in cluster_role_bindings "if read";
    EVENTS: Event = Events in events "if read",
        ("involvedObject.kind=Node", |event| {
            event.involved_object.kind == "Node" || event.says_why_pod_waits()
        });
    AUTOSCALERS: Autoscaler = Autoscalers in autoscalers "if read";
}

/// The controllers of pods, in the order of their list.
pub static WORKLOADS: [Kind<Workload>; listing::WORKLOADS.len()] = {
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

const fn workloads(listing: &'static Listing<Workload>, rank: usize) -> Kind<Workload> {
    Kind {
        listing,
        source: Source::Workloads,
        list: |snapshot| &mut snapshot.workloads,
        take: |snapshot| Some(std::mem::take(&mut snapshot.workloads)),
        rank,
        rank_of: |workload| workload.kind as usize,
        only: None,
    }
}

pub(super) type ObjectKind = &'static dyn FileKind;

pub(super) trait FileKind {
    fn name(&self) -> (&'static str, &'static str);

    fn source(&self) -> Source;

    fn mark(&self, snapshot: &mut Snapshot);

    fn append(&self, from: &mut Snapshot, to: &mut Snapshot);

    fn read(&self, object: &Piece<'_>, gathered: &mut Gathered) -> Result<()>;
}

impl<T: Object> FileKind for Kind<T> {
    fn name(&self) -> (&'static str, &'static str) {
        (self.listing.resource.group, self.listing.kind)
    }

    fn source(&self) -> Source {
        self.source
    }

    fn mark(&self, snapshot: &mut Snapshot) {
        (self.list)(snapshot);
    }

    fn append(&self, from: &mut Snapshot, to: &mut Snapshot) {
        if let Some(more) = (self.take)(from) {
            append((self.list)(to), more);
        }
    }

    fn read(&self, object: &Piece<'_>, gathered: &mut Gathered) -> Result<()> {
        gathered.add(object, self)
    }
}

pub(super) fn find(api_version: &str, kind: &str) -> Option<ObjectKind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let name = match (group, kind) {
        ("keda.sh", "ScaledObject") => ("autoscaling", "HorizontalPodAutoscaler"),
        other => other,
    };
    all().find(|kind| kind.name() == name)
}

/// The kind of the first object in YAML that can be read, if its first fields are those of kubectl.
pub(super) fn shown(yaml: &str) -> Option<ObjectKind> {
    let fields = yaml.lines().map(|line| line.trim_start_matches(['-', ' ']));
    let fields: Vec<&str> = fields.collect();
    fields.windows(3).find_map(|fields| {
        let [api_version, kind, "metadata:"] = fields else {
            return None;
        };
        let api_version = api_version.strip_prefix("apiVersion: ")?;
        find(api_version, kind.strip_prefix("kind: ")?)
    })
}

/// The kind of the objects under this key of a snapshot; workloads are of several kinds.
pub(super) fn of_list(key: &str) -> Option<ObjectKind> {
    // The key of a list is the name of its source.
    let of = Source::deserialize(StrDeserializer::<Error>::new(key)).ok()?;
    all().find(|kind| kind.source() == of && of != Source::Workloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_has_a_kind_or_is_no_list() {
        const NO_LISTS: [Source; 4] = [
            Source::KubeletConfigs,
            Source::NodeAuthorizer,
            Source::NodeRestriction,
            Source::Clock,
        ];
        for source in Source::ALL {
            let has_kind = all().any(|kind| kind.source() == source);
            assert_ne!(has_kind, NO_LISTS.contains(&source), "{source:?}");
        }
    }

    /// Our own snapshots have each list under the name of its source.
    #[test]
    fn a_list_bears_the_name_of_its_source() {
        struct Check;
        impl Visitor for Check {
            fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
                let mut snapshot = Snapshot::default();
                (kind.list)(&mut snapshot);
                let source = serde_json::to_value(kind.source).unwrap();
                let snapshot = serde_json::to_value(snapshot).unwrap();
                assert!(snapshot[source.as_str().unwrap()].is_array(), "{source}");
            }
        }
        each_kind(&mut Check);
    }

    #[test]
    fn workloads_are_ranked_in_the_order_of_their_kinds() {
        for (workloads, kind) in WORKLOADS
            .iter()
            .zip(nodelife_core::object::WorkloadKind::ALL)
        {
            assert_eq!(workloads.listing.kind, kind.as_str());
            assert_eq!(workloads.rank, kind as usize);
        }
    }
}
