//! Reads a document of unknown kind while it streams by.
//!
//! A snapshot, a list or a single object: which one it is may stand in front
//! (`kubectl get --raw`), or behind the items (`kubectl get -o json` sorts the keys).
//! Objects go into core's types at once; nothing else is kept.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nodelife_core::object::{Event, Lease, Workload};
use nodelife_core::snapshot::{Snapshot, Source};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::kind::{Known, some};
use super::{API_VERSION, KIND};
use crate::listing::Object;
use crate::wire::Sharing;

/// What the documents of a file hold.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The objects; `missing` and the rest if there was a snapshot among them.
    pub(super) snapshot: Snapshot,
    /// Whether there was a whole snapshot.
    pub(super) whole: bool,
    /// Kinds that were there, an empty list of them included.
    pub(super) kinds: BTreeSet<&'static str>,
    /// Kinds that are of no use here, `apiVersion/kind`.
    pub(super) foreign: BTreeSet<String>,
    /// Configurations of kubelets, as configz shows them.
    pub(super) kubelet_configs: Vec<Value>,
    sharing: Sharing,
    /// Items of a list whose kind comes after them.
    untyped: Vec<Value>,
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
        to.taken_at = to.taken_at.or(from.taken_at);
        to.node_authorizer = to.node_authorizer.take().or(from.node_authorizer);
        to.node_restriction = to.node_restriction.take().or(from.node_restriction);
        to.server_version = to.server_version.take().or(from.server_version);
        self.whole |= other.whole;
        self.kinds.extend(other.kinds);
        self.foreign.extend(other.foreign);
        self.kubelet_configs.extend(other.kubelet_configs);
    }

    fn add<'de, T: Object, D: Deserializer<'de>>(
        &mut self,
        item: D,
        kind: Known,
        list: Place<T>,
    ) -> Result<(), D::Error> {
        let mut object = T::from_item(T::Item::deserialize(item)?, kind.name());
        self.listed(kind);
        if is_of_use(&object) {
            object.share(&mut self.sharing);
            list(&mut self.snapshot).push(object);
        }
        Ok(())
    }

    fn listed(&mut self, kind: Known) {
        self.kinds.insert(kind.name());
        kind.mark(&mut self.snapshot);
    }

    /// Reads one object whose kind is known.
    fn object<'de, D: Deserializer<'de>>(
        &mut self,
        kind: Known,
        object: D,
    ) -> Result<(), D::Error> {
        match kind.name() {
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

type Place<T> = fn(&mut Snapshot) -> &mut Vec<T>;

impl<'de> Deserialize<'de> for Gathered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut gathered = Self::default();
        let root = Entry {
            gathered: &mut gathered,
            api_version: None,
            kind: None,
            is_root: true,
        };
        root.deserialize(deserializer)?;
        Ok(gathered)
    }
}

/// A document, or one item of a list.
struct Entry<'a> {
    gathered: &'a mut Gathered,
    api_version: Option<String>,
    kind: Option<String>,
    is_root: bool,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a snapshot, a list or an object of Kubernetes")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut early = Vec::new();
        let mut had_items = false;
        loop {
            if let (Some(api_version), Some(kind)) = (&self.api_version, &self.kind)
                && !had_items
            {
                let (api_version, kind) = (api_version.clone(), kind.clone());
                return self.typed(&api_version, &kind, Replay::new(early, map));
            }
            let Some(key) = map.next_key::<String>()? else {
                break;
            };
            match key.as_str() {
                "apiVersion" => self.api_version = Some(map.next_value()?),
                "kind" => self.kind = Some(map.next_value()?),
                "items" if self.is_root => {
                    had_items = true;
                    map.next_value_seed(Items {
                        gathered: &mut *self.gathered,
                        item: None,
                    })?;
                }
                "kubeletconfig" if self.is_root => {
                    let config = map.next_value()?;
                    self.gathered.kubelet_configs.push(config);
                    return finish(map);
                }
                _ if had_items => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => early.push((key, map.next_value::<Value>()?)),
            }
        }
        if had_items {
            return self.late_list();
        }
        if self.is_root {
            return Err(M::Error::custom(
                "the document has no apiVersion and kind; it may be cut short",
            ));
        }
        self.gathered
            .untyped
            .push(Value::Object(early.into_iter().collect()));
        Ok(())
    }
}

impl Entry<'_> {
    /// The kind of a list that came after its items.
    fn late_list<E: serde::de::Error>(self) -> Result<(), E> {
        let (Some(api_version), Some(kind)) = (self.api_version, self.kind) else {
            return Err(E::custom(
                "the list ends before its apiVersion and kind; it is cut short",
            ));
        };
        let untyped = std::mem::take(&mut self.gathered.untyped);
        let item = kind.strip_suffix("List").unwrap_or_default();
        match Known::find(&api_version, item) {
            Some(known) => {
                self.gathered.listed(known);
                for item in untyped {
                    self.gathered.object(known, item).map_err(E::custom)?;
                }
            }
            None if kind == "List" && untyped.is_empty() => {}
            None => {
                self.gathered
                    .foreign
                    .insert(format!("{api_version} {kind}"));
            }
        }
        Ok(())
    }

    fn typed<'de, M: MapAccess<'de>>(
        self,
        api_version: &str,
        kind: &str,
        mut map: Replay<M>,
    ) -> Result<(), M::Error> {
        if let Some(known) = Known::find(api_version, kind) {
            return self.gathered.object(known, MapAccessDeserializer::new(map));
        }
        if self.is_root && kind == KIND {
            if api_version != API_VERSION {
                return Err(M::Error::custom(format!(
                    "a snapshot of version {api_version}; this program reads {API_VERSION}"
                )));
            }
            return self.snapshot(map);
        }
        if kind == "KubeletConfiguration" {
            let config = Value::deserialize(MapAccessDeserializer::new(map))?;
            self.gathered.kubelet_configs.push(config);
            return Ok(());
        }
        let Some(item) = kind.strip_suffix("List").filter(|_| self.is_root) else {
            self.gathered
                .foreign
                .insert(format!("{api_version} {kind}"));
            return finish(map);
        };
        let known = Known::find(api_version, item);
        match known {
            Some(known) => {
                self.gathered.listed(known);
            }
            None if item.is_empty() => {}
            None => {
                self.gathered
                    .foreign
                    .insert(format!("{api_version} {item}"));
            }
        }
        let mut had_items = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                had_items = true;
                map.next_value_seed(Items {
                    gathered: &mut *self.gathered,
                    item: Some((api_version, item)).filter(|_| !item.is_empty()),
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if !had_items {
            return Err(M::Error::custom(
                "the list has no items; it may be cut short",
            ));
        }
        Ok(())
    }

    fn snapshot<'de, M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let gathered = self.gathered;
        gathered.whole = true;
        let mut counts = BTreeMap::<Source, usize>::new();
        while let Some(key) = map.next_key::<String>()? {
            let item = match key.as_str() {
                "nodes" => Some(("v1", "Node")),
                "pods" => Some(("v1", "Pod")),
                "leases" => Some(("coordination.k8s.io/v1", "Lease")),
                "budgets" => Some(("policy/v1", "PodDisruptionBudget")),
                "volumes" => Some(("v1", "PersistentVolume")),
                "volumeAttachments" => Some(("storage.k8s.io/v1", "VolumeAttachment")),
                "csiNodes" => Some(("storage.k8s.io/v1", "CSINode")),
                "signingRequests" => Some(("certificates.k8s.io/v1", "CertificateSigningRequest")),
                "clusterRoles" => Some(("rbac.authorization.k8s.io/v1", "ClusterRole")),
                "clusterRoleBindings" => {
                    Some(("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"))
                }
                "events" => Some(("v1", "Event")),
                _ => None,
            };
            if let Some((api_version, kind)) = item {
                if let Some(known) = Known::find(api_version, kind) {
                    known.mark(&mut gathered.snapshot);
                }
                let gathered = &mut *gathered;
                map.next_value_seed(Items { gathered, item })?;
                continue;
            }
            match key.as_str() {
                "workloads" => {
                    let workloads: Vec<Workload> = map.next_value()?;
                    for mut workload in workloads {
                        workload.share(&mut gathered.sharing);
                        gathered.snapshot.workloads.push(workload);
                    }
                }
                "takenAt" => gathered.snapshot.taken_at = map.next_value()?,
                "serverVersion" => gathered.snapshot.server_version = map.next_value()?,
                "kubeletConfigs" => gathered.snapshot.kubelet_configs = map.next_value()?,
                "counts" => counts = map.next_value()?,
                "missing" => gathered.snapshot.missing = map.next_value()?,
                "nodeAuthorizer" => gathered.snapshot.node_authorizer = map.next_value()?,
                "nodeRestriction" => gathered.snapshot.node_restriction = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        for (source, announced) in counts {
            let here = gathered.snapshot.count(source);
            if here < announced {
                return Err(M::Error::custom(format!(
                    "its head says {announced} {}, but there are {here}: it is cut short \
                     (if objects were taken out on purpose, take out `counts` too)",
                    source.noun()
                )));
            }
        }
        Ok(())
    }
}

/// Reads the rest of a map away.
fn finish<'de, M: MapAccess<'de>>(mut map: M) -> Result<(), M::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// The items of a list; `item` is what they are where they do not say so themselves.
struct Items<'a> {
    gathered: &'a mut Gathered,
    item: Option<(&'a str, &'a str)>,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        while items
            .next_element_seed(Entry {
                gathered: &mut *self.gathered,
                api_version: self.item.map(|(api_version, _)| api_version.to_owned()),
                kind: self.item.map(|(_, kind)| kind.to_owned()),
                is_root: false,
            })?
            .is_some()
        {}
        Ok(())
    }

    /// `items: null` is an empty list.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A map whose first entries were read already.
struct Replay<M> {
    early: std::vec::IntoIter<(String, Value)>,
    value: Option<Value>,
    rest: M,
}

impl<M> Replay<M> {
    fn new(early: Vec<(String, Value)>, rest: M) -> Self {
        Self {
            early: early.into_iter(),
            value: None,
            rest,
        }
    }
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for Replay<M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        let Some((key, value)) = self.early.next() else {
            return self.rest.next_key_seed(seed);
        };
        self.value = Some(value);
        seed.deserialize(Value::String(key))
            .map(Some)
            .map_err(M::Error::custom)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(M::Error::custom),
            None => self.rest.next_value_seed(seed),
        }
    }
}
