//! PersistentVolumes, VolumeAttachments and CSINodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meta::null_is_default;
use super::{Meta, NodeSelector};
use crate::text::Str;

/// `v1` PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolume {
    /// Metadata.
    pub metadata: Meta,
    /// What it is.
    pub spec: PersistentVolumeSpec,
}

/// `spec` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// `ReadWriteOnce`, …
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<Str>,
    /// The claim that is bound to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimRef>,
    /// Where it can be reached from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity: Option<VolumeNodeAffinity>,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
}

/// `nodeAffinity` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// Any of its terms has to hold.
    #[serde(deserialize_with = "null_is_default")]
    pub required: NodeSelector,
}

/// `storage.k8s.io/v1` VolumeAttachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachment {
    /// Metadata.
    pub metadata: Meta,
    /// Which volume, to which node.
    pub spec: VolumeAttachmentSpec,
    /// How far it is.
    #[serde(deserialize_with = "null_is_default")]
    pub status: VolumeAttachmentStatus,
}

/// `spec` of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSpec {
    /// The CSI driver.
    pub attacher: Str,
    /// The node.
    pub node_name: Str,
    /// The volume.
    #[serde(deserialize_with = "null_is_default")]
    pub source: VolumeAttachmentSource,
}

/// The volume of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentSource {
    /// Its name; absent for inline volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_name: Option<Str>,
}

/// `status` of an attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeAttachmentStatus {
    /// Whether the driver has attached it.
    pub attached: bool,
    /// The last failure to attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attach_error: Option<VolumeError>,
    /// The last failure to detach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detach_error: Option<VolumeError>,
}

/// A failure of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeError {
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// What.
    #[serde(deserialize_with = "null_is_default")]
    pub message: Str,
}

/// `storage.k8s.io/v1` CSINode; it bears the node's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiNode {
    /// Metadata.
    pub metadata: Meta,
    /// The drivers on the node.
    pub spec: CsiNodeSpec,
}

/// `spec` of a CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// The drivers.
    #[serde(deserialize_with = "null_is_default")]
    pub drivers: Vec<CsiDriver>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// Its name.
    pub name: Str,
    /// What the node takes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<VolumeCount>,
}

/// How many volumes a node takes.
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
