//! Workloads: the controllers of pods, in one common type.

use serde::{Deserialize, Serialize};

use super::meta::{is_default, nullable};
use super::{Condition, LabelSelector, Labels, Meta};
use crate::text::Str;

/// A controller of pods: what nodelife reads is the same for all kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub kind: WorkloadKind,
    pub metadata: Meta,
    #[serde(default)]
    pub spec: WorkloadSpec,
    #[serde(default, deserialize_with = "nullable")]
    pub status: WorkloadStatus,
}

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum WorkloadKind {
        /// `apps/v1`
        Deployment = "Deployment",
        /// `apps/v1`
        ReplicaSet = "ReplicaSet",
        /// `apps/v1`
        StatefulSet = "StatefulSet",
        /// `apps/v1`
        DaemonSet = "DaemonSet",
        /// `batch/v1`
        Job = "Job",
        /// `v1`
        ReplicationController = "ReplicationController",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// Pods wanted; absent means 1 where the kind has the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "nullable")]
    pub template: PodTemplate,
    /// How many failed pods a Job survives; absent means 6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// How many failed pods an index of a Job survives; absent where they are not counted by index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit_per_index: Option<i32>,
    /// How long after its end a Job is deleted, with its pods; absent where it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    #[serde(skip_serializing_if = "is_default", deserialize_with = "nullable")]
    pub pod_failure_policy: PodFailurePolicy,
}

/// The first rule that matches the failed pod decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodFailurePolicy {
    #[serde(deserialize_with = "nullable")]
    pub rules: Vec<PodFailureRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodFailureRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: Str,
    /// Exit codes of its containers; then it has no conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_exit_codes: Option<PodFailureExitCodes>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub on_pod_conditions: Vec<PodFailureCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodFailureExitCodes {
    /// `In` or `NotIn`.
    pub operator: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodFailureCondition {
    #[serde(rename = "type")]
    pub kind: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    #[serde(skip_serializing_if = "is_default", deserialize_with = "nullable")]
    pub metadata: PodTemplateMeta,
    pub spec: PodTemplateSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplateMeta {
    /// Only of a manifest: in a cluster the pods have them.
    #[serde(deserialize_with = "nullable")]
    pub labels: Labels,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplateSpec {
    /// The node that takes the pods past the scheduler.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub node_name: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// That it can create no pod (`ReplicaFailure`); other conditions are left out.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "failures")]
    pub conditions: Vec<Condition>,
}

impl WorkloadStatus {
    /// Why it can create no pod, in its own words. Only ReplicaSets, ReplicationControllers and
    /// Deployments say so (`pkg/controller/replicaset/replica_set_utils.go`, v1.36.3).
    pub fn creation_failure(&self) -> Option<&str> {
        self.conditions.first().map(|failure| &*failure.message)
    }
}

fn failures<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Condition>, D::Error> {
    let mut conditions: Vec<Condition> = nullable(from)?;
    conditions.retain(|one| one.kind == "ReplicaFailure" && one.status == "True");
    Ok(conditions)
}

/// `autoscaling/v2` HorizontalPodAutoscaler, or the `keda.sh/v1alpha1` `ScaledObject` that makes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Autoscaler {
    pub metadata: Meta,
    pub spec: AutoscalerSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerSpec {
    pub scale_target_ref: ScaleTarget,
    /// Absent means 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
    /// KEDA's `ScaledObject` alone has these two; absent means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replica_count: Option<i32>,
    /// Absent means 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replica_count: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleTarget {
    pub api_version: Str,
    pub kind: Str,
    pub name: Str,
}
