//! PersistentVolumes, VolumeAttachments and CSINodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meta::nullable;
use super::{Meta, NodeSelector};
use crate::text::Str;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolume {
    pub metadata: Meta,
    pub spec: PersistentVolumeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// `ReadWriteOnce`, …
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<Str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    pub namespace: Str,
    pub name: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// Any of its terms has to hold.
    #[serde(deserialize_with = "nullable")]
    pub required: NodeSelector,
}

/// `storage.k8s.io/v1` VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachment {
    pub metadata: Meta,
    pub spec: VolumeAttachmentSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: VolumeAttachmentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    pub attacher: Str,
    pub node_name: Str,
    #[serde(deserialize_with = "nullable")]
    pub source: VolumeAttachmentSource,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// Its name; absent for inline volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<Str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentStatus {
    pub attached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach_error: Option<VolumeError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach_error: Option<VolumeError>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeError {
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub time: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    pub message: Str,
}

/// `storage.k8s.io/v1` CSINode; it bears the node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiNode {
    pub metadata: Meta,
    pub spec: CsiNodeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    #[serde(deserialize_with = "nullable")]
    pub drivers: Vec<CsiDriver>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    pub name: Str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeCount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeCount {
    /// The number; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// The claim that each volume is bound to, by the volume's name.
pub fn claims(volumes: &[PersistentVolume]) -> BTreeMap<Str, (Str, Str)> {
    volumes
        .iter()
        .filter_map(|volume| {
            let claim = volume.spec.claim_ref.as_ref()?;
            let claim = (claim.namespace.clone(), claim.name.clone());
            Some((volume.metadata.name.clone(), claim))
        })
        .collect()
}
