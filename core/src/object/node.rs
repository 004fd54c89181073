use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meta::{is_default, nullable, quantities};
use super::{Meta, ResourceList};
use crate::text::Str;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// The cloud's name of the machine, `aws:///zone/id`.
    #[serde(rename = "providerID", skip_serializing_if = "str::is_empty")]
    pub provider_id: Str,
    #[serde(rename = "podCIDR", skip_serializing_if = "str::is_empty")]
    pub pod_cidr: Str,
    /// All pod ranges, one for each address family.
    #[serde(
        rename = "podCIDRs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "nullable"
    )]
    pub pod_cidrs: Vec<Str>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: Str,
    /// Value; empty for the taints of the control plane.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Str,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Str,
    /// When it was put there, where the one who did it said so.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub time_added: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "quantities")]
    pub capacity: ResourceList,
    #[serde(deserialize_with = "quantities")]
    pub allocatable: ResourceList,
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<NodeCondition>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress>,
    #[serde(skip_serializing_if = "is_default")]
    pub daemon_endpoints: DaemonEndpoints,
    pub node_info: NodeInfo,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub volumes_attached: Vec<AttachedVolume>,
}

impl Node {
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|c| c.status == "True")
    }

    /// Whether the input left the status out: the node lifecycle controller gives each node that
    /// has no condition Ready one within a minute (`tryUpdateNodeHealth`,
    /// `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, v1.36.3).
    pub fn lacks_conditions(&self) -> bool {
        self.condition("Ready").is_none()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// `Ready`, `MemoryPressure`, …
    #[serde(rename = "type")]
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Str,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub last_heartbeat_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAddress {
    /// `InternalIP`, `Hostname`, …
    #[serde(rename = "type")]
    pub kind: Str,
    pub address: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonEndpoints {
    pub kubelet_endpoint: DaemonEndpoint,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonEndpoint {
    /// 0 where the kubelet did not say.
    #[serde(rename = "Port")]
    pub port: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// `/etc/machine-id`.
    #[serde(rename = "machineID")]
    pub machine_id: Str,
    /// The SMBIOS UUID.
    #[serde(rename = "systemUUID")]
    pub system_uuid: Str,
    /// Changes with each boot.
    #[serde(rename = "bootID")]
    pub boot_id: Str,
    /// `uname -r`.
    pub kernel_version: Str,
    pub os_image: Str,
    /// `containerd://2.1.0`
    pub container_runtime_version: Str,
    /// `v1.36.3`
    pub kubelet_version: Str,
    /// `linux`
    pub operating_system: Str,
    /// `amd64`
    pub architecture: Str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<NodeSwap>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSwap {
    /// Bytes.
    pub capacity: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachedVolume {
    pub name: Str,
}
