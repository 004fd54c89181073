//! Timeline of a node failure: what the control plane has done and will do, second by second, and
//! what takes the place of the node's pods.
//!
//! Mirrors Kubernetes v1.37.2: the node lifecycle controller
//! (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`), taint eviction
//! (`pkg/controller/tainteviction/taint_eviction.go`), PodGC
//! (`pkg/controller/podgc/gc_controller.go`) and attach-detach
//! (`pkg/controller/volume/attachdetach`). Taint eviction deletes; it asks no budget.

mod replacement;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use nodelife_core::format::duration;
use nodelife_core::object::{Node, Pod};
use nodelife_core::scheduling::Placement;
use nodelife_core::snapshot::Source;
use nodelife_core::taint::{
    NO_EXECUTE, NOT_READY, OUT_OF_SERVICE, UNREACHABLE, eviction_time, find, no_execute,
    toleration_time, untolerated,
};
use nodelife_core::text::Str;
use nodelife_core::zone::{
    EVICTION_PERIOD, MONITOR_PERIOD, ZoneKey, ZoneReport, ZoneState, taints, waits_for_taint,
};

pub use self::replacement::Replacement;
pub(crate) use self::replacement::is_bound;
use crate::rules::untainted;
use crate::{CHECK_CONTROLLER, Context};

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

impl Failure {
    fn taint(self) -> &'static str {
        match self {
            Self::None | Self::Silent => UNREACHABLE,
            Self::NotReady => NOT_READY,
        }
    }
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
    /// Seconds from the node's failure to the deletion, negative before it; none: never, or not
    /// known.
    pub after_seconds: Option<f64>,
    /// The time of that, where the node has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What takes its place, and when.
    pub replacement: Replacement,
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
    /// The state of its zone without it; none: the input does not have all nodes of the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_state: Option<ZoneState>,
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

/// Says what happens to `node`, and to the pods on it where these were read: from its failure on if it
/// has failed, else as if it died now.
pub fn timeline(context: &Context<'_>, node: &Node) -> FailureTimeline {
    let outage = Outage::of(context, node);
    let course = Course::of(context, node, &outage);
    let snapshot = context.snapshot;
    let pods = snapshot.has(Source::Pods).then(|| {
        let pods = context.active_pods_on(&node.metadata.name);
        let mut pods: Vec<_> = pods.map(|pod| (course.fate(pod, node), pod)).collect();
        pods.sort_by(|(a, _), (b, _)| {
            let key = |pod: &PodFate| pod.after_seconds.unwrap_or(f64::INFINITY);
            key(a)
                .total_cmp(&key(b))
                .then_with(|| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))
        });
        let mut places = snapshot.has(Source::AllNodes).then(|| {
            let volumes = snapshot.volumes.as_deref().unwrap_or_default();
            let down = [node.metadata.name.clone()];
            Placement::new(&snapshot.nodes, &snapshot.pods, volumes, &down)
        });
        let fates = pods.into_iter().map(|(mut fate, pod)| {
            let is_deleted = fate.evicted || fate.terminating;
            let (replacement, why) = Replacement::of(context, pod, is_deleted, places.as_mut());
            fate.replacement = replacement;
            if let Some(why) = why {
                fate.reason = format!("{}; {why}", fate.reason);
            }
            fate
        });
        fates.collect::<Vec<_>>()
    });
    FailureTimeline {
        node: node.metadata.name.clone(),
        failure: course.failure,
        since: course.since,
        zone: ZoneKey::of(&node.metadata.labels).to_string(),
        zone_state: outage.state,
        eviction_rate: outage.rate,
        queued_before: outage.queued_before,
        steps: course.steps(context, node, pods.as_deref().unwrap_or_default()),
        pods,
    }
}

struct Outage {
    /// None where not all nodes of the zone are known.
    state: Option<ZoneState>,
    rate: f32,
    queued_before: usize,
    /// Seconds until the last that waits has its taint; none: never.
    to_last_taint: Option<f64>,
}

impl Outage {
    fn of(context: &Context<'_>, node: &Node) -> Self {
        let name = &node.metadata.name;
        let mut after = context.snapshot.nodes.clone();
        let dead = after
            .iter_mut()
            .filter(|other| other.metadata.name == *name);
        let conditions = dead.flat_map(|node| &mut node.status.conditions);
        let mut readys =
            conditions.filter(|condition| condition.kind == "Ready" && condition.status == "True");
        // If it dies later, the zone's bucket is full again by then, unless its queue is not empty.
        let mut now = Some(context.now);
        if let Some(ready) = readys.next() {
            ready.status = "Unknown".into();
            now = None;
        }
        let report = ZoneReport::of(&after, &context.settings, now);
        let zone = report.zone_of(&node.metadata.labels);
        let is_known = context.snapshot.has(Source::AllNodes);
        match zone.filter(|zone| is_known && zone.unknown == 0) {
            None => Self {
                state: None,
                rate: context.settings.eviction_rate,
                queued_before: 0,
                to_last_taint: Some(0.0),
            },
            Some(zone) => Self {
                state: Some(zone.state),
                rate: zone.eviction_rate,
                queued_before: zone
                    .queued
                    .saturating_sub(usize::from(taints(node).next().is_none())),
                to_last_taint: zone.seconds_to_last_taint,
            },
        }
    }
}

fn short(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

/// What has happened to the node and what will, in seconds since its failure.
struct Course {
    failure: Failure,
    since: Option<Timestamp>,
    /// The time of the failure: now if it has not failed.
    begun: Timestamp,
    /// Seconds from the failure until now.
    now: f64,
    detected: f64,
    /// When the `NoExecute` taint was put, should have been, or will be at the latest; none: never.
    tainted: Option<f64>,
    has_taint: bool,
    /// By how many seconds it is overdue.
    overdue: Option<i64>,
    sign: String,
    lives: bool,
}

impl Course {
    #[expect(clippy::cast_precision_loss, reason = "an age in seconds")]
    fn of(context: &Context<'_>, node: &Node, outage: &Outage) -> Self {
        let ready = node.condition("Ready");
        let failure = match ready.map(|ready| ready.status.as_str()) {
            Some("Unknown") => Failure::Silent,
            Some("False") => Failure::NotReady,
            _ => Failure::None,
        };
        let off = SignedDuration::from_secs(context.clock_off(node));
        let by_own_clock = |at: Timestamp| at.checked_sub(off).unwrap_or(at);
        let changed = ready.and_then(|ready| ready.last_transition_time);
        let posted = ready.and_then(|ready| ready.last_heartbeat_time);
        let lease = context.lease(&node.metadata.name);
        let renewed = lease.and_then(|lease| lease.spec.renew_time);
        // Its failure is then that it posts no status.
        let lives = context.renews_lease(node);
        let renewed = renewed.filter(|_| lives.is_none());
        let taint = find(node, failure.taint(), NO_EXECUTE);
        let added = taint.and_then(|taint| taint.time_added);
        // The control plane sets Unknown, and taints, with its own clock, and after the failure.
        let heard = posted.max(renewed).map(by_own_clock);
        let since = match failure {
            Failure::None => None,
            Failure::Silent => [heard, changed, added].into_iter().flatten().min(),
            Failure::NotReady => {
                let said = changed.or(posted).map(by_own_clock);
                [said, added].into_iter().flatten().min()
            }
        };
        let begun = since.unwrap_or(context.now).min(context.now);
        let after = |at: Timestamp| at.duration_since(begun).as_secs_f64();
        let settings = &context.settings;
        let still = |ago| format!("; it renewed its Lease {} ago, so it runs", duration(ago));
        let sign = match failure {
            Failure::Silent if renewed > posted => "the kubelet renews its Lease".to_owned(),
            Failure::Silent if posted.is_none() => "none is known".to_owned(),
            Failure::Silent => {
                let still = lives.map(still).unwrap_or_default();
                format!("the kubelet posts its status{still}")
            }
            _ => ready
                .map(|ready| ready.reason.to_string())
                .unwrap_or_default(),
        };
        let mut course = Self {
            failure,
            since: since.map(|_| begun),
            begun,
            now: after(context.now),
            detected: match failure {
                Failure::None => settings.detected_within(),
                // At the latest now, where no time of it is known.
                Failure::Silent if since.is_none() => 0.0,
                Failure::Silent => changed.map_or_else(|| settings.detected_within(), after),
                Failure::NotReady => 0.0,
            },
            tainted: None,
            has_taint: false,
            overdue: untainted(context, node).and_then(|(_, overdue)| overdue),
            sign,
            lives: lives.is_some(),
        };
        let taint = taint.filter(|_| failure != Failure::None);
        course.has_taint = taint.is_some();
        course.tainted = if taint.is_some() {
            Some(added.map_or(course.detected, after))
        } else if let Some(overdue) = course.overdue {
            Some(course.now - overdue as f64)
        } else {
            let soon = course.detected.max(course.now);
            // One taint is swapped for the other at once.
            let is_swapped = failure != Failure::None && !waits_for_taint(node);
            let queue = outage.to_last_taint.map(|queue| EVICTION_PERIOD + queue);
            let wait = is_swapped.then_some(MONITOR_PERIOD).or(queue);
            wait.map(|wait| soon + wait)
        };
        course
    }

    fn short_taint(&self) -> &'static str {
        short(self.failure.taint())
    }

    fn at(&self, after: Option<f64>) -> Option<Timestamp> {
        let after = SignedDuration::try_from_secs_f64(after?).ok()?;
        self.since?.checked_add(after).ok()
    }

    fn fate(&self, pod: &Pod, node: &Node) -> PodFate {
        let after = |at: Timestamp| at.duration_since(self.begun).as_secs_f64();
        // A pod's time begins with the pod.
        let created = pod.metadata.creation_timestamp.map_or(f64::MIN, after);
        let own = no_execute(self.failure.taint());
        let taints = node.spec.taints.iter();
        let others = taints.filter(|taint| taint.effect == NO_EXECUTE && taint.key != own.key);
        let all = others.clone().chain([&own]);
        let tolerated = toleration_time(all, &pod.spec.tolerations);
        let others = others.map(|taint| (taint.time_added.map_or(0.0, after), taint));
        let there = others.chain(self.tainted.map(|at| (at, &own)));
        let mut there: Vec<_> = there.map(|(at, taint)| (at.max(created), taint)).collect();
        there.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let due = eviction_time(&there, &pod.spec.tolerations);
        let asked = pod.metadata.deletion_timestamp.and_then(|end| {
            let grace = pod
                .metadata
                .deletion_grace_period_seconds
                .unwrap_or_default();
            end.checked_sub(SignedDuration::from_secs(grace)).ok()
        });
        let terminating = pod.is_terminating();
        let is_known = self.has_taint || self.overdue.is_none();
        let after = match asked.filter(|_| self.since.is_some()) {
            Some(asked) => Some(after(asked)),
            None => due.filter(|_| is_known && !terminating),
        };
        let taint = self.short_taint();
        let mut reason = match (tolerated, due) {
            _ if terminating && (self.lives || self.failure == Failure::NotReady) => {
                "already terminating; its kubelet has to end it".into()
            }
            _ if terminating => "already terminating; no kubelet confirms the deletion".into(),
            (None, _) => format!("tolerates {taint}:NoExecute without a time limit"),
            (_, None) => "the zone's eviction rate is 0: the node is not tainted".into(),
            (Some(0), _) => {
                let other = untolerated(&node.spec.taints, &pod.spec.tolerations, &[NO_EXECUTE]);
                let key = other.map_or(taint, |other| short(&other.key));
                format!("does not tolerate {key}:NoExecute")
            }
            (Some(seconds), _) => format!("tolerates {taint}:NoExecute for {seconds}s"),
        };
        if !terminating && due.is_some() && !is_known {
            reason.push_str(", from when the overdue taint is set");
        } else if !terminating && after.is_some_and(|after| after + OVERDUE < self.now) {
            reason.push_str("; overdue: check kube-controller-manager");
        }
        PodFate {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            evicted: due.is_some() && !terminating,
            terminating,
            tolerated_seconds: tolerated,
            after_seconds: after,
            at: self.at(after),
            replacement: Replacement::Never,
            reason,
        }
    }

    fn steps(&self, context: &Context<'_>, node: &Node, pods: &[PodFate]) -> Vec<Step> {
        let step = |after_seconds: Option<f64>, event: String| Step {
            after_seconds,
            at: self.at(after_seconds),
            event,
        };
        let mut steps = self.detection(context);
        let taint = match (self.tainted, self.overdue) {
            _ if self.has_taint => String::new(),
            (_, Some(late)) => {
                let late = duration(late);
                format!(" should have been set, and is overdue by {late}. {CHECK_CONTROLLER}")
            }
            (Some(_), _) if self.failure == Failure::None => String::new(),
            (Some(_), _) => ", at the latest".to_owned(),
            (None, _) => " (the zone's eviction rate is 0)".to_owned(),
        };
        let event = format!("taint {}:NoExecute{taint}", self.short_taint());
        steps.push((self.tainted, event));
        let deleted = pods.iter().filter_map(|pod| pod.after_seconds);
        let deleted: Vec<_> = deleted.filter(|after| *after >= 0.0).collect();
        if let (Some(first), Some(last)) = (deleted.first(), deleted.last()) {
            let event = match deleted.len() {
                1 => "the only evicted pod is deleted".to_owned(),
                more => format!("the first of {more} pods is deleted"),
            };
            steps.push((Some(*first), event));
            if last > first {
                steps.push((Some(*last), "the last of them is deleted".to_owned()));
            }
        }
        if pods.iter().any(|pod| pod.evicted || pod.terminating) {
            steps.push(self.end(node, deleted.last().copied()));
        }
        let steps = steps.into_iter();
        steps.map(|(after, event)| step(after, event)).collect()
    }

    /// When the deleted pods are gone; `last`: when the last of them is deleted.
    fn end(&self, node: &Node, last: Option<f64>) -> (Option<f64>, String) {
        let out = node
            .spec
            .taints
            .iter()
            .find(|taint| taint.key == OUT_OF_SERVICE);
        match out {
            Some(_) if self.failure != Failure::None => {
                let event = "with the out-of-service taint, PodGC removes each deleted pod within \
                             20 s, and its volumes are detached at once";
                (last, event.to_owned())
            }
            _ if self.failure == Failure::NotReady => {
                let event = "they wait for the kubelet, which ends them once the container \
                             runtime answers; until then StatefulSets do not replace theirs, and \
                             volumes stay attached";
                (last, event.to_owned())
            }
            _ => {
                let event = "the kubelet ends them (not while the machine is off). Until they are \
                             gone, StatefulSets do not replace theirs, and volumes stay attached. \
                             If the machine is off for good, `kubectl nodelife rescue` has PodGC \
                             remove them within 20 s, and their volumes detached at once; if \
                             the Node object is deleted, PodGC takes 40 to 60 s, and the volumes 6 \
                             min more";
                (None, event.to_owned())
            }
        }
    }

    fn detection(&self, context: &Context<'_>) -> Vec<(Option<f64>, String)> {
        let unknown = "taint unreachable:NoSchedule, pods leave Services";
        match self.failure {
            Failure::None => {
                let event = "the kubelet stops renewing its lease and posting its status";
                let unless = if context.settings.reads_lease {
                    "; not while kube-controller-manager cannot read the node's lease, or sees a \
                     newer one than its cache has"
                } else {
                    ""
                };
                let seen = format!("at the latest: Ready becomes Unknown, {unknown}{unless}");
                vec![(Some(0.0), event.to_owned()), (Some(self.detected), seen)]
            }
            Failure::Silent => vec![
                (Some(0.0), format!("last sign of life: {}", self.sign)),
                (
                    Some(self.detected),
                    format!("Ready becomes Unknown, {unknown}"),
                ),
            ],
            Failure::NotReady => {
                let event = format!(
                    "the kubelet posts Ready=False ({}), taint not-ready:NoSchedule; its pods \
                     stay in Services as long as they are Ready themselves",
                    self.sign
                );
                vec![(Some(0.0), event)]
            }
        }
    }
}
