use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meta::{is_default, nullable, quantities};
use super::{Affinity, LabelSelector, Labels, Meta, ResourceList, Shared, WorkloadKind};
use crate::text::Str;
use crate::version::Version;

/// Priority from which a pod is critical for the whole cluster: that of the class
/// `system-cluster-critical` (`pkg/apis/scheduling/types.go`, v1.36.3).
pub const SYSTEM_CRITICAL: i32 = 2_000_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

impl Pod {
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// Whether the Ready condition is there and `True`: what budgets count.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|c| c.status == "True")
    }

    /// Whether the scheduler has found no node for it.
    pub fn is_unschedulable(&self) -> bool {
        let scheduled = self.condition("PodScheduled");
        scheduled.is_some_and(|c| c.status == "False" && c.reason == "Unschedulable")
    }

    pub fn is_terminal(&self) -> bool {
        self.status.phase == "Succeeded" || self.status.phase == "Failed"
    }

    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether a workload of this kind controls it.
    pub fn is_of(&self, kind: WorkloadKind) -> bool {
        let controller = self.metadata.controller();
        controller.and_then(WorkloadKind::of) == Some(kind)
    }

    /// The names of the claims whose volumes it mounts.
    pub fn claims(&self) -> impl Iterator<Item = &Str> {
        let volumes = self.spec.volumes.iter();
        volumes.filter_map(|volume| Some(&volume.persistent_volume_claim.as_ref()?.claim_name))
    }

    /// Whether the kubelet runs it from a file or URL (`kubernetes.io/config.mirror`).
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotations.contains_key(MIRROR_ANNOTATION)
    }
}

/// Present, with any value, on the mirror pod of a static pod.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Empty until it is bound.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub node_name: Str,
    /// Priority, resolved from its class at admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub priority_class_name: Str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub service_account_name: Str,
    /// `OnFailure` or `Never`; empty for `Always`, the default.
    #[serde(skip_serializing_if = "str::is_empty", deserialize_with = "unless_always")]
    pub restart_policy: Str,
    /// Seconds between the request to stop and the kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub node_selector: Labels,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Shared<Affinity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Shared<Vec<SpreadConstraint>>>,
    /// Tolerations, in the order that decides.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub tolerations: Shared<Vec<Toleration>>,
    #[serde(deserialize_with = "nullable")]
    pub containers: Shared<Vec<Container>>,
    /// Containers that run first; with `restartPolicy: Always` they stay.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub init_containers: Shared<Vec<Container>>,
    #[serde(skip_serializing_if = "ResourceList::is_empty", deserialize_with = "quantities")]
    pub overhead: ResourceList,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Shared<ContainerResources>>,
    /// Volumes; decoders leave out those that tie a pod to nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub volumes: Shared<Vec<Volume>>,
}

fn unless_always<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Str, D::Error> {
    let policy: Str = nullable(from)?;
    Ok(if policy == "Always" {
        Str::default()
    } else {
        policy
    })
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    /// The label whose values are the domains.
    pub topology_key: Str,
    /// By how many pods a domain may exceed the one with the fewest.
    #[serde(skip_serializing_if = "is_default")]
    pub max_skew: i32,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub when_unsatisfiable: Str,
    /// The pods that count; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Of fewer domains the fewest pods are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// Whether nodes count that the pod does not select: `Honor` (the default) or `Ignore`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub node_affinity_policy: Str,
    /// Whether nodes count whose taints keep the pod away: `Honor` or `Ignore` (the default).
    #[serde(skip_serializing_if = "str::is_empty")]
    pub node_taints_policy: Str,
    /// Labels of the pod that the others must have as well.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub match_label_keys: Vec<Str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key; empty matches every key (with `Exists`).
    #[serde(skip_serializing_if = "str::is_empty")]
    pub key: Str,
    /// `Equal` (also when empty), `Exists`, `Lt` or `Gt`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub operator: Str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Str,
    /// Effect; empty matches every effect.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub effect: Str,
    /// For how long a `NoExecute` taint is tolerated; absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: Str,
    /// The version in the tag of its image, if that is one of Kubernetes: for its own components.
    #[serde(alias = "image", skip_serializing_if = "Option::is_none", with = "image_version")]
    pub image_version: Option<Version>,
    #[serde(deserialize_with = "nullable")]
    pub resources: ContainerResources,
    /// `Always` makes an init container a sidecar.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub restart_policy: Str,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "of_the_node")]
    pub ports: Vec<HostPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPort {
    pub host_port: i32,
    /// Empty for `TCP`, as the default is.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub protocol: Str,
    /// The address of the node; empty for all of them.
    #[serde(rename = "hostIP", skip_serializing_if = "str::is_empty")]
    pub host_ip: Str,
}

fn of_the_node<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<HostPort>, D::Error> {
    let mut ports: Vec<HostPort> = nullable(from)?;
    ports.retain(|port| port.host_port > 0);
    ports.shrink_to_fit();
    Ok(ports)
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerResources {
    /// The amounts that the scheduler counts.
    #[serde(skip_serializing_if = "ResourceList::is_empty", deserialize_with = "quantities")]
    pub requests: ResourceList,
    /// The amounts that the kernel enforces.
    #[serde(skip_serializing_if = "ResourceList::is_empty", deserialize_with = "quantities")]
    pub limits: ResourceList,
}

/// One volume; of its source only what decides whether a pod can move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub name: Str,
    /// Lost with the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPath>,
}

impl Volume {
    /// Whether something would be lost, or stay behind, when the pod goes elsewhere: not for
    /// what is projected into it, whose random names keep replicas from being equal.
    pub fn ties(&self) -> bool {
        self.empty_dir.is_some()
            || self.persistent_volume_claim.is_some()
            || self.host_path.is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EmptyDir {
    /// `Memory` or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub medium: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSource {
    pub claim_name: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPath {
    pub path: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Str,
    /// `Evicted`, `NodeLost`, …
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Str,
    /// Conditions; decoders leave out those that tell nothing here.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub conditions: Vec<PodCondition>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub start_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// `Ready`, `DisruptionTarget`, …
    #[serde(rename = "type")]
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Str,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub last_transition_time: Option<Timestamp>,
}

impl PodCondition {
    /// Whether it says if the pod serves, since when it has a place, that it is being evicted, or
    /// that the kubelet has not made its sandbox. The steps of its start, which the kubelet
    /// reports besides, weigh more than all the rest of a pod that has replicas.
    pub fn tells(&self) -> bool {
        match &*self.kind {
            "Ready" | "PodScheduled" | "DisruptionTarget" => true,
            "PodReadyToStartContainers" => self.status == "False",
            _ => false,
        }
    }
}

/// Reads the version out of an image's name, so that names need no memory.
mod image_version {
    use std::fmt;

    use serde::de::{Deserializer, Visitor};
    use serde::ser::Serializer;

    use crate::version::Version;

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(super) fn serialize<S: Serializer>(
        version: &Option<Version>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match version {
            Some(version) => serializer.collect_str(&format_args!("v{version}")),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Version>, D::Error> {
        from.deserialize_any(Image)
    }

    struct Image;

    impl Visitor<'_> for Image {
        type Value = Option<Version>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of an image")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E>(self, image: &str) -> Result<Self::Value, E> {
            Ok(Version::of_image(image))
        }
    }
}
