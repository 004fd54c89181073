//! nodes and all their subresources.

use jiff::Timestamp;
use serde::Deserialize;

use super::labels::{is_forbidden, refused_changes};
use super::ownership::Meta;
use super::request::NodeRequest;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Pairs, Text, or_default};
use crate::review::Operation;
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::Nodes;

const TAINTS_REMEDY: &str =
    "taints are set at registration (registerWithTaints) or by an administrator";
const LABELS_REMEDY: &str = "of the labels of kubernetes.io and k8s.io, a node may set its well-known ones and those under \
    kubelet.kubernetes.io and node.kubernetes.io; set others as an administrator. Labels without such a prefix are not protected, \
    unless the rule ownLabels is on";

#[derive(Deserialize)]
struct Node<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    taints: Vec<Taint<'a>>,
    config_source: Option<ConfigSource<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Taint<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    value: Text<'a>,
    effect: Text<'a>,
    time_added: Option<Timestamp>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigSource<'a> {
    #[serde(borrow, default)]
    config_map: Option<ConfigMapSource<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigMapSource<'a> {
    #[serde(borrow)]
    namespace: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
    resource_version: Text<'a>,
    kubelet_config_key: Text<'a>,
}

/// `admitNode`.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let deny = |what: &str| request.denial(RULE, &format!("is not allowed to {what}"));
    if request.name() != request.node {
        return Err(deny(&format!("modify node {}", Quoted(request.name()))));
    }
    match request.operation() {
        Operation::Create => {
            let new: Node<'_> = request.object(RULE)?;
            if new.spec.config_source.is_some() {
                return Err(deny("create pods with a non-nil configSource"));
            }
            if let Some(labels) = refused_changes(&new.metadata.labels, &Pairs::new(), is_forbidden)
            {
                let denial = deny(&format!("set the following labels: {labels}"));
                return Err(denial.remedy(LABELS_REMEDY));
            }
        }
        Operation::Update => {
            let new: Node<'_> = request.object(RULE)?;
            let old: Node<'_> = request.old_object(RULE)?;
            // Old kubelets drop the field in a status update, so nil is allowed.
            if new.spec.config_source.is_some() && new.spec.config_source != old.spec.config_source
            {
                return Err(deny("update configSource to a new non-nil configSource"));
            }
            if new.spec.taints != old.spec.taints {
                return Err(deny("modify taints").remedy(TAINTS_REMEDY));
            }
            // CVE-2025-5187: with an owner that does not exist, the garbage collector deletes the
            // node, and the kubelet registers it again with other taints.
            if new.metadata.owner_references != old.metadata.owner_references {
                return Err(deny("modify ownerReferences"));
            }
            if let Some(labels) =
                refused_changes(&new.metadata.labels, &old.metadata.labels, is_forbidden)
            {
                let message = format!("is not allowed to modify labels: {labels}");
                return Err(Denial::forbidden(RULE, message).remedy(LABELS_REMEDY));
            }
        }
        // The plugin allows a node to delete itself; the authorizer does not.
        Operation::Delete | Operation::Connect => {}
    }
    Ok(())
}
