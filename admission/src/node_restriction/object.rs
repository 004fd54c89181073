//! Objects that belong to a node by their name, by one field or by an owner: leases,
//! `CSINodes`, `ResourceSlices`, and the references of nodes and mirror pods.

use serde::Deserialize;

use super::super::json::{Pairs, Text, or_default};
use super::super::review::Operation;
use super::super::verdict::{Denial, Rule};
use super::Asked;

/// Namespace of the kubelets' heartbeats (api.NamespaceNodeLease).
pub(in super::super) const NODE_LEASES: &str = "kube-node-lease";

/// An `OwnerReference`. Every field counts: a nil pointer and `false` are different to the
/// in-tree comparison.
#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Owner<'a> {
    #[serde(borrow, default)]
    pub(in super::super) api_version: Text<'a>,
    #[serde(borrow, default)]
    pub(in super::super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(in super::super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(in super::super) uid: Text<'a>,
    #[serde(default)]
    pub(in super::super) controller: Option<bool>,
    #[serde(default)]
    pub(in super::super) block_owner_deletion: Option<bool>,
}

/// What is read of a pod's metadata that decides: whether it is a mirror, and who owns it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in super::super) struct PodMeta<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(in super::super) annotations: Pairs<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(in super::super) owner_references: Vec<Owner<'a>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default)]
    metadata: Name<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Deserialize)]
struct Slice<'a> {
    #[serde(borrow, default)]
    spec: SliceSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SliceSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
}

/// Whether the object bears the node's name: on creation the object's own, which a
/// generated name leaves empty, else the one of the request.
fn is_own_name(asked: &Asked<'_, '_>, rule: Rule) -> Result<bool, Denial> {
    if asked.request.operation() == Operation::Create {
        let object: Named<'_> = asked.request.object(rule)?;
        return Ok(&*object.metadata.name == asked.node);
    }
    Ok(asked.request.name() == asked.node)
}

/// `admitLease`.
pub(super) fn check_lease(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let deny = |sentence: &str| Err(Denial::forbidden(Rule::Leases, sentence.to_owned()));
    if asked.request.namespace() != NODE_LEASES {
        return deny(r#"can only access leases in the "kube-node-lease" system namespace"#);
    }
    if !is_own_name(asked, Rule::Leases)? {
        return deny("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

/// `admitCSINode`.
pub(super) fn check_csi_node(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    if asked.request.operation() == Operation::Create && !asked.request.has_object() {
        let sentence = "unable to access the object name".to_owned();
        return Err(Denial::forbidden(Rule::CsiNodes, sentence));
    }
    if is_own_name(asked, Rule::CsiNodes)? {
        return Ok(());
    }
    let sentence = "can only access CSINode with the same name as the requesting node";
    Err(Denial::forbidden(Rule::CsiNodes, sentence.to_owned()))
}

/// `admitResourceSlice`. An update is left to the node authorizer's graph.
pub(super) fn check_resource_slice(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::ResourceSlices;
    let (slice, verb): (Slice<'_>, _) = match asked.request.operation() {
        Operation::Create => (asked.request.object(rule)?, "create"),
        Operation::Delete => (asked.request.old_object(rule)?, "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if slice
        .spec
        .node_name
        .is_some_and(|name| &*name == asked.node)
    {
        return Ok(());
    }
    Err(Denial::forbidden(
        rule,
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"),
    ))
}
