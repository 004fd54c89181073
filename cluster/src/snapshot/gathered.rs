//! Merges the documents of several files into one snapshot.

use std::any::Any;
use std::collections::BTreeSet;

use nodelife_core::object::{Event, Lease, Workload};
use nodelife_core::snapshot::Snapshot;
use serde_json::Value;

use super::kind::{ObjectKind, some};
use super::piece::{Piece, StreamError};
use crate::listing::Object;
use crate::wire::Sharing;

/// What the documents of a file hold.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The objects; `missing` and the rest if there was a snapshot among them.
    pub(super) snapshot: Snapshot,
    /// How many whole snapshots there were.
    pub(super) snapshots: usize,
    /// How many nodes came as documents of their own, not in a list.
    pub(super) single_nodes: usize,
    /// Kinds that were there, an empty list of them included.
    pub(super) kinds: BTreeSet<&'static str>,
    /// Kinds that are of no use here, `apiVersion kind`.
    pub(super) foreign: BTreeSet<String>,
    /// Configurations of kubelets, as configz shows them.
    pub(super) kubelet_configs: Vec<Value>,
    sharing: Sharing,
}

impl Gathered {
    /// Takes over what another document held.
    pub(super) fn absorb(&mut self, other: Self) {
        let from = other.snapshot;
        let to = &mut self.snapshot;
        append(&mut to.nodes, from.nodes);
        append(&mut to.leases, from.leases);
        append(&mut to.pods, from.pods);
        append(&mut to.budgets, from.budgets);
        append(&mut to.workloads, from.workloads);
        to.kubelet_configs.extend(from.kubelet_configs);
        join(&mut to.volumes, from.volumes);
        join(&mut to.volume_attachments, from.volume_attachments);
        join(&mut to.csi_nodes, from.csi_nodes);
        join(&mut to.signing_requests, from.signing_requests);
        join(&mut to.cluster_roles, from.cluster_roles);
        join(&mut to.cluster_role_bindings, from.cluster_role_bindings);
        join(&mut to.events, from.events);
        to.missing.extend(from.missing);
        if to.taken_at.is_none() {
            (to.taken_at, to.clock) = (from.taken_at, from.clock);
        }
        to.single_node |= from.single_node;
        to.node_authorizer = to.node_authorizer.take().or(from.node_authorizer);
        to.node_restriction = to.node_restriction.take().or(from.node_restriction);
        to.server_version = to.server_version.take().or(from.server_version);
        self.snapshots += other.snapshots;
        self.single_nodes += other.single_nodes;
        self.kinds.extend(other.kinds);
        self.foreign.extend(other.foreign);
        self.kubelet_configs.extend(other.kubelet_configs);
    }

    /// There is a list of this kind, or an object.
    pub(super) fn listed(&mut self, kind: ObjectKind) {
        self.kinds.insert(kind.0);
        kind.mark(&mut self.snapshot);
    }

    /// There is something of no use.
    pub(super) fn foreign(&mut self, api_version: &str, kind: &str) {
        self.foreign.insert(format!("{api_version} {kind}"));
    }

    /// There is something that does not say what it is.
    pub(super) fn unknown(&mut self, what: &str) {
        self.foreign.insert(what.to_owned());
    }

    /// Reads an object that is a document of its own.
    pub(super) fn single(
        &mut self,
        kind: ObjectKind,
        object: Piece<'_>,
    ) -> Result<(), StreamError> {
        self.single_nodes += usize::from(kind.0 == "Node");
        self.object(kind, object)
    }

    pub(super) fn object(
        &mut self,
        kind: ObjectKind,
        object: Piece<'_>,
    ) -> Result<(), StreamError> {
        match kind.0 {
            "Node" => self.add(object, kind, |s| &mut s.nodes),
            "Pod" => self.add(object, kind, |s| &mut s.pods),
            "Lease" => self.add(object, kind, |s| &mut s.leases),
            "PodDisruptionBudget" => self.add(object, kind, |s| &mut s.budgets),
            "PersistentVolume" => self.add(object, kind, |s| some(&mut s.volumes)),
            "VolumeAttachment" => self.add(object, kind, |s| some(&mut s.volume_attachments)),
            "CSINode" => self.add(object, kind, |s| some(&mut s.csi_nodes)),
            "CertificateSigningRequest" => {
                self.add(object, kind, |s| some(&mut s.signing_requests))
            }
            "ClusterRole" => self.add(object, kind, |s| some(&mut s.cluster_roles)),
            "ClusterRoleBinding" => self.add(object, kind, |s| some(&mut s.cluster_role_bindings)),
            "Event" => self.add(object, kind, |s| some(&mut s.events)),
            _ => self.add(object, kind, |s| &mut s.workloads),
        }
    }

    fn add<T: Object>(
        &mut self,
        object: Piece<'_>,
        kind: ObjectKind,
        list: fn(&mut Snapshot) -> &mut Vec<T>,
    ) -> Result<(), StreamError> {
        let item = object.read().map_err(|error| error.about(kind.0, object))?;
        let mut object = T::from_item(item, kind.0);
        self.listed(kind);
        if is_of_use(&object) {
            object.share(&mut self.sharing);
            list(&mut self.snapshot).push(object);
        }
        Ok(())
    }

    /// Reads a workload as our own snapshots have it: it says itself of which kind it is.
    pub(super) fn workload(&mut self, object: Piece<'_>) -> Result<(), StreamError> {
        let read = object.read::<Workload>();
        let mut workload = read.map_err(|error| error.about("workload", object))?;
        workload.share(&mut self.sharing);
        self.snapshot.workloads.push(workload);
        Ok(())
    }
}

/// Without a second copy of a list that is the first.
fn append<T>(list: &mut Vec<T>, more: Vec<T>) {
    if list.is_empty() {
        *list = more;
    } else {
        list.extend(more);
    }
}

fn join<T>(list: &mut Option<Vec<T>>, more: Option<Vec<T>>) {
    if let Some(more) = more {
        append(some(list), more);
    }
}

/// Whether an object is of use: of leases those of nodes, of events those about nodes.
fn is_of_use<T: Object>(object: &T) -> bool {
    let object: &dyn Any = object;
    if let Some(lease) = object.downcast_ref::<Lease>() {
        return lease.metadata.namespace == "kube-node-lease";
    }
    object
        .downcast_ref::<Event>()
        .is_none_or(|event| event.involved_object.kind == "Node")
}
