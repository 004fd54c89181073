//! `NodeMaintenance`: a drain of nodes as an object of the cluster, which the controller carries out.
//!
//! These types are the CustomResourceDefinition in `manifests/controller/crd-nodemaintenance.yaml`:
//! a test of the crate `nodelife-drain` generates it from them and from `DrainSettings`.

mod spec;
mod status;

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde::{Deserialize as Derive, Serialize};
use serde_json::{Value, json};

use crate::object::Meta;
use crate::text::Str;

pub use spec::{
    Approval, AuditGateSpec, Gate, GateCondition, MAX_NODES, MaintenanceSpec, Mode, Schedule,
    Unfinished, Window,
};
pub use status::{
    BetweenNodes, LastRun, MAX_UNSETTLED, MAX_WORKLOADS, MaintenanceCondition, MaintenanceStatus,
    NodeCounts, NodeState, NodeStatus, Notified, PlanStatus, UnsettledPod, condition,
};

pub const KIND: &str = "NodeMaintenance";
/// The plural name, in paths.
pub const PLURAL: &str = "nodemaintenances";
pub const GROUP: &str = "nodelife.dev";
pub const VERSION: &str = "v1alpha1";
/// Keeps a deleted object until the nodes have what was taken from them.
pub const FINALIZER: &str = "nodelife.dev/give-back";

/// A maintenance of nodes: while the object is there, its nodes are drained and stay cordoned.
///
/// It can always be read: the API server may admit more than these types know, after an older version of
/// a program has come back for example, and one such object must not hide the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeMaintenance {
    pub metadata: Meta,
    pub spec: MaintenanceSpec,
    pub status: MaintenanceStatus,
    /// Why the spec does not read; then `spec` is empty.
    #[serde(skip)]
    pub unreadable_spec: Option<Str>,
    /// Why the status does not read; then `status` is empty.
    #[serde(skip)]
    pub unreadable_status: Option<Str>,
}

impl<'de> Deserialize<'de> for NodeMaintenance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Derive)]
        struct Document {
            metadata: Meta,
            #[serde(default)]
            spec: Value,
            #[serde(default)]
            status: Value,
        }
        let document = Document::deserialize(deserializer)?;
        let (spec, unreadable_spec) = part("spec", &document.spec);
        let (status, unreadable_status) = part("status", &document.status);
        Ok(Self {
            metadata: document.metadata,
            spec,
            status,
            unreadable_spec,
            unreadable_status,
        })
    }
}

/// A part of the document, or an empty one and the reason.
fn part<T: DeserializeOwned + Default>(name: &str, value: &Value) -> (T, Option<Str>) {
    if value.is_null() {
        return (T::default(), None);
    }
    match T::deserialize(value) {
        Ok(read) => (read, None),
        Err(error) => {
            let place = wrong_field::<T>(value, &|field| field);
            (T::default(), Some(format!("{name}{place}: {error}").into()))
        }
    }
}

/// The place of the first field that makes a document of nothing else unreadable.
fn wrong_field<T: DeserializeOwned>(value: &Value, alone: &dyn Fn(Value) -> Value) -> String {
    for (name, value) in value.as_object().into_iter().flatten() {
        let alone = |field: Value| alone(json!({name.as_str(): field}));
        if T::deserialize(alone(value.clone())).is_err() {
            return format!(".{name}{}", wrong_field::<T>(value, &alone));
        }
    }
    String::new()
}

impl NodeMaintenance {
    /// Its state in one word: the reason of the condition Progressing.
    pub fn state(&self) -> &str {
        if self.is_deleted() {
            return "GivingBack";
        }
        let progressing = self.status.condition(condition::PROGRESSING);
        progressing.map_or("New", |condition| condition.reason.as_str())
    }

    /// Why a part of it does not read.
    pub fn unreadable(&self) -> Option<&str> {
        let parts = [&self.unreadable_spec, &self.unreadable_status];
        parts.into_iter().flatten().map(Str::as_str).next()
    }

    pub fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}
