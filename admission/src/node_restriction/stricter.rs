//! What the in-tree plugin leaves open and a cluster may close: rules of our own, each off
//! unless the policy names its mode.

use serde::Deserialize;

use super::super::json::{Pairs, Text, or_default};
use super::super::lookup::MIRROR_ANNOTATION;
use super::super::policy::Mode;
use super::super::quote::Quoted;
use super::super::review::Operation;
use super::super::verdict::{Denial, Rule};
use super::Asked;
use super::object::Owner;

type Check = fn(&Asked<'_, '_>) -> Result<(), Denial>;

const RULES: [(Rule, Check); 7] = [
    (Rule::PodStatusMetadata, pod_status_metadata),
    (Rule::MirrorPodLabels, mirror_pod_labels),
    (Rule::SelfUncordon, self_uncordon),
    (Rule::RegistrationOwners, registration_owners),
    (Rule::Events, events),
    (Rule::SelfDeletion, self_deletion),
    (Rule::CsiDrivers, csi_drivers),
];

/// Checks a request that the in-tree rules let pass. Of several objections the one in the
/// strictest mode counts.
pub(super) fn check(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let on = RULES.iter().filter_map(|(rule, check)| {
        let mode = asked.policy.mode(*rule);
        (mode != Mode::Off).then_some((mode, check))
    });
    let objections = on.filter_map(|(mode, check)| Some((mode, check(asked).err()?)));
    objections
        .min_by_key(|(mode, _)| *mode)
        .map_or(Ok(()), |(_, denial)| Err(denial))
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(borrow, default, deserialize_with = "or_default")]
    source: Source<'a>,
    /// `source` in events.k8s.io.
    #[serde(
        borrow,
        default,
        rename = "deprecatedSource",
        deserialize_with = "or_default"
    )]
    deprecated_source: Source<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    labels: Pairs<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    annotations: Pairs<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    finalizers: Vec<Text<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    owner_references: Vec<Owner<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    unschedulable: Option<bool>,
    /// Of a `CSINode`.
    #[serde(borrow, deserialize_with = "or_default")]
    drivers: Vec<Driver<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Driver<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source<'a> {
    #[serde(borrow)]
    host: Text<'a>,
}

/// Whether the request is `operation` on `resource/subresource` of the core group.
fn is(asked: &Asked<'_, '_>, resource: &str, subresource: &str, operation: Operation) -> bool {
    let request = asked.request;
    request.group_resource() == ("", resource)
        && request.subresource() == subresource
        && request.operation() == operation
}

/// Finalizers and annotations go through pods/status unchecked, and a finalizer keeps a pod
/// from being deleted.
fn pod_status_metadata(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::PodStatusMetadata;
    if !is(asked, "pods", "status", Operation::Update) {
        return Ok(());
    }
    let old: Object<'_> = asked.request.old_object(rule)?;
    let new: Object<'_> = asked.request.object(rule)?;
    let node = Quoted(asked.node);
    let changed = if old.metadata.annotations != new.metadata.annotations {
        "annotations"
    } else if old.metadata.finalizers != new.metadata.finalizers {
        "finalizers"
    } else {
        return Ok(());
    };
    Err(Denial::forbidden(
        rule,
        format!("node {node} cannot update {changed} through pod status"),
    ))
}

/// A label on a mirror pod makes it an endpoint of whatever Service selects it
/// (kubernetes/enhancements#1314).
fn mirror_pod_labels(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::MirrorPodLabels;
    if !is(asked, "pods", "", Operation::Create) {
        return Ok(());
    }
    let pod: Object<'_> = asked.request.object(rule)?;
    if !pod.metadata.annotations.contains_key(MIRROR_ANNOTATION) {
        return Ok(());
    }
    let allowed = &asked.policy.mirror_pod_labels;
    let is_allowed = |key: &str| {
        allowed
            .iter()
            .any(|prefix| key.starts_with(prefix.as_str()))
    };
    let Some(label) = pod.metadata.labels.keys().find(|key| !is_allowed(key)) else {
        return Ok(());
    };
    let (node, label) = (Quoted(asked.node), Quoted(label));
    Err(Denial::forbidden(
        rule,
        format!("node {node} cannot create a mirror pod with the label {label}"),
    )
    .remedy("nodeRestriction.mirrorPodLabels lists what mirror pods may bear"))
}

/// A cordon is a person's word, or a drain's.
fn self_uncordon(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::SelfUncordon;
    if asked.request.group_resource() != ("", "nodes")
        || asked.request.operation() != Operation::Update
    {
        return Ok(());
    }
    let old: Object<'_> = asked.request.old_object(rule)?;
    let new: Object<'_> = asked.request.object(rule)?;
    if old.spec.unschedulable != Some(true) || new.spec.unschedulable == Some(true) {
        return Ok(());
    }
    let node = Quoted(asked.node);
    Err(Denial::forbidden(
        rule,
        format!("node {node} cannot make itself schedulable again"),
    ))
}

/// A kubelet registers without owners; with one, the garbage collector deletes the node when
/// the owner is gone (CVE-2025-5187 is the same on update).
fn registration_owners(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::RegistrationOwners;
    if !is(asked, "nodes", "", Operation::Create) {
        return Ok(());
    }
    let new: Object<'_> = asked.request.object(rule)?;
    if new.metadata.owner_references.is_empty() {
        return Ok(());
    }
    let node = Quoted(asked.node);
    Err(Denial::forbidden(
        rule,
        format!("node {node} cannot register with ownerReferences"),
    ))
}

/// Events say what happened on a node; another node's words are forged.
fn events(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::Events;
    let request = asked.request;
    let writes = matches!(request.operation(), Operation::Create | Operation::Update);
    if !matches!(request.group_resource(), ("" | "events.k8s.io", "events")) || !writes {
        return Ok(());
    }
    let event: Object<'_> = request.object(rule)?;
    let hosts = [&event.source.host, &event.deprecated_source.host];
    let Some(host) = hosts
        .into_iter()
        .find(|host| !host.is_empty() && ***host != *asked.node)
    else {
        return Ok(());
    };
    let (node, host) = (Quoted(asked.node), Quoted(host));
    Err(Denial::forbidden(
        rule,
        format!("node {node} cannot write events of the host {host}"),
    ))
}

/// Only the authorizer keeps a node from deleting itself. Where a role allows it, whoever has
/// the node's credentials deletes it and registers it anew, without the taints that kept
/// workloads away.
fn self_deletion(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    if !is(asked, "nodes", "", Operation::Delete) || asked.request.name() != asked.node {
        return Ok(());
    }
    let node = Quoted(asked.node);
    Err(Denial::forbidden(
        Rule::SelfDeletion,
        format!("node {node} cannot delete itself"),
    ))
}

/// Pods and volumes follow the drivers that a node announces. What it announced before stays as
/// it is: the API server lets no field of a driver change but the count that fits
/// (`ValidateCSINodeUpdate`, pkg/apis/storage/validation/validation.go, v1.36.3).
fn csi_drivers(asked: &Asked<'_, '_>) -> Result<(), Denial> {
    let rule = Rule::CsiDrivers;
    let request = asked.request;
    if request.group_resource() != ("storage.k8s.io", "csinodes") {
        return Ok(());
    }
    let before: Option<Object<'_>> = match request.operation() {
        Operation::Create => None,
        Operation::Update => Some(request.old_object(rule)?),
        Operation::Delete | Operation::Connect => return Ok(()),
    };
    let before = before.map_or_else(Vec::new, |object| object.spec.drivers);
    let new: Object<'_> = request.object(rule)?;
    let allowed = &asked.policy.csi_drivers;
    let is_allowed = |name: &str| {
        allowed.iter().any(|one| one == name) || before.iter().any(|one| *one.name == *name)
    };
    let mut drivers = new.spec.drivers.iter();
    let Some(driver) = drivers.find(|driver| !is_allowed(&driver.name)) else {
        return Ok(());
    };
    let (node, driver) = (Quoted(asked.node), Quoted(&driver.name));
    Err(Denial::forbidden(
        rule,
        format!("node {node} cannot announce the CSI driver {driver}"),
    )
    .remedy("nodeRestriction.csiDrivers lists the drivers that nodes may announce"))
}
