//! Recognises objects without apiVersion and kind by their fields.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::kinds::{self, ObjectKind};
use super::piece::{Piece, Result};

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Shape {
    metadata: Option<IgnoredAny>,
    involved_object: Option<IgnoredAny>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<IgnoredAny>,
    lease_duration_seconds: Option<IgnoredAny>,
    persistent_volume_reclaim_policy: Option<IgnoredAny>,
    attacher: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    node_info: Option<IgnoredAny>,
    disruptions_allowed: Option<IgnoredAny>,
}

pub(super) fn kind_of(object: &Piece<'_>) -> Result<Option<ObjectKind>> {
    // Fields with these names may have any form in objects of other kinds.
    let Ok(shape) = serde_json::from_slice::<Shape>(&object.text) else {
        object.read::<IgnoredAny>()?;
        return Ok(None);
    };
    let (spec, status) = (
        shape.spec.unwrap_or_default(),
        shape.status.unwrap_or_default(),
    );
    let (version, kind) = match () {
        () if shape.metadata.is_none() => return Ok(None),
        () if status.node_info.is_some() => ("v1", "Node"),
        () if spec.containers.is_some() => ("v1", "Pod"),
        () if shape.involved_object.is_some() => ("v1", "Event"),
        () if spec.lease_duration_seconds.is_some() => ("coordination.k8s.io/v1", "Lease"),
        () if status.disruptions_allowed.is_some() => ("policy/v1", "PodDisruptionBudget"),
        () if spec.persistent_volume_reclaim_policy.is_some() => ("v1", "PersistentVolume"),
        () if spec.attacher.is_some() => ("storage.k8s.io/v1", "VolumeAttachment"),
        () => return Ok(None),
    };
    Ok(kinds::find(version, kind))
}
