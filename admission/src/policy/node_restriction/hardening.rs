//! Rules that the in-tree plugin does not have; each is off unless its mode is configured.

use nodelife_core::object::MIRROR_ANNOTATION;
use serde::Deserialize;

use super::labels::{is_listed, refused_changes};
use super::ownership::Meta;
use super::request::{Name, NodeRequest};
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::text::{Text, or_default};
use crate::review::Operation;
use crate::rule::{AdmissionRule, Mode};

type Check = fn(&NodeRequest<'_, '_>, AdmissionRule) -> Result<(), Denial>;

const RULES: [(AdmissionRule, Check); 8] = [
    (AdmissionRule::PodStatusMetadata, pod_status_metadata),
    (AdmissionRule::MirrorPodLabels, mirror_pod_labels),
    (AdmissionRule::SelfUncordon, self_uncordon),
    (AdmissionRule::RegistrationOwners, registration_owners),
    (AdmissionRule::Events, events),
    (AdmissionRule::SelfDeletion, self_deletion),
    (AdmissionRule::CsiDrivers, csi_drivers),
    (AdmissionRule::OwnLabels, own_labels),
];

/// The rules that refuse requests that the in-tree plugin allows: off unless their mode is configured.
pub(crate) fn rules() -> impl Iterator<Item = AdmissionRule> {
    RULES.iter().map(|(rule, _)| *rule)
}

/// Checks a request that the in-tree rules allow. Of several that deny it the strictest mode counts.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let on = RULES.iter().filter_map(|(rule, check)| {
        let mode = request.policy.mode(*rule);
        (mode != Mode::Off).then_some((mode, *rule, check))
    });
    let objections = on.filter_map(|(mode, rule, check)| Some((mode, check(request, rule).err()?)));
    objections
        .min_by_key(|(mode, _)| *mode)
        .map_or(Ok(()), |(_, denial)| Err(denial))
}

#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(default, deserialize_with = "or_default")]
    source: Source<'a>,
    /// `source` in events.k8s.io.
    #[serde(default, rename = "deprecatedSource", deserialize_with = "or_default")]
    deprecated_source: Source<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    unschedulable: Option<bool>,
    #[serde(borrow, deserialize_with = "or_default")]
    drivers: Vec<Name<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Source<'a> {
    #[serde(borrow)]
    host: Text<'a>,
}

fn written<'a>(
    request: &NodeRequest<'_, 'a>,
    rule: AdmissionRule,
) -> Result<Option<(Object<'a>, Object<'a>)>, Denial> {
    let before = match request.operation() {
        Operation::Create => Object::default(),
        Operation::Update => request.old_object(rule)?,
        Operation::Delete | Operation::Connect => return Ok(None),
    };
    Ok(Some((request.object(rule)?, before)))
}

/// Whether the request is `operation` on `resource/subresource` of the core group.
fn is(
    request: &NodeRequest<'_, '_>,
    resource: &str,
    subresource: &str,
    operation: Operation,
) -> bool {
    request.group_resource() == ("", resource)
        && request.subresource() == subresource
        && request.operation() == operation
}

/// In-tree does not check finalizers and annotations in pods/status; a finalizer blocks the deletion.
fn pod_status_metadata(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if !is(request, "pods", "status", Operation::Update) {
        return Ok(());
    }
    let old: Object<'_> = request.old_object(rule)?;
    let new: Object<'_> = request.object(rule)?;
    let changed = if old.metadata.annotations != new.metadata.annotations {
        "annotations"
    } else if old.metadata.finalizers != new.metadata.finalizers {
        "finalizers"
    } else {
        return Ok(());
    };
    let what = format!("cannot update {changed} through pod status");
    Err(request.denial(rule, &what))
}

/// The labels that the plugin `PodTopologyLabels` copies from the node to its pods, mirror pods too
/// (plugin/pkg/admission/podtopologylabels/admission.go; on since 1.35).
pub(crate) const TOPOLOGY: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// A label makes a mirror pod an endpoint of whatever Service selects it (kubernetes/enhancements#1314).
fn mirror_pod_labels(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if !is(request, "pods", "", Operation::Create) {
        return Ok(());
    }
    let pod: Object<'_> = request.object(rule)?;
    if !pod.metadata.annotations.contains_key(MIRROR_ANNOTATION) {
        return Ok(());
    }
    let allowed = &request.policy.mirror_pod_labels;
    let is_allowed = |key: &str| {
        TOPOLOGY.contains(&key)
            || allowed
                .iter()
                .any(|prefix| key.starts_with(prefix.as_str()))
    };
    let Some(label) = pod.metadata.labels.keys().find(|key| !is_allowed(key)) else {
        return Ok(());
    };
    let label = Quoted(label);
    let remedy = "nodeRestriction.mirrorPodLabels lists the labels that mirror pods may have";
    let what = format!("cannot create a mirror pod with the label {label}");
    Err(request.denial(rule, &what).remedy(remedy))
}

/// Only an administrator or a drain cordons and uncordons.
fn self_uncordon(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if request.group_resource() != ("", "nodes") || request.operation() != Operation::Update {
        return Ok(());
    }
    let old: Object<'_> = request.old_object(rule)?;
    let new: Object<'_> = request.object(rule)?;
    if old.spec.unschedulable != Some(true) || new.spec.unschedulable == Some(true) {
        return Ok(());
    }
    Err(request.denial(rule, "cannot make itself schedulable again"))
}

/// A kubelet registers without owners; with one, the garbage collector deletes the node when
/// the owner is gone (CVE-2025-5187 is the same on update).
fn registration_owners(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if !is(request, "nodes", "", Operation::Create) {
        return Ok(());
    }
    let new: Object<'_> = request.object(rule)?;
    if new.metadata.owner_references.is_empty() {
        return Ok(());
    }
    Err(request.denial(rule, "cannot register with ownerReferences"))
}

/// A node reports only its own events; an event with another host is forged.
fn events(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    let writes = matches!(request.operation(), Operation::Create | Operation::Update);
    if !matches!(request.group_resource(), ("" | "events.k8s.io", "events")) || !writes {
        return Ok(());
    }
    let event: Object<'_> = request.object(rule)?;
    let hosts = [&event.source.host, &event.deprecated_source.host];
    let Some(host) = hosts
        .into_iter()
        .find(|host| !host.is_empty() && ***host != *request.node)
    else {
        return Ok(());
    };
    let host = Quoted(host);
    let what = format!("cannot write events of the host {host}");
    Err(request.denial(rule, &what))
}

/// Only the authorizer prevents a node from deleting itself. If a role allows it, an attacker with
/// the node's credentials can delete the node and register it again without its taints.
fn self_deletion(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if !is(request, "nodes", "", Operation::Delete) || request.name() != request.node {
        return Ok(());
    }
    Err(request.denial(rule, "cannot delete itself"))
}

/// Pods and volumes are placed by the drivers that a node announces. Earlier announcements pass:
/// the API server allows no change of a driver except its `allocatable.count`
/// (`ValidateCSINodeUpdate`, pkg/apis/storage/validation/validation.go, v1.36.3).
fn csi_drivers(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if request.group_resource() != ("storage.k8s.io", "csinodes") {
        return Ok(());
    }
    let Some((new, before)) = written(request, rule)? else {
        return Ok(());
    };
    let allowed = &request.policy.csi_drivers;
    let before = before.spec.drivers;
    let is_allowed = |name: &str| {
        allowed.iter().any(|one| one == name) || before.iter().any(|one| *one.name == *name)
    };
    let mut drivers = new.spec.drivers.iter();
    let Some(driver) = drivers.find(|driver| !is_allowed(&driver.name)) else {
        return Ok(());
    };
    let driver = Quoted(&driver.name);
    let remedy = "nodeRestriction.csiDrivers lists the drivers that nodes may announce";
    let what = format!("cannot announce the CSI driver {driver}");
    Err(request.denial(rule, &what).remedy(remedy))
}

/// In-tree protects only labels with a prefix of Kubernetes. Others attract the pods that select them.
fn own_labels(request: &NodeRequest<'_, '_>, rule: AdmissionRule) -> Result<(), Denial> {
    if request.group_resource() != ("", "nodes") {
        return Ok(());
    }
    let Some((new, before)) = written(request, rule)? else {
        return Ok(());
    };
    let listed = &request.policy.own_labels;
    let is_refused = |key: &str| !is_listed(key, listed);
    let (new, before) = (new.metadata.labels, before.metadata.labels);
    let Some(labels) = refused_changes(&new, &before, is_refused) else {
        return Ok(());
    };
    let remedy = "set them as an administrator, or list them in nodeRestriction.ownLabels. Without the rule ownLabels, \
        labels without a prefix of Kubernetes are not protected";
    let what = format!("cannot write the labels: {labels}");
    Err(request.denial(rule, &what).remedy(remedy))
}
