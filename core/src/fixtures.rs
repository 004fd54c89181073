//! Test fixtures: pods, nodes, budgets, workloads. The unit tests of several crates share this file.

#![allow(dead_code, reason = "each crate uses a part of it")]

use jiff::{SignedDuration, Timestamp};

use nodelife_core::object::{
    Budget, LabelSelector, Node, NodeCondition, OwnerReference, Pod, PodCondition, Workload,
    WorkloadKind, WorkloadSpec,
};
use nodelife_core::text::Str;

/// A Ready pod `default/NAME` with the UID `u-NAME`, the label `app=web` and a ReplicaSet `web`.
pub(crate) fn pod(name: &str, node: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = name.into();
    pod.metadata.namespace = "default".into();
    pod.metadata.uid = Str::from(format!("u-{name}"));
    pod.metadata.resource_version = "1".into();
    pod.metadata.labels.insert("app".into(), "web".into());
    pod.metadata
        .owner_references
        .push(owner("apps/v1", "ReplicaSet", "web"));
    pod.spec.node_name = node.into();
    pod.status.phase = "Running".into();
    pod.status.conditions.push(PodCondition {
        kind: "Ready".into(),
        status: "True".into(),
        ..PodCondition::default()
    });
    pod
}

/// A pod on `node` that was Ready so many milliseconds after its binding, and has 10 s to stop.
pub(crate) fn started(name: &str, node: &str, millis: i64) -> Pod {
    let mut pod = pod(name, node);
    let bound = Timestamp::UNIX_EPOCH;
    pod.spec.termination_grace_period_seconds = Some(10);
    pod.status.conditions[0].last_transition_time =
        Some(bound + SignedDuration::from_millis(millis));
    pod.status.conditions.push(PodCondition {
        kind: "PodScheduled".into(),
        status: "True".into(),
        last_transition_time: Some(bound),
        ..PodCondition::default()
    });
    pod
}

pub(crate) fn owner(api_version: &str, kind: &str, name: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: Str::from(format!("u-{name}")),
        controller: true,
    }
}

pub(crate) fn workload(kind: WorkloadKind, name: &str, replicas: i32) -> Workload {
    let mut workload = Workload {
        kind,
        metadata: nodelife_core::object::Meta::default(),
        spec: WorkloadSpec {
            replicas: Some(replicas),
            ..WorkloadSpec::default()
        },
        status: nodelife_core::object::WorkloadStatus::default(),
    };
    workload.metadata.name = name.into();
    workload.metadata.namespace = "default".into();
    workload.metadata.uid = Str::from(format!("u-{name}"));
    workload
}

/// A counted budget `default/NAME` over `app=web`.
pub(crate) fn budget(name: &str, allowed: i32, healthy: i32, desired: i32) -> Budget {
    let mut budget = Budget::default();
    budget.metadata.name = name.into();
    budget.metadata.namespace = "default".into();
    budget.metadata.uid = Str::from(format!("u-{name}"));
    budget.metadata.generation = Some(1);
    // Another one with each status, as an API server gives it.
    let version = format!("{allowed}-{healthy}-{desired}");
    budget.metadata.resource_version = Str::from(version);
    let mut selector = LabelSelector::default();
    selector.match_labels.insert("app".into(), "web".into());
    budget.spec.selector = Some(selector);
    budget.spec.min_available = Some(nodelife_core::object::IntOrString::Int(desired));
    budget.status.observed_generation = 1;
    budget.status.disruptions_allowed = allowed;
    budget.status.current_healthy = healthy;
    budget.status.desired_healthy = desired;
    budget.status.expected_pods = healthy;
    budget
}

/// A Ready node with 4 CPUs and 16Gi.
pub(crate) fn node(name: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = name.into();
    node.status.allocatable = [
        ("cpu".into(), "4".into()),
        ("memory".into(), "16Gi".into()),
        ("pods".into(), "110".into()),
    ]
    .into();
    node.status.conditions.push(NodeCondition {
        kind: "Ready".into(),
        status: "True".into(),
        ..NodeCondition::default()
    });
    node
}
