//! Objects that belong to a node by name, by a field or by an owner reference: leases,
//! `CSINodes`, `ResourceSlices`, and the owner references of nodes and mirror pods.

use serde::Deserialize;

use super::request::{Named, NodeRequest, OnlySpec};
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Pairs, Text, or_default};
use crate::review::Operation;
use crate::rule::AdmissionRule;

/// Namespace of the kubelets' heartbeats (api.NamespaceNodeLease).
pub(crate) const NODE_LEASES: &str = "kube-node-lease";

/// An `OwnerReference`. Every field counts: in-tree, a nil pointer and `false` are different.
#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner<'a> {
    #[serde(borrow)]
    pub(crate) api_version: Text<'a>,
    pub(crate) kind: Text<'a>,
    pub(crate) name: Text<'a>,
    pub(crate) uid: Text<'a>,
    pub(crate) controller: Option<bool>,
    pub(crate) block_owner_deletion: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) labels: Pairs<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) annotations: Pairs<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) finalizers: Vec<Text<'a>>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) owner_references: Vec<Owner<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SliceSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct CsiNodeSpec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    drivers: Vec<CsiDriver<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsiDriver<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(rename = "nodeID")]
    node_id: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    topology_keys: Vec<Text<'a>>,
    allocatable: Option<VolumeResources>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct VolumeResources {
    count: Option<i32>,
}

/// Whether the object has the node's name: on creation the name in the object, which is empty if it
/// will be generated, otherwise the name in the request.
fn is_own_name(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<bool, Denial> {
    if request.operation() == Operation::Create {
        let object: Named<'_> = request.object(rule)?;
        return Ok(&*object.metadata.name == request.node);
    }
    Ok(request.name() == request.node)
}

/// `admitLease`.
pub(super) fn check_lease(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let deny = |message: &str| Err(Denial::forbidden(AdmissionRule::Leases, message.to_owned()));
    if request.namespace() != NODE_LEASES {
        return deny(r#"can only access leases in the "kube-node-lease" system namespace"#);
    }
    if !is_own_name(request, AdmissionRule::Leases)? {
        return deny("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

/// `admitCSINode`.
pub(super) fn check_csi_node(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let rule = AdmissionRule::CsiNodes;
    let deny = |message: &str| Err(Denial::forbidden(rule, message.to_owned()));
    if request.operation() == Operation::Create && !request.has_object() {
        return deny("unable to access the object name");
    }
    if !is_own_name(request, rule)? {
        return deny("can only access CSINode with the same name as the requesting node");
    }
    if request.subresource() == "status" && request.policy.version().is_1_37_or_later() {
        return check_csi_node_status(request);
    }
    Ok(())
}

/// `admitCSINodeStatus`.
fn check_csi_node_status(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let rule = AdmissionRule::CsiNodes;
    let deny = |message: String| Err(Denial::forbidden(rule, message));
    if !request.policy.csi_volume_health {
        return deny("CSIVolumeHealth feature gate is disabled".to_owned());
    }
    if request.operation() != Operation::Update {
        let operation = Quoted(request.operation().as_str());
        return deny(format!("unexpected operation {operation}"));
    }
    let old: OnlySpec<CsiNodeSpec<'_>> = request.old_object(rule)?;
    let new: OnlySpec<CsiNodeSpec<'_>> = request.object(rule)?;
    if old.spec != new.spec {
        let what = "is not allowed to modify CSINode spec via status";
        return Err(request.denial(rule, what));
    }
    Ok(())
}

/// `admitResourceSlice`. An update is left to the node authorizer's graph.
pub(super) fn check_resource_slice(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let rule = AdmissionRule::ResourceSlices;
    let (slice, verb): (OnlySpec<SliceSpec<'_>>, _) = match request.operation() {
        Operation::Create => (request.object(rule)?, "create"),
        Operation::Delete => (request.old_object(rule)?, "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    let name = slice.spec.node_name;
    if name.is_some_and(|name| &*name == request.node) {
        return Ok(());
    }
    let message =
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node");
    Err(Denial::forbidden(rule, message))
}
