//! Merges the documents of several files into one snapshot.

use std::collections::{BTreeMap, BTreeSet};

use nodelife_core::object::Workload;
use nodelife_core::snapshot::{Snapshot, Source};
use serde_json::Value;

use super::kinds::{self, Kind, ObjectKind};
use super::piece::{Piece, Result, StreamError};
use crate::listing::Object;
use crate::wire::Sharing;

#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The objects; `missing` and the rest if there was a snapshot among them.
    pub(super) snapshot: Snapshot,
    pub(super) snapshots: usize,
    /// How many nodes came as documents of their own, not in a list.
    pub(super) single_nodes: usize,
    /// Kinds that were there, an empty list of them included, with their sources.
    pub(super) kinds: BTreeMap<&'static str, Source>,
    /// Kinds that are of no use here, `apiVersion kind`.
    pub(super) foreign: BTreeSet<String>,
    /// Sources that a list has of several namespaces: of all, since a list is of one or of all.
    pub(super) whole: BTreeSet<Source>,
    pub(super) empty_pod_lists: usize,
    /// Objects that are not of the form of their kind, with the reason.
    pub(super) undecodable: Vec<(Source, String)>,
    /// Configurations of kubelets, as configz shows them.
    pub(super) kubelet_configs: Vec<Value>,
    sharing: Sharing,
}

impl Gathered {
    pub(super) fn absorb(&mut self, other: Self) {
        let mut from = other.snapshot;
        let to = &mut self.snapshot;
        for kind in kinds::all() {
            kind.append(&mut from, to);
        }
        to.kubelet_configs.extend(from.kubelet_configs);
        to.missing.extend(from.missing);
        if to.taken_at.is_none() {
            (to.taken_at, to.clock) = (from.taken_at, from.clock);
        }
        to.node_authorizer = to.node_authorizer.take().or(from.node_authorizer);
        to.node_restriction = to.node_restriction.take().or(from.node_restriction);
        to.server_version = to.server_version.take().or(from.server_version);
        self.snapshots += other.snapshots;
        self.single_nodes += other.single_nodes;
        self.kinds.extend(other.kinds);
        self.foreign.extend(other.foreign);
        self.whole.extend(other.whole);
        self.empty_pod_lists += other.empty_pod_lists;
        self.undecodable.extend(other.undecodable);
        self.kubelet_configs.extend(other.kubelet_configs);
    }

    pub(super) fn is_of_use(&self) -> bool {
        self.snapshots > 0 || !self.kinds.is_empty() || !self.kubelet_configs.is_empty()
    }

    /// Notes what the namespaces of its objects say of a document that is at its end.
    pub(super) fn weigh(&mut self) {
        let here = &self.snapshot;
        let mut namespaces = (here.pods.iter().map(|pod| &pod.metadata))
            .chain(here.workloads.iter().map(|workload| &workload.metadata))
            .chain(here.budgets.iter().map(|budget| &budget.metadata))
            .chain(here.leases.iter().map(|lease| &lease.metadata))
            .map(|meta| meta.namespace.as_str());
        let first = namespaces.next();
        if namespaces.any(|other| Some(other) != first) {
            self.whole.extend(self.kinds.values());
        }
        let has_pods = self.kinds.contains_key("Pod");
        self.empty_pod_lists += usize::from(has_pods && here.pods.is_empty());
    }

    pub(super) fn listed(&mut self, kind: ObjectKind) {
        self.kinds.insert(kind.name().1, kind.source());
        kind.mark(&mut self.snapshot);
    }

    pub(super) fn foreign(&mut self, api_version: &str, kind: &str) {
        self.foreign.insert(format!("{api_version} {kind}"));
    }

    pub(super) fn unknown(&mut self, what: &str) {
        self.foreign.insert(what.to_owned());
    }

    pub(super) fn single(&mut self, kind: ObjectKind, object: &Piece<'_>) -> Result<()> {
        self.single_nodes += usize::from(kind.source() == Source::Nodes);
        self.item(kind, object)
    }

    /// Reads an object of a list, or leaves it out if it is not of the form of its kind.
    pub(super) fn item(&mut self, kind: ObjectKind, object: &Piece<'_>) -> Result<()> {
        match kind.read(object, self) {
            Err(error @ StreamError::Wrong { .. }) => {
                self.listed(kind);
                self.undecodable.push((kind.source(), error.to_string()));
                Ok(())
            }
            read => read,
        }
    }

    pub(super) fn add<T: Object>(&mut self, object: &Piece<'_>, kind: &Kind<T>) -> Result<()> {
        let name = kind.listing.kind;
        let read = object.read();
        let read = read.or_else(|error| object.read_without_nulls().ok_or(error));
        let item = read.map_err(|error| error.about(name, object))?;
        let mut object = T::from_item(item, name);
        self.kinds.insert(name, kind.source);
        let list = (kind.list)(&mut self.snapshot);
        if kind.is_listed(&object) {
            object.share(&mut self.sharing);
            list.push(object);
        }
        Ok(())
    }

    /// Reads a workload as our own snapshots have it: it says itself of which kind it is.
    pub(super) fn workload(&mut self, object: &Piece<'_>) -> Result<()> {
        let read = object.read::<Workload>();
        let mut workload = read.map_err(|error| error.about("workload", object))?;
        workload.share(&mut self.sharing);
        self.snapshot.workloads.push(workload);
        Ok(())
    }
}

/// Without a second copy of a list that is the first.
pub(super) fn append<T>(list: &mut Vec<T>, more: Vec<T>) {
    if list.is_empty() {
        *list = more;
    } else {
        list.extend(more);
    }
}
