//! Timeline of a node failure: what the control plane does, second by second.
//!
//! Mirrors Kubernetes v1.37.2: the node lifecycle controller
//! (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`), taint eviction
//! (`pkg/controller/tainteviction/taint_eviction.go`), PodGC
//! (`pkg/controller/podgc/gc_controller.go`) and attach-detach
//! (`pkg/controller/volume/attachdetach`). Taint eviction deletes; it asks no budget.

use serde::{Deserialize, Serialize};

use nodelife_core::object::{Node, Pod};
use nodelife_core::taint::{NO_EXECUTE, TolerationTime, UNREACHABLE, no_execute, toleration_time};
use nodelife_core::text::Str;
use nodelife_core::zone::{
    EVICTION_PERIOD, Settings, ZoneKey, ZoneReport, ZoneState, eviction_rate,
    seconds_to_last_taint, waits_for_taint,
};

/// A pod that is deleted on a dead node stays `Terminating` so long before attach-detach
/// takes its volumes away by force (`ReconcilerMaxWaitForUnmountDuration`), in seconds.
pub const FORCE_DETACH: f64 = 360.0;

/// One step, by the seconds since the node's last sign of life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Seconds; none: never.
    pub after_seconds: Option<f64>,
    /// The event.
    pub event: String,
}

/// The fate of one pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodFate {
    /// Namespace.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// Whether taint eviction deletes it.
    pub evicted: bool,
    /// Whether its deletion has been requested before.
    pub terminating: bool,
    /// The time that its tolerations give; none: forever.
    pub tolerated_seconds: Option<i64>,
    /// Seconds from the node's death to the deletion; none: never, or before.
    pub after_seconds: Option<f64>,
    /// Why.
    pub reason: String,
}

/// The JSON document of `explain failure`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureTimeline {
    /// Name of the node.
    pub node: Str,
    /// Its region and zone.
    pub zone: String,
    /// The state of its zone once it is gone.
    pub zone_state: ZoneState,
    /// `NoExecute` taints a second there.
    pub eviction_rate: f32,
    /// Nodes of the zone that wait for their taint before it.
    pub queued_before: usize,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Its pods, the first to be deleted first.
    pub pods: Vec<PodFate>,
}

/// Says what would happen if `node`, one of `nodes`, died now with `pods` on it.
pub fn timeline<'a>(
    node: &Node,
    nodes: &[Node],
    pods: impl IntoIterator<Item = &'a Pod>,
    settings: &Settings,
) -> FailureTimeline {
    let outage = Outage::of(node, nodes, settings);
    let tainted = outage.tainted_after(settings);
    let mut pods: Vec<_> = pods
        .into_iter()
        .filter(|pod| !pod.is_terminal())
        .map(|pod| fate(pod, node, tainted))
        .collect();
    pods.sort_by(|a, b| {
        let key = |pod: &PodFate| pod.after_seconds.unwrap_or(f64::INFINITY);
        key(a)
            .total_cmp(&key(b))
            .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
    });
    FailureTimeline {
        node: node.metadata.name.clone(),
        zone: ZoneKey::of(&node.metadata.labels).to_string(),
        zone_state: outage.state,
        eviction_rate: outage.rate,
        queued_before: outage.queued_before,
        steps: steps(settings, tainted, &pods),
        pods,
    }
}

/// The node's zone once it is gone.
struct Outage {
    state: ZoneState,
    rate: f32,
    queued_before: usize,
}

impl Outage {
    fn of(node: &Node, nodes: &[Node], settings: &Settings) -> Self {
        let name = &node.metadata.name;
        let key = ZoneKey::of(&node.metadata.labels);
        let after: Vec<Node> = nodes
            .iter()
            .map(|other| {
                let mut other = other.clone();
                if other.metadata.name == *name {
                    let conditions = &mut other.status.conditions;
                    for ready in conditions.iter_mut().filter(|c| c.kind == "Ready") {
                        ready.status = "Unknown".into();
                    }
                }
                other
            })
            .collect();
        let report = ZoneReport::of(&after, settings, None);
        let queued_before = nodes
            .iter()
            .filter(|other| other.metadata.name != *name)
            .filter(|other| ZoneKey::of(&other.metadata.labels) == key && waits_for_taint(other))
            .count();
        let zone = report.zone_of(&node.metadata.labels);
        let state = zone.map_or(ZoneState::Normal, |zone| zone.state);
        let size = zone.map_or(0, |zone| zone.size);
        let rate = if report.all_fully_disrupted {
            0.0
        } else {
            eviction_rate(size, state, settings)
        };
        Self {
            state,
            rate,
            queued_before,
        }
    }

    /// Seconds from the last sign of life to the `NoExecute` taint, at the latest: its
    /// detection and the queue. (A taint before the death does not count: by then the zone's
    /// bucket is full again, unless its queue is not empty.)
    fn tainted_after(&self, settings: &Settings) -> Option<f64> {
        let queue = seconds_to_last_taint(self.queued_before + 1, self.rate, None)?;
        Some(settings.detected_within() + EVICTION_PERIOD + queue)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "seconds of tolerations are small"
)]
fn fate(pod: &Pod, node: &Node, tainted: Option<f64>) -> PodFate {
    let unreachable = no_execute(UNREACHABLE);
    let others = node.spec.taints.iter().filter(|taint| {
        taint.effect == NO_EXECUTE
            && taint.key != UNREACHABLE
            && taint.key != nodelife_core::taint::NOT_READY
    });
    let tolerated = toleration_time(others.chain([&unreachable]), &pod.spec.tolerations);
    let after = match tolerated {
        _ if pod.is_terminating() => None,
        TolerationTime::Forever => None,
        TolerationTime::Seconds(seconds) => tainted.map(|tainted| tainted + seconds as f64),
    };
    let reason = match (tolerated, tainted) {
        _ if pod.is_terminating() => "already terminating; no kubelet confirms the deletion".into(),
        (TolerationTime::Forever, _) => {
            "tolerates unreachable:NoExecute without a time limit".into()
        }
        (_, None) => "the zone's eviction rate is 0: the node is not tainted".into(),
        (TolerationTime::Seconds(0), _) => "does not tolerate unreachable:NoExecute".into(),
        (TolerationTime::Seconds(seconds), _) => {
            format!("tolerates unreachable:NoExecute for {seconds}s")
        }
    };
    PodFate {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        evicted: after.is_some(),
        terminating: pod.is_terminating(),
        tolerated_seconds: tolerated.seconds(),
        after_seconds: after,
        reason,
    }
}

fn steps(settings: &Settings, tainted: Option<f64>, pods: &[PodFate]) -> Vec<Step> {
    let detected = settings.detected_within();
    let step = |after_seconds: Option<f64>, event: &str| Step {
        after_seconds,
        event: event.into(),
    };
    let mut steps = vec![
        step(
            Some(0.0),
            "the kubelet stops renewing its lease and posting its status",
        ),
        step(
            Some(detected),
            if settings.reads_lease {
                "at the latest: Ready becomes Unknown, taint unreachable:NoSchedule, pods leave \
                 Services; not while kube-controller-manager cannot read the node's lease, or sees \
                 a newer one than its cache has"
            } else {
                "at the latest: Ready becomes Unknown, taint unreachable:NoSchedule, pods leave \
                 Services"
            },
        ),
        step(tainted, "taint unreachable:NoExecute"),
    ];
    let evicted: Vec<_> = pods.iter().filter_map(|pod| pod.after_seconds).collect();
    if let (Some(first), Some(last)) = (evicted.first(), evicted.last()) {
        let event = match evicted.len() {
            1 => "the only evicted pod is deleted".to_owned(),
            more => format!("the first of {more} pods is deleted"),
        };
        steps.push(step(Some(*first), &event));
        if last > first {
            steps.push(step(Some(*last), "the last of them is deleted"));
        }
        steps.push(step(
            None,
            "the kubelet confirms the deletion (not while the machine is off). StatefulSets do not \
             replace their pods until the Node object is deleted (PodGC, 40 to 60 s later) or \
             has the out-of-service taint (PodGC, within 20 s)",
        ));
        steps.push(step(
            Some(first + FORCE_DETACH),
            "volumes of the first deleted pods are detached by force",
        ));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodelife_core::object::{Meta, NodeCondition, Toleration};
    use nodelife_core::zone::ZONE_LABEL;

    fn node(name: &str, zone: &str, ready: &str) -> Node {
        let mut node = Node {
            metadata: Meta {
                name: name.into(),
                labels: [(ZONE_LABEL.into(), zone.into())].into(),
                ..Meta::default()
            },
            ..Node::default()
        };
        node.status.conditions = vec![NodeCondition {
            kind: "Ready".into(),
            status: ready.into(),
            ..NodeCondition::default()
        }];
        node
    }

    fn tolerating(seconds: Option<i64>) -> Pod {
        let mut pod = Pod::default();
        pod.spec.tolerations.push(Toleration {
            operator: "Exists".into(),
            toleration_seconds: seconds,
            ..Toleration::default()
        });
        pod
    }

    #[test]
    fn the_default_worst_case() {
        let nodes = [node("a", "1", "True"), node("b", "1", "True")];
        let pods = [tolerating(Some(300)), tolerating(None), Pod::default()];
        let timeline = timeline(&nodes[0], &nodes, &pods, &Settings::default());
        assert_eq!(timeline.zone_state, ZoneState::Normal);
        let after: Vec<_> = timeline.pods.iter().map(|pod| pod.after_seconds).collect();
        assert_eq!(after, [Some(55.1), Some(355.1), None]);
        assert_eq!(timeline.pods[2].tolerated_seconds, None);
    }

    #[test]
    fn the_controller_reads_the_lease_since_1_37() {
        let nodes = [node("a", "1", "True"), node("b", "1", "True")];
        for (version, reads) in [("v1.36.3", false), ("v1.37.2", true)] {
            let settings = Settings::for_version(Some(version));
            let timeline = timeline(&nodes[0], &nodes, &[], &settings);
            assert_eq!(
                timeline.steps[1].event.contains("lease"),
                reads,
                "{version}"
            );
        }
    }

    #[test]
    fn the_last_node_of_all_is_never_tainted() {
        let nodes = [node("a", "1", "True")];
        let timeline = timeline(&nodes[0], &nodes, &[Pod::default()], &Settings::default());
        assert!(!timeline.pods[0].evicted);
        assert_eq!(timeline.steps[2].after_seconds, None);
    }

    #[test]
    fn a_pod_that_is_deleted_already_is_not_deleted_again() {
        let nodes = [node("a", "1", "True"), node("b", "1", "True")];
        let mut leaving = tolerating(Some(300));
        leaving.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
        let timeline = timeline(&nodes[0], &nodes, &[leaving], &Settings::default());
        let fate = &timeline.pods[0];
        assert!(fate.terminating && !fate.evicted);
        assert_eq!(fate.after_seconds, None);
        let steps = timeline.steps.iter();
        assert!(
            !steps
                .map(|step| &step.event)
                .any(|event| event.contains("evicted pod"))
        );
    }

    #[test]
    fn it_waits_behind_those_that_died_before() {
        let nodes = [
            node("a", "1", "True"),
            node("b", "1", "Unknown"),
            node("c", "1", "True"),
            node("d", "1", "True"),
        ];
        let timeline = timeline(&nodes[0], &nodes, &[Pod::default()], &Settings::default());
        assert_eq!(timeline.queued_before, 1);
        assert_eq!(timeline.pods[0].after_seconds, Some(65.1));
        let alone = "the only evicted pod is deleted";
        assert!(timeline.steps.iter().any(|step| step.event == alone));
    }
}
