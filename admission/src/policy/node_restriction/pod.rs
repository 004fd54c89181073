//! pods: creation of mirror pods, deletion, status and eviction.

use nodelife_core::object::MIRROR_ANNOTATION;
use nodelife_core::quantity::Quantity;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ownership::Meta;
use super::pod_references;
use super::request::{Named, NodeRequest, not_found, wrong_result};
use crate::decision::Checked;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::lookup::{Lookup, LookupResult, PodFacts};
use crate::review::Operation;
use crate::rule::AdmissionRule;

const MIRROR_REMEDY: &str = "a kubelet may only create the mirror pods of its own static pods";
const OWN_PODS_REMEDY: &str = "a kubelet may only act on pods of its own node";

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(default, deserialize_with = "or_default")]
    status: PodStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Text<'a>,
}

/// `admitPod`, and the refusal of every subresource that is not status or eviction.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Checked {
    let rule = AdmissionRule::Pods;
    if !request.subresource().is_empty() {
        let subresource = Quoted(request.subresource());
        let message = format!(
            "unexpected pod subresource {subresource}, only 'status' and 'eviction' are allowed"
        );
        return Err(Denial::forbidden(rule, message).into());
    }
    match request.operation() {
        Operation::Create => check_create(request),
        Operation::Delete => {
            // In-tree uses its lister; the review contains the object.
            let old: Pod<'_> = request.old_object(rule)?;
            if &*old.spec.node_name != request.node {
                let what = "can only delete pods with spec.nodeName set to itself";
                return Err(request.denial(rule, what).remedy(OWN_PODS_REMEDY).into());
            }
            Ok(())
        }
        operation => {
            let (operation, node) = (Quoted(operation.as_str()), Quoted(request.node));
            let message = format!(
                "unexpected operation {operation}, node {node} can only create and delete mirror pods"
            );
            Err(Denial::forbidden(rule, message).into())
        }
    }
}

/// `admitPodCreate`.
fn check_create(request: &NodeRequest<'_, '_>) -> Checked {
    let deny = |what: &str| {
        let denial = request.denial(AdmissionRule::Pods, what);
        Err(denial.remedy(MIRROR_REMEDY).into())
    };
    let pod: Pod<'_> = request.object(AdmissionRule::Pods)?;
    if !pod.metadata.annotations.contains_key(MIRROR_ANNOTATION) {
        let (annotation, node) = (Quoted(MIRROR_ANNOTATION), Quoted(request.node));
        let message = format!(
            "pod does not have {annotation} annotation, node {node} can only create mirror pods"
        );
        let denial = Denial::forbidden(AdmissionRule::Pods, message);
        return Err(denial.remedy(MIRROR_REMEDY).into());
    }
    if &*pod.spec.node_name != request.node {
        return deny("can only create pods with spec.nodeName set to itself");
    }
    let owner = match pod.metadata.owner_references.as_slice() {
        [owner] => owner,
        [] => return deny("can only create pods with an owner reference set to itself"),
        _ => return deny("can only create pods with a single owner reference set to itself"),
    };
    if &*owner.api_version != "v1" || &*owner.kind != "Node" || &*owner.name != request.node {
        return deny("can only create pods with an owner reference set to itself");
    }
    if owner.controller != Some(true) {
        return deny("can only create pods with a controller owner reference set to itself");
    }
    if owner.block_owner_deletion == Some(true) {
        return deny("must not set blockOwnerDeletion on an owner reference");
    }
    let name = request.node;
    match request.look_up(AdmissionRule::Pods, Lookup::Node(name.to_owned()))? {
        Ok(LookupResult::Uid(uid)) if **uid == *owner.uid => {}
        Ok(LookupResult::Uid(uid)) => {
            let expected = &owner.uid;
            let message = format!("node {name} UID mismatch: expected {expected}");
            let denial = Denial::forbidden(AdmissionRule::Pods, message);
            return Err(denial.found(format!(" got {uid}")).into());
        }
        Ok(_) => return Err(wrong_result(AdmissionRule::Pods)),
        Err(message) => return Err(not_found(AdmissionRule::Pods, message)),
    }
    match pod_references::find(request)? {
        None => Ok(()),
        Some(resource) => deny(&format!("can not create pods that reference {resource}")),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    resource_claim_statuses: Vec<ClaimStatus<'a>>,
    extended_resource_claim_status: Option<ExtendedClaimStatus<'a>>,
    #[serde(deserialize_with = "or_default")]
    node_allocatable_resource_claim_statuses: Vec<AllocatableClaimStatus<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatus<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    resource_claim_name: Option<Text<'a>>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtendedClaimStatus<'a> {
    #[serde(borrow, default)]
    resource_claim_name: Text<'a>,
    #[serde(default, deserialize_with = "or_default")]
    request_mappings: Vec<RequestMapping<'a>>,
}

#[derive(PartialEq, Deserialize)]
struct RequestMapping<'a> {
    #[serde(borrow, default, rename = "containerName")]
    container: Text<'a>,
    #[serde(default, rename = "resourceName")]
    resource: Text<'a>,
    #[serde(default, rename = "requestName")]
    request: Text<'a>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllocatableClaimStatus<'a> {
    #[serde(borrow)]
    resource_claim_name: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Text<'a>>,
    #[serde(deserialize_with = "or_default")]
    mapping: Vec<MappedResource<'a>>,
    #[serde(deserialize_with = "or_default")]
    overhead: Vec<OverheadResource<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(default)]
struct MappedResource<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    quantity: Option<Amount<'a>>,
}

#[derive(Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OverheadResource<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    per_pod: Option<Amount<'a>>,
    per_container: Option<Amount<'a>>,
}

/// A quantity, compared by value.
#[derive(Deserialize)]
struct Amount<'a>(#[serde(borrow)] Text<'a>);

impl PartialEq for Amount<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (Quantity::parse(&self.0), Quantity::parse(&other.0)) {
            (Ok(one), Ok(other)) => one == other,
            _ => self.0 == other.0,
        }
    }
}

/// `admitPodStatus`.
pub(super) fn check_status(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let rule = AdmissionRule::PodStatus;
    let deny = |what| Err(request.denial(rule, what));
    if request.operation() != Operation::Update {
        let operation = Quoted(request.operation().as_str());
        let message = format!("unexpected operation {operation}");
        return Err(Denial::forbidden(rule, message));
    }
    let old: Pod<'_> = request.old_object(rule)?;
    if &*old.spec.node_name != request.node {
        let what = "can only update pod status for pods with spec.nodeName set to itself";
        return Err(request.denial(rule, what).remedy(OWN_PODS_REMEDY));
    }
    let new: Pod<'_> = request.object(rule)?;
    if old.metadata.labels != new.metadata.labels {
        return deny("cannot update labels through pod status");
    }
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses {
        return deny("cannot update resource claim statues");
    }
    if old.status.extended_resource_claim_status != new.status.extended_resource_claim_status {
        return deny("cannot update extended resource claim status");
    }
    if request.policy.version().is_1_37_or_later()
        && old.status.node_allocatable_resource_claim_statuses
            != new.status.node_allocatable_resource_claim_statuses
    {
        return deny("cannot update node allocatable resource claim statuses");
    }
    Ok(())
}

/// `admitPodEviction`. No DELETE admission follows an eviction, so this is the only check.
pub(super) fn check_eviction(request: &NodeRequest<'_, '_>) -> Checked {
    let rule = AdmissionRule::Evictions;
    if request.operation() != Operation::Create {
        let message = format!("unexpected operation {}", request.operation().as_str());
        return Err(Denial::forbidden(rule, message).into());
    }
    // The name in the URL counts, not the one in the body.
    let name = if request.name().is_empty() {
        let eviction: Named<'_> = request.object(rule)?;
        eviction.metadata.name.to_string()
    } else {
        // A body is required even so.
        let _: &RawValue = request.object(rule)?;
        request.name().to_owned()
    };
    if name.is_empty() {
        let message = "could not determine pod from request data".to_owned();
        return Err(Denial::forbidden(rule, message).into());
    }
    let pod = look_up_pod(request, rule, name)?;
    if pod.node != request.node {
        let node = request.node;
        let message = format!("node {node} can only evict pods with spec.nodeName set to itself");
        let denial = Denial::forbidden(rule, message);
        return Err(denial.remedy(OWN_PODS_REMEDY).into());
    }
    Ok(())
}

pub(super) fn look_up_pod<'k>(
    request: &'k NodeRequest<'_, '_>,
    rule: AdmissionRule,
    name: String,
) -> Checked<&'k PodFacts> {
    find_pod(request, rule, name)?.map_err(|message| not_found(rule, message))
}

/// The same, with in-tree's message if the pod does not exist.
pub(super) fn find_pod<'k>(
    request: &'k NodeRequest<'_, '_>,
    rule: AdmissionRule,
    name: String,
) -> Checked<Result<&'k PodFacts, String>> {
    let namespace = request.namespace().to_owned();
    match request.look_up(rule, Lookup::Pod { namespace, name })? {
        Ok(LookupResult::Pod(pod)) => Ok(Ok(pod)),
        Ok(_) => Err(wrong_result(rule)),
        Err(message) => Ok(Err(message)),
    }
}
