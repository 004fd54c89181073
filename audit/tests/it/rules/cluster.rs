//! Fixtures: the healthy cluster and changes to it.

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use nodelife_core::allocatable::{KubeletConfiguration, ShutdownByPriority};
use nodelife_core::object::{
    ClusterRoleBinding, Event, Node, ObjectRef, Pod, PodCondition, PodStatus, RoleSubject,
    SigningRequest, SpreadConstraint, Taint, Toleration, VolumeAttachment, VolumeCount,
};
use nodelife_core::snapshot::Snapshot;

const HEALTHY: &str = include_str!("../../../../examples/healthy-cluster.json");

/// Nine nodes in three zones, with everything that an audit reads.
pub(super) fn healthy() -> Snapshot {
    static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| serde_json::from_str(HEALTHY).unwrap());
    SNAPSHOT.clone()
}

/// So many seconds before the snapshot was taken.
pub(super) fn ago(snapshot: &Snapshot, seconds: i64) -> Timestamp {
    snapshot.taken_at.unwrap() - SignedDuration::from_secs(seconds)
}

/// Sets a condition of the node with this index, since so many seconds.
pub(super) fn condition(
    snapshot: &mut Snapshot,
    index: usize,
    kind: &str,
    status: &str,
    seconds: i64,
) {
    let since = ago(snapshot, seconds);
    let conditions = &mut snapshot.nodes[index].status.conditions;
    let position = conditions.iter().position(|c| c.kind == *kind);
    let position = position.unwrap_or_else(|| {
        conditions.push(nodelife_core::object::NodeCondition::default());
        conditions.len() - 1
    });
    let condition = &mut conditions[position];
    condition.kind = kind.into();
    condition.status = status.into();
    condition.last_heartbeat_time = Some(since);
    condition.last_transition_time = Some(since);
    if kind == "Ready" && status == "Unknown" {
        // Its kubelet is dead.
        let name = &snapshot.nodes[index].metadata.name;
        let mut leases = snapshot.leases.iter_mut();
        if let Some(lease) = leases.find(|lease| lease.metadata.name == *name) {
            lease.spec.renew_time = lease.spec.renew_time.min(Some(since));
        }
    }
}

/// Puts a taint on the node with this index, since so many seconds.
pub(super) fn taint(snapshot: &mut Snapshot, index: usize, key: &str, effect: &str, seconds: i64) {
    let time_added = Some(ago(snapshot, seconds));
    snapshot.nodes[index].spec.taints.push(Taint {
        key: key.into(),
        effect: effect.into(),
        time_added,
        ..Taint::default()
    });
}

/// Cordons the node with this index, since so many seconds.
pub(super) fn cordon(snapshot: &mut Snapshot, index: usize, seconds: i64) {
    snapshot.nodes[index].spec.unschedulable = true;
    taint(
        snapshot,
        index,
        "node.kubernetes.io/unschedulable",
        "NoSchedule",
        seconds,
    );
}

/// Sets a label of the node with this index.
pub(super) fn label(snapshot: &mut Snapshot, index: usize, key: &str, value: &str) {
    let labels = &mut snapshot.nodes[index].metadata.labels;
    labels.insert(key.into(), value.into());
}

/// Removes a label of the node with this index.
pub(super) fn unlabel(snapshot: &mut Snapshot, index: usize, key: &str) {
    snapshot.nodes[index].metadata.labels.remove(key);
}

/// Says something else in the kubelet's configuration of every node.
pub(super) fn configure(snapshot: &mut Snapshot, change: fn(&mut KubeletConfiguration)) {
    snapshot.kubelet_configs.values_mut().for_each(change);
}

/// Changes every node.
pub(super) fn each_node(snapshot: &mut Snapshot, change: fn(&mut Node)) {
    snapshot.nodes.iter_mut().for_each(change);
}

/// Changes every pod with this label `app`.
pub(super) fn each_pod(snapshot: &mut Snapshot, app: &str, change: fn(&mut Pod)) {
    let pods = snapshot.pods.iter_mut();
    pods.filter(|pod| pod.metadata.labels.get("app").is_some_and(|a| a == app))
        .for_each(change);
}

/// The first pod with this label `app`.
pub(super) fn first_pod<'a>(snapshot: &'a mut Snapshot, app: &str) -> &'a mut Pod {
    let mut pods = snapshot.pods.iter_mut();
    pods.find(|pod| pod.metadata.labels.get("app").is_some_and(|a| a == app))
        .unwrap()
}

/// A toleration of a `NoExecute` taint.
pub(super) fn toleration(key: &str, operator: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        key: key.into(),
        operator: operator.into(),
        effect: "NoExecute".into(),
        toleration_seconds: seconds,
        ..Toleration::default()
    }
}

/// Puts the copies of a workload's pod on the node with this index, so many in all.
pub(super) fn crowd(snapshot: &mut Snapshot, app: &str, index: usize, pods: usize) {
    let mut copy = first_pod(snapshot, app).clone();
    copy.spec.node_name = snapshot.nodes[index].metadata.name.clone();
    for number in 0..pods {
        copy.metadata.name = format!("{app}-copy-{number}").into();
        copy.metadata.uid = format!("copy-{number}").into();
        snapshot.pods.push(copy.clone());
    }
}

/// Lets the nodes with these indices fall silent, without a taint yet.
pub(super) fn silence(snapshot: &mut Snapshot, indices: impl IntoIterator<Item = usize>) {
    for index in indices {
        condition(snapshot, index, "Ready", "Unknown", 60);
    }
}

/// Lets the status of the node with this index be so many seconds old.
pub(super) fn heartbeat(snapshot: &mut Snapshot, index: usize, seconds: i64) {
    let posted = Some(ago(snapshot, seconds));
    for condition in &mut snapshot.nodes[index].status.conditions {
        condition.last_heartbeat_time = posted;
    }
}

/// Adds an event about the node with this index.
pub(super) fn event(snapshot: &mut Snapshot, index: usize, reason: &str, count: i64, seconds: i64) {
    let event = Event {
        involved_object: ObjectRef {
            kind: "Node".into(),
            name: snapshot.nodes[index].metadata.name.clone(),
            ..ObjectRef::default()
        },
        reason: reason.into(),
        count: Some(count),
        last_timestamp: Some(ago(snapshot, seconds)),
        ..Event::default()
    };
    snapshot.events.get_or_insert_default().push(event);
}

/// Makes one zone of the first five nodes.
pub(super) fn label_all_zones(snapshot: &mut Snapshot) {
    for index in 0..5 {
        label(
            snapshot,
            index,
            "topology.kubernetes.io/zone",
            "eu-central-1a",
        );
    }
}

/// Makes one zone of all nodes.
pub(super) fn widen(snapshot: &mut Snapshot) {
    for index in 0..snapshot.nodes.len() {
        label(
            snapshot,
            index,
            "topology.kubernetes.io/zone",
            "eu-central-1a",
        );
    }
}

/// Takes the workloads off the node with this index.
pub(super) fn empty(snapshot: &mut Snapshot, index: usize) {
    let name = snapshot.nodes[index].metadata.name.clone();
    snapshot.pods.retain(|pod| {
        let owners = &pod.metadata.owner_references;
        pod.spec.node_name != *name || owners.iter().any(|owner| owner.kind == *"DaemonSet")
    });
}

/// Lets the first container of the pod request so much.
pub(super) fn request(pod: &mut Pod, resource: &str, amount: &str) {
    let requests = &mut pod.spec.containers[0].resources.requests;
    requests.insert(resource.into(), amount.into());
}

/// Limits the first container of the pod to so much.
pub(super) fn limit(pod: &mut Pod, resource: &str, amount: &str) {
    let limits = &mut pod.spec.containers[0].resources.limits;
    limits.insert(resource.into(), amount.into());
}

/// Lets the node with this index take so many volumes.
pub(super) fn csi_count(snapshot: &mut Snapshot, index: usize, count: i64) {
    let nodes = snapshot.csi_nodes.as_mut().unwrap();
    nodes[index].spec.drivers[0].allocatable = Some(VolumeCount { count: Some(count) });
}

/// Sets the seconds of all tolerations.
pub(super) fn wait(pod: &mut Pod, seconds: i64) {
    for toleration in pod.spec.tolerations.iter_mut() {
        toleration.toleration_seconds = Some(seconds);
    }
}

/// Breaks two replicas of `frontend`.
pub(super) fn broken(snapshot: &mut Snapshot) {
    let pods = snapshot.pods.iter_mut();
    let replicas = pods.filter(|pod| pod.metadata.name.starts_with("frontend-"));
    for pod in replicas.take(2) {
        pod.status.conditions[0].status = "False".into();
    }
    let status = &mut snapshot.budgets[2].status;
    status.current_healthy = 4;
    status.disruptions_allowed = 0;
}

/// Lets the first pod with this label `app` be so many seconds past its end.
pub(super) fn delete(snapshot: &mut Snapshot, app: &str, seconds: i64) {
    let end = ago(snapshot, seconds);
    first_pod(snapshot, app).metadata.deletion_timestamp = Some(end);
}

/// Adds a copy of the workload's pod that has waited for a node for so many seconds.
pub(super) fn unplaced<'a>(snapshot: &'a mut Snapshot, app: &str, seconds: i64) -> &'a mut Pod {
    let since = Some(ago(snapshot, seconds));
    let mut pod = first_pod(snapshot, app).clone();
    pod.metadata.name = format!("{app}-unplaced").into();
    pod.metadata.uid = "unplaced".into();
    pod.metadata.creation_timestamp = since;
    pod.spec.node_name = "".into();
    pod.status = PodStatus {
        phase: "Pending".into(),
        conditions: vec![PodCondition {
            kind: "PodScheduled".into(),
            status: "False".into(),
            reason: "Unschedulable".into(),
            last_transition_time: since,
        }],
        ..PodStatus::default()
    };
    snapshot.pods.push(pod);
    snapshot.pods.last_mut().unwrap()
}

/// The first pod of the workload waits for its sandbox, since so many seconds.
pub(super) fn without_sandbox(snapshot: &mut Snapshot, app: &str, seconds: i64) {
    let since = Some(ago(snapshot, seconds));
    let pod = first_pod(snapshot, app);
    pod.status.phase = "Pending".into();
    pod.status.start_time = since;
    pod.status.conditions = vec![PodCondition {
        kind: "PodReadyToStartContainers".into(),
        status: "False".into(),
        last_transition_time: since,
        ..PodCondition::default()
    }];
}

/// Makes the first pod of the workload a mirror pod that is not Ready, since so many seconds.
pub(super) fn mirror_not_ready(snapshot: &mut Snapshot, app: &str, seconds: i64) {
    let since = Some(ago(snapshot, seconds));
    let pod = first_pod(snapshot, app);
    let mirror = "kubernetes.io/config.mirror".into();
    pod.metadata.annotations.insert(mirror, "hash".into());
    pod.status.conditions = vec![PodCondition {
        kind: "Ready".into(),
        status: "False".into(),
        last_transition_time: since,
        ..PodCondition::default()
    }];
}

/// Spreads the pods with this label `app` over the values of a label.
pub(super) fn spread(snapshot: &mut Snapshot, app: &str, key: &str) {
    for pod in &mut snapshot.pods {
        if pod.metadata.labels.get("app").is_some_and(|a| a == app) {
            let constraint = SpreadConstraint {
                topology_key: key.into(),
                ..SpreadConstraint::default()
            };
            pod.spec.topology_spread_constraints = Some(vec![constraint].into());
        }
    }
}

/// A group of a shutdown.
pub(super) fn group(priority: i32, seconds: i64) -> ShutdownByPriority {
    ShutdownByPriority {
        priority,
        shutdown_grace_period_seconds: seconds,
    }
}

/// Adds pending requests for a certificate.
pub(super) fn signing(
    snapshot: &mut Snapshot,
    signer: &str,
    user: &str,
    count: usize,
    seconds: i64,
) {
    let created = Some(ago(snapshot, seconds));
    for number in 0..count {
        let mut request = SigningRequest::default();
        request.metadata.name = format!("csr-{number}").into();
        request.metadata.creation_timestamp = created;
        request.spec.signer_name = signer.into();
        request.spec.username = user.into();
        let requests = snapshot.signing_requests.get_or_insert_default();
        requests.push(request);
    }
}

/// Binds a role to a subject.
pub(super) fn bind(snapshot: &mut Snapshot, role: &str, kind: &str, name: &str) {
    let mut binding = ClusterRoleBinding::default();
    binding.metadata.name = "odd".into();
    binding.role_ref.name = role.into();
    binding.subjects.push(RoleSubject {
        kind: kind.into(),
        name: name.into(),
        ..RoleSubject::default()
    });
    let bindings = snapshot.cluster_role_bindings.get_or_insert_default();
    bindings.push(binding);
}

/// The attachments of volumes.
pub(super) fn attachments(snapshot: &mut Snapshot) -> &mut Vec<VolumeAttachment> {
    snapshot.volume_attachments.as_mut().unwrap()
}
