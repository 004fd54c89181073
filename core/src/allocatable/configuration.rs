//! KubeletConfiguration, reduced to the fields that nodelife reads.
//!
//! The same document means different things by where it comes from
//! (`cmd/kubelet/app/server.go`, v1.36.3): in a **file** an absent `evictionHard`
//! means the default thresholds; in **configz** it means none, since empty maps
//! are left out there. [`KubeletConfiguration::from_files`] and
//! [`KubeletConfiguration::from_configz`] settle that, so that behind them an empty
//! map is an empty map.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::go_duration::GoDuration;
use crate::object::{ResourceList, nullable};
use crate::text::Str;

/// `DefaultEvictionHard` (`pkg/kubelet/eviction/defaults_linux.go`, v1.36.3).
pub const DEFAULT_EVICTION_HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

/// The default `maxPods` (`pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3).
pub const DEFAULT_MAX_PODS: i64 = 110;

#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    #[error("failed to read the kubelet configuration: {0}")]
    Shape(#[from] serde_json::Error),
    #[error(
        "failed to read the kubelet configuration: expected kind KubeletConfiguration, found {0}"
    )]
    Kind(String),
    #[error("failed to read --eviction-hard: expected signal<amount, found {0:?}")]
    EvictionHard(String),
}

/// `kubelet.config.k8s.io/v1beta1` KubeletConfiguration. Absent fields are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfiguration {
    #[serde(deserialize_with = "nullable")]
    pub kube_reserved: ResourceList,
    #[serde(deserialize_with = "nullable")]
    pub system_reserved: ResourceList,
    #[serde(deserialize_with = "null_is_empty")]
    pub eviction_hard: BTreeMap<Str, Str>,
    #[serde(deserialize_with = "null_is_empty")]
    pub eviction_soft: BTreeMap<Str, Str>,
    #[serde(deserialize_with = "null_is_empty")]
    pub eviction_soft_grace_period: BTreeMap<Str, Str>,
    #[serde(deserialize_with = "null_is_empty")]
    pub eviction_minimum_reclaim: BTreeMap<Str, Str>,
    pub enforce_node_allocatable: Option<Vec<Str>>,
    #[serde(deserialize_with = "nullable")]
    pub kube_reserved_cgroup: Str,
    #[serde(deserialize_with = "nullable")]
    pub system_reserved_cgroup: Str,
    #[serde(rename = "reservedSystemCPUs", deserialize_with = "nullable")]
    pub reserved_system_cpus: Str,
    #[serde(deserialize_with = "nullable")]
    pub reserved_memory: Vec<MemoryReservation>,
    #[serde(deserialize_with = "nullable")]
    pub cpu_manager_policy: Str,
    #[serde(deserialize_with = "null_is_empty")]
    pub cpu_manager_policy_options: BTreeMap<Str, Str>,
    #[serde(deserialize_with = "nullable")]
    pub memory_manager_policy: Str,
    #[serde(rename = "cgroupsPerQOS")]
    pub cgroups_per_qos: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    pub cgroup_driver: Str,
    #[serde(rename = "failCgroupV1")]
    pub fail_cgroup_v1: Option<bool>,
    pub max_pods: Option<i64>,
    pub pods_per_core: Option<i64>,
    pub node_status_report_frequency: Option<GoDuration>,
    pub node_lease_duration_seconds: Option<i32>,
    pub shutdown_grace_period: Option<GoDuration>,
    pub shutdown_grace_period_critical_pods: Option<GoDuration>,
    #[serde(deserialize_with = "nullable")]
    pub shutdown_grace_period_by_pod_priority: Vec<ShutdownByPriority>,
    #[serde(rename = "serverTLSBootstrap")]
    pub server_tls_bootstrap: Option<bool>,
    pub rotate_certificates: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    pub tls_cert_file: Str,
    #[serde(deserialize_with = "nullable")]
    pub authentication: Authentication,
    #[serde(deserialize_with = "nullable")]
    pub authorization: Authorization,
    pub read_only_port: Option<i32>,
    pub fail_swap_on: Option<bool>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    pub image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    pub image_gc_low_threshold_percent: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub container_log_max_size: Str,
    #[serde(deserialize_with = "nullable")]
    pub feature_gates: BTreeMap<Str, bool>,
    /// All other fields, as they were read: kubelets of other versions judge them, too.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletFiles {
    pub file: Option<Str>,
    /// Those of `--config-dir` with their names, in the kubelet's order.
    pub drop_ins: Vec<(Str, Str)>,
}

/// Memory that the Memory Manager keeps back on one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryReservation {
    pub numa_node: i32,
    pub limits: ResourceList,
}

/// Seconds for pods from a priority on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownByPriority {
    pub priority: i32,
    pub shutdown_grace_period_seconds: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Authentication {
    #[serde(deserialize_with = "nullable")]
    pub anonymous: Enabled,
    #[serde(deserialize_with = "nullable")]
    pub webhook: Enabled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Enabled {
    /// On or off; absent: the default.
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Authorization {
    /// `Webhook` or `AlwaysAllow`.
    #[serde(deserialize_with = "nullable")]
    pub mode: Str,
}

impl KubeletConfiguration {
    /// Replaces the thresholds by those of the flag `--eviction-hard`: flags are read last, and the map is
    /// replaced as a whole (`kubeletConfigFlagPrecedence`, `cmd/kubelet/app/server.go`, v1.36.3).
    pub fn set_eviction_hard(&mut self, text: &str) -> Result<(), ConfigurationError> {
        let pairs = text.split(',').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| match pair.split_once('<') {
            Some((signal, amount)) => Ok((signal.trim().into(), amount.trim().into())),
            None => Err(ConfigurationError::EvictionHard(pair.into())),
        });
        self.eviction_hard = pairs.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Reads what `/configz` answers, with or without its envelope `kubeletconfig`.
    pub fn from_configz(mut document: Value) -> Result<Self, ConfigurationError> {
        if let Some(inner) = document.get_mut("kubeletconfig") {
            document = inner.take();
        }
        Ok(serde_json::from_value(document)?)
    }

    /// Reads the file of `--config` and the drop-ins of `--config-dir`, in the order of
    /// their names. Without a file there are no default thresholds (`loadConfigFile` is
    /// the only place that sets them).
    pub fn from_files(
        file: Option<Value>,
        drop_ins: impl IntoIterator<Item = Value>,
    ) -> Result<Self, ConfigurationError> {
        Self::from_merged(Self::merge_files(file, drop_ins)?)
    }

    pub fn merge_files(
        file: Option<Value>,
        drop_ins: impl IntoIterator<Item = Value>,
    ) -> Result<Value, ConfigurationError> {
        let mut document = match file {
            Some(mut file) => {
                check_kind(&file)?;
                default_eviction_hard(&mut file);
                file
            }
            None => Value::Object(Map::new()),
        };
        for drop_in in drop_ins {
            check_kind(&drop_in)?;
            merge(&mut document, drop_in);
        }
        Ok(document)
    }

    pub fn from_merged(document: Value) -> Result<Self, ConfigurationError> {
        let mut configuration: Self = serde_json::from_value(document)?;
        configuration.zeros_are_defaults();
        Ok(configuration)
    }

    /// In a file 0 stands for the default (`SetDefaults_KubeletConfiguration`,
    /// `pkg/kubelet/apis/config/v1beta1/defaults.go`, v1.36.3); configz says what came of it.
    fn zeros_are_defaults(&mut self) {
        self.max_pods.take_if(|pods| *pods == 0);
        (self.node_lease_duration_seconds).take_if(|seconds| *seconds == 0);
        (self.node_status_report_frequency).take_if(|every| *every == GoDuration::default());
    }

    /// How many pods the node takes: `maxPods`, or fewer by `podsPerCore`.
    pub fn pod_limit(&self, cores: i64) -> i64 {
        let most = self.max_pods.unwrap_or(DEFAULT_MAX_PODS);
        match self.pods_per_core {
            Some(each) if each > 0 => most.min(cores.saturating_mul(each)),
            _ => most,
        }
    }

    /// The cgroups in which limits are enforced; `pods` by default.
    pub fn enforced(&self) -> Vec<&str> {
        let list = self.enforce_node_allocatable.as_ref();
        list.map_or_else(
            || vec!["pods"],
            |list| list.iter().map(Str::as_str).collect(),
        )
    }
}

/// A null in a file's map is an empty text, as Go reads it; in a drop-in it is a deletion, and gone.
fn null_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Str, Str>, D::Error> {
    let map: Option<BTreeMap<Str, Option<Str>>> = Option::deserialize(from)?;
    let pairs = map.unwrap_or_default().into_iter();
    Ok(pairs
        .map(|(signal, text)| (signal, text.unwrap_or_default()))
        .collect())
}

fn check_kind(document: &Value) -> Result<(), ConfigurationError> {
    match document.get("kind").and_then(Value::as_str) {
        Some("KubeletConfiguration") | None => Ok(()),
        Some(other) => Err(ConfigurationError::Kind(other.into())),
    }
}

fn default_eviction_hard(file: &mut Value) {
    let asks_to_merge = file.get("mergeDefaultEvictionSettings") == Some(&Value::Bool(true));
    let Some(fields) = file.as_object_mut() else {
        return;
    };
    let given = fields.entry("evictionHard").or_insert(Value::Null);
    if given.is_null() {
        *given = json!({});
    } else if !asks_to_merge {
        return;
    }
    if let Some(thresholds) = given.as_object_mut() {
        for (signal, amount) in DEFAULT_EVICTION_HARD {
            thresholds.entry(signal).or_insert_with(|| amount.into());
        }
    }
}

/// JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(&key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(document: Value) -> KubeletConfiguration {
        KubeletConfiguration::from_files(Some(document), []).unwrap()
    }

    #[test]
    fn absent_thresholds_are_the_defaults_in_a_file_and_none_in_configz() {
        assert_eq!(file(json!({})).eviction_hard.len(), 5);
        assert_eq!(file(json!({"evictionHard": null})).eviction_hard.len(), 5);
        assert!(file(json!({"evictionHard": {}})).eviction_hard.is_empty());
        let configz = KubeletConfiguration::from_configz(json!({"kubeletconfig": {}}));
        assert!(configz.unwrap().eviction_hard.is_empty());
    }

    #[test]
    fn the_flag_replaces_the_hard_thresholds() {
        let mut configuration = file(json!({}));
        let flag = "memory.available<500Mi, nodefs.available < 10%,";
        configuration.set_eviction_hard(flag).unwrap();
        assert_eq!(configuration.eviction_hard.len(), 2);
        assert_eq!(configuration.eviction_hard["nodefs.available"], "10%");
        let wrong = configuration.set_eviction_hard("memory.available=1Gi");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "failed to read --eviction-hard: expected signal<amount, found \"memory.available=1Gi\""
        );
    }

    #[test]
    fn given_thresholds_replace_the_defaults_unless_merged() {
        let given = json!({"memory.available": "1Gi"});
        assert_eq!(file(json!({"evictionHard": given})).eviction_hard.len(), 1);
        let merged = file(json!({"evictionHard": given, "mergeDefaultEvictionSettings": true}));
        assert_eq!(merged.eviction_hard.len(), 5);
        assert_eq!(merged.eviction_hard["memory.available"], "1Gi");
    }

    #[test]
    fn a_kubelet_without_a_file_has_no_thresholds() {
        let none = KubeletConfiguration::from_files(None, []).unwrap();
        assert!(none.eviction_hard.is_empty());
    }

    #[test]
    fn drop_ins_merge_key_by_key_into_the_defaulted_file() {
        let drop_ins = [
            json!({"evictionHard": {"memory.available": "200Mi", "imagefs.available": null}}),
            json!({"evictionHard": {}, "enforceNodeAllocatable": ["none"]}),
            json!({"mergeDefaultEvictionSettings": true}),
        ];
        let merged = KubeletConfiguration::from_files(Some(json!({})), drop_ins).unwrap();
        assert_eq!(merged.eviction_hard.len(), 4, "a merge asked for too late");
        assert_eq!(merged.eviction_hard["memory.available"], "200Mi");
        assert_eq!(merged.enforced(), ["none"]);
    }

    #[test]
    fn an_unquoted_number_is_refused_as_the_kubelet_does() {
        let number = json!({"kubeReserved": {"cpu": 1}});
        assert!(KubeletConfiguration::from_files(Some(number), []).is_err());
        let foreign = json!({"kind": "KubeProxyConfiguration"});
        assert!(KubeletConfiguration::from_files(Some(foreign), []).is_err());
    }

    #[test]
    fn pods_are_limited_by_core_where_that_is_asked_for() {
        assert_eq!(file(json!({})).pod_limit(4), 110);
        assert_eq!(file(json!({"podsPerCore": 10})).pod_limit(4), 40);
    }
}
