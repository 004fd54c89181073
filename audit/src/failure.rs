//! Timeline of a node failure: what the control plane has done and will do, second by second.
//!
//! Mirrors Kubernetes v1.37.2: the node lifecycle controller
//! (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`), taint eviction
//! (`pkg/controller/tainteviction/taint_eviction.go`), PodGC
//! (`pkg/controller/podgc/gc_controller.go`) and attach-detach
//! (`pkg/controller/volume/attachdetach`). Taint eviction deletes; it asks no budget.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use nodelife_core::object::{Lease, Node, Pod};
use nodelife_core::taint::{
    NO_EXECUTE, NOT_READY, TolerationTime, UNREACHABLE, find, no_execute, toleration_time,
};
use nodelife_core::text::Str;
use nodelife_core::zone::{
    EVICTION_PERIOD, Settings, ZoneKey, ZoneReport, ZoneState, eviction_rate,
    seconds_to_last_taint, waits_for_taint,
};

/// A pod that is deleted on a dead node stays `Terminating` so long before attach-detach
/// takes its volumes away by force (`ReconcilerMaxWaitForUnmountDuration`), in seconds.
pub const FORCE_DETACH: f64 = 360.0;

/// What the controller should have done so long ago and has not is overdue, in seconds.
const OVERDUE: f64 = 30.0;

/// What is wrong with the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Failure {
    /// Nothing: the timeline says what would happen if it died now.
    None,
    /// Its kubelet is silent: `Ready` is `Unknown`.
    Silent,
    /// Its kubelet posts that it is not ready: `Ready` is `False`.
    NotReady,
}

/// One step, by the seconds since the node's failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Seconds; none: never.
    pub after_seconds: Option<f64>,
    /// The time of that, where the node has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
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
    /// Seconds from the node's failure to the deletion; none: never, or before.
    pub after_seconds: Option<f64>,
    /// The time of that, where the node has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Why.
    pub reason: String,
}

/// The JSON document of `explain failure`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureTimeline {
    /// Name of the node.
    pub node: Str,
    /// What is wrong with it.
    pub failure: Failure,
    /// Its last sign of life, or when its kubelet began to post that it is not ready; none: it
    /// has not failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Its region and zone.
    pub zone: String,
    /// The state of its zone without it.
    pub zone_state: ZoneState,
    /// `NoExecute` taints a second there.
    pub eviction_rate: f32,
    /// Nodes of the zone that wait for their taint before it.
    pub queued_before: usize,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Its pods, the first to be deleted first; none: they were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<PodFate>>,
}

/// Says what happens to `node`, one of `nodes`, with `pods` on it: from its failure on if it has
/// failed by the time `now`, else as if it died now.
pub fn timeline<'a>(
    node: &Node,
    nodes: &[Node],
    lease: Option<&Lease>,
    pods: Option<impl IntoIterator<Item = &'a Pod>>,
    settings: &Settings,
    now: Timestamp,
) -> FailureTimeline {
    let outage = Outage::of(node, nodes, settings);
    let course = Course::of(node, lease, &outage, settings, now);
    let pods = pods.map(|pods| {
        let pods = pods.into_iter().filter(|pod| !pod.is_terminal());
        let mut pods: Vec<_> = pods.map(|pod| course.fate(pod, node)).collect();
        pods.sort_by(|a, b| {
            let key = |pod: &PodFate| pod.after_seconds.unwrap_or(f64::INFINITY);
            key(a)
                .total_cmp(&key(b))
                .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
        });
        pods
    });
    FailureTimeline {
        node: node.metadata.name.clone(),
        failure: course.failure,
        since: course.since,
        zone: ZoneKey::of(&node.metadata.labels).to_string(),
        zone_state: outage.state,
        eviction_rate: outage.rate,
        queued_before: outage.queued_before,
        steps: course.steps(settings, pods.as_deref().unwrap_or_default()),
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
}

/// What has happened to the node and what will, in seconds since its failure.
struct Course {
    failure: Failure,
    since: Option<Timestamp>,
    /// Seconds from the failure until now.
    now: f64,
    /// When the controller saw it.
    detected: f64,
    /// When the `NoExecute` taint was put, or will be at the latest; none: never.
    tainted: Option<f64>,
    /// Whether it has it.
    has_taint: bool,
    /// The words of `Ready`.
    reason: Str,
}

impl Course {
    fn of(
        node: &Node,
        lease: Option<&Lease>,
        outage: &Outage,
        settings: &Settings,
        now: Timestamp,
    ) -> Self {
        let ready = node.condition("Ready");
        let failure = match ready.map(|ready| ready.status.as_str()) {
            Some("Unknown") => Failure::Silent,
            Some("False") => Failure::NotReady,
            _ => Failure::None,
        };
        let changed = ready.and_then(|ready| ready.last_transition_time);
        let posted = ready.and_then(|ready| ready.last_heartbeat_time);
        let renewed = lease.and_then(|lease| lease.spec.renew_time);
        let since = match failure {
            Failure::None => None,
            Failure::Silent => posted.max(renewed).or(changed),
            Failure::NotReady => changed.or(posted),
        };
        let begun = since.unwrap_or(now).min(now);
        let after = |at: Timestamp| at.duration_since(begun).as_secs_f64().max(0.0);
        let mut course = Self {
            failure,
            since: since.map(|_| begun),
            now: after(now),
            detected: match failure {
                Failure::None => settings.detected_within(),
                Failure::Silent => changed.map_or_else(|| settings.detected_within(), after),
                Failure::NotReady => 0.0,
            },
            tainted: None,
            has_taint: false,
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
        };
        let taint = find(node, course.taint(), NO_EXECUTE).filter(|_| since.is_some());
        course.has_taint = taint.is_some();
        course.tainted = match taint {
            Some(taint) => Some(taint.time_added.map_or(course.detected, after)),
            // A taint before the failure does not count: by then the zone's bucket is full again,
            // unless its queue is not empty.
            None => seconds_to_last_taint(outage.queued_before + 1, outage.rate, None)
                .map(|queue| course.detected.max(course.now) + EVICTION_PERIOD + queue),
        };
        course
    }

    /// The key of the taint that the node gets.
    fn taint(&self) -> &'static str {
        match self.failure {
            Failure::None | Failure::Silent => UNREACHABLE,
            Failure::NotReady => NOT_READY,
        }
    }

    /// The same, as people write it.
    fn short_taint(&self) -> &'static str {
        let key = self.taint();
        key.split_once('/').map_or(key, |(_, name)| name)
    }

    fn at(&self, after: Option<f64>) -> Option<Timestamp> {
        let after = SignedDuration::try_from_secs_f64(after?).ok()?;
        self.since?.checked_add(after).ok()
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds of tolerations are small"
    )]
    fn fate(&self, pod: &Pod, node: &Node) -> PodFate {
        let own = no_execute(self.taint());
        let others = node.spec.taints.iter().filter(|taint| {
            taint.effect == NO_EXECUTE && taint.key != UNREACHABLE && taint.key != NOT_READY
        });
        let tolerated = toleration_time(others.chain([&own]), &pod.spec.tolerations);
        let after = match tolerated {
            _ if pod.is_terminating() => None,
            TolerationTime::Forever => None,
            TolerationTime::Seconds(seconds) => self.tainted.map(|after| after + seconds as f64),
        };
        let taint = self.short_taint();
        let mut reason = match (tolerated, self.tainted) {
            _ if pod.is_terminating() => match self.failure {
                Failure::NotReady => "already terminating; its kubelet has to end it".into(),
                _ => "already terminating; no kubelet confirms the deletion".into(),
            },
            (TolerationTime::Forever, _) => {
                format!("tolerates {taint}:NoExecute without a time limit")
            }
            (_, None) => "the zone's eviction rate is 0: the node is not tainted".into(),
            (TolerationTime::Seconds(0), _) => format!("does not tolerate {taint}:NoExecute"),
            (TolerationTime::Seconds(seconds), _) => {
                format!("tolerates {taint}:NoExecute for {seconds}s")
            }
        };
        if after.is_some_and(|after| after + OVERDUE < self.now) {
            reason.push_str("; overdue: does kube-controller-manager run?");
        }
        PodFate {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            evicted: after.is_some(),
            terminating: pod.is_terminating(),
            tolerated_seconds: tolerated.seconds(),
            after_seconds: after,
            at: self.at(after),
            reason,
        }
    }

    fn steps(&self, settings: &Settings, pods: &[PodFate]) -> Vec<Step> {
        let step = |after_seconds: Option<f64>, event: String| Step {
            after_seconds,
            at: self.at(after_seconds),
            event,
        };
        let mut steps = self.detection(settings);
        let taint = match self.tainted {
            Some(_) if self.has_taint => "",
            Some(_) if self.failure == Failure::None => "",
            Some(_) if self.detected + EVICTION_PERIOD + OVERDUE < self.now => {
                ", at the latest, unless kube-controller-manager does not run"
            }
            Some(_) => ", at the latest",
            None => " (the zone's eviction rate is 0)",
        };
        let event = format!("taint {}:NoExecute{taint}", self.short_taint());
        steps.push((self.tainted, event));
        let evicted: Vec<_> = pods.iter().filter_map(|pod| pod.after_seconds).collect();
        if let (Some(first), Some(last)) = (evicted.first(), evicted.last()) {
            let event = match evicted.len() {
                1 => "the only evicted pod is deleted".to_owned(),
                more => format!("the first of {more} pods is deleted"),
            };
            steps.push((Some(*first), event));
            if last > first {
                steps.push((Some(*last), "the last of them is deleted".to_owned()));
            }
            if self.failure == Failure::NotReady {
                let event = "the kubelet ends them, once the container runtime answers; until \
                             then StatefulSets do not replace their pods";
                steps.push((Some(*last), event.to_owned()));
            } else {
                let event = "the kubelet confirms the deletion (not while the machine is off). \
                             StatefulSets do not replace their pods until the Node object is \
                             deleted (PodGC, 40 to 60 s later) or has the out-of-service taint \
                             (PodGC, within 20 s)";
                steps.push((None, event.to_owned()));
                let event = "volumes of the first deleted pods are detached by force";
                steps.push((Some(first + FORCE_DETACH), event.to_owned()));
            }
        }
        let steps = steps.into_iter();
        steps.map(|(after, event)| step(after, event)).collect()
    }

    /// From the failure to the controller's first answer.
    fn detection(&self, settings: &Settings) -> Vec<(Option<f64>, String)> {
        let unknown = "taint unreachable:NoSchedule, pods leave Services";
        match self.failure {
            Failure::None => {
                let event = "the kubelet stops renewing its lease and posting its status";
                let unless = if settings.reads_lease {
                    "; not while kube-controller-manager cannot read the node's lease, or sees a \
                     newer one than its cache has"
                } else {
                    ""
                };
                let seen = format!("at the latest: Ready becomes Unknown, {unknown}{unless}");
                vec![(Some(0.0), event.to_owned()), (Some(self.detected), seen)]
            }
            Failure::Silent => vec![
                (Some(0.0), "the kubelet's last sign of life".to_owned()),
                (
                    Some(self.detected),
                    format!("Ready becomes Unknown, {unknown}"),
                ),
            ],
            Failure::NotReady => {
                let event = format!(
                    "the kubelet posts Ready=False ({}), taint not-ready:NoSchedule; its pods \
                     stay in Services as long as they are Ready themselves",
                    self.reason
                );
                vec![(Some(0.0), event)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodelife_core::object::{Meta, NodeCondition, Taint, Toleration};
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

    fn at(text: &str) -> Timestamp {
        format!("2026-10-01T{text}Z").parse().unwrap()
    }

    fn timeline(nodes: &[Node], pods: &[Pod], settings: &Settings) -> FailureTimeline {
        super::timeline(&nodes[0], nodes, None, Some(pods), settings, at("12:00:00"))
    }

    /// A node that failed before noon, and others.
    fn failed(status: &str, posted: &str, changed: &str, taint: Option<(&str, &str)>) -> Vec<Node> {
        let mut first = node("a", "1", status);
        let ready = &mut first.status.conditions[0];
        ready.last_heartbeat_time = Some(at(posted));
        ready.last_transition_time = Some(at(changed));
        first.spec.taints.extend(taint.map(|(key, added)| Taint {
            time_added: Some(at(added)),
            ..no_execute(key)
        }));
        vec![first, node("b", "1", "True"), node("c", "1", "True")]
    }

    fn deleted(timeline: &FailureTimeline) -> Vec<Option<Timestamp>> {
        let pods = timeline.pods.as_ref().unwrap().iter();
        pods.map(|pod| pod.at).collect()
    }

    #[test]
    fn a_silent_node_has_a_past_and_a_future() {
        let nodes = failed(
            "Unknown",
            "11:00:10",
            "11:01:00",
            Some((UNREACHABLE, "11:01:05")),
        );
        let pods = [
            tolerating(Some(7200)),
            tolerating(None),
            tolerating(Some(300)),
        ];
        let timeline = timeline(&nodes, &pods, &Settings::default());
        assert_eq!(timeline.failure, Failure::Silent);
        assert_eq!(timeline.since, Some(at("11:00:10")));
        let steps: Vec<_> = timeline.steps.iter().map(|step| step.at).collect();
        let times = ["11:00:10", "11:01:00", "11:01:05", "11:06:05", "13:01:05"];
        let times: Vec<_> = times.into_iter().map(|time| Some(at(time))).collect();
        assert_eq!(steps[..5], times);
        assert_eq!(steps[6], Some(at("11:12:05")), "detached");
        let pods = [Some(at("11:06:05")), Some(at("13:01:05")), None];
        assert_eq!(deleted(&timeline), pods);
        let reasons = timeline.pods.unwrap().into_iter().map(|pod| pod.reason);
        let overdue: Vec<_> = reasons.map(|why| why.contains("overdue")).collect();
        assert_eq!(overdue, [true, false, false]);
    }

    #[test]
    fn a_lease_is_a_sign_of_life() {
        let nodes = failed("Unknown", "10:57:00", "11:01:00", None);
        let mut lease = Lease::default();
        lease.spec.renew_time = Some(at("11:00:10"));
        let settings = Settings::default();
        let no_pods: Option<&[Pod]> = None;
        let (lease, now) = (Some(&lease), at("11:01:01"));
        let timeline = super::timeline(&nodes[0], &nodes, lease, no_pods, &settings, now);
        assert_eq!(timeline.since, Some(at("11:00:10")));
        assert_eq!(timeline.pods, None);
        let taint = &timeline.steps[2];
        assert!(taint.event.ends_with("at the latest"), "{taint:?}");
        assert!(taint.at.is_some_and(|at| at > now), "{taint:?}");
    }

    #[test]
    fn a_node_that_says_that_it_is_not_ready_ends_its_pods_itself() {
        let nodes = failed(
            "False",
            "11:59:50",
            "11:58:00",
            Some((NOT_READY, "11:58:05")),
        );
        let timeline = timeline(&nodes, &[tolerating(Some(300))], &Settings::default());
        assert_eq!(timeline.failure, Failure::NotReady);
        assert_eq!(deleted(&timeline), [Some(at("12:03:05"))]);
        let pod = &timeline.pods.as_ref().unwrap()[0];
        assert_eq!(pod.reason, "tolerates not-ready:NoExecute for 300s");
        let mut events = timeline.steps.iter().map(|step| step.event.as_str());
        assert!(!events.any(|event| event.contains("out-of-service") || event.contains("leave")));
    }

    #[test]
    fn the_default_worst_case() {
        let nodes = [node("a", "1", "True"), node("b", "1", "True")];
        let pods = [tolerating(Some(300)), tolerating(None), Pod::default()];
        let timeline = timeline(&nodes, &pods, &Settings::default());
        assert_eq!(timeline.zone_state, ZoneState::Normal);
        let pods = timeline.pods.unwrap();
        let after: Vec<_> = pods.iter().map(|pod| pod.after_seconds).collect();
        assert_eq!(after, [Some(55.1), Some(355.1), None]);
        assert_eq!(pods[2].tolerated_seconds, None);
    }

    #[test]
    fn the_controller_reads_the_lease_since_1_37() {
        let nodes = [node("a", "1", "True"), node("b", "1", "True")];
        for (version, reads) in [("v1.36.3", false), ("v1.37.2", true)] {
            let settings = Settings::for_version(Some(version));
            let timeline = timeline(&nodes, &[], &settings);
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
        let timeline = timeline(&nodes, &[Pod::default()], &Settings::default());
        assert!(!timeline.pods.as_ref().unwrap()[0].evicted);
        assert_eq!(timeline.steps[2].after_seconds, None);
    }

    #[test]
    fn a_pod_that_is_deleted_already_is_not_deleted_again() {
        let nodes = [node("a", "1", "True"), node("b", "1", "True")];
        let mut leaving = tolerating(Some(300));
        leaving.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
        let timeline = timeline(&nodes, &[leaving], &Settings::default());
        let fate = &timeline.pods.as_ref().unwrap()[0];
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
        let timeline = timeline(&nodes, &[Pod::default()], &Settings::default());
        assert_eq!(timeline.queued_before, 1);
        assert_eq!(timeline.pods.as_ref().unwrap()[0].after_seconds, Some(65.1));
        let alone = "the only evicted pod is deleted";
        assert!(timeline.steps.iter().any(|step| step.event == alone));
    }
}
