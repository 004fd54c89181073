//! Zone states and eviction rates of the node lifecycle controller.
//!
//! Mirrors Kubernetes v1.36.3: `GetZoneKey` (k8s.io/component-helpers
//! `node/topology/helpers.go`), `ComputeZoneState`, `handleDisruption` and
//! `ReducedQPSFunc` (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::{Labels, Node, Taint};
use crate::taint::{NO_EXECUTE, NOT_READY, UNREACHABLE, find};
use crate::text::Str;

pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";
/// Deprecated zone label; it still wins over [`ZONE_LABEL`].
pub const BETA_ZONE_LABEL: &str = "failure-domain.beta.kubernetes.io/zone";
/// Deprecated region label; it still wins over [`REGION_LABEL`].
pub const BETA_REGION_LABEL: &str = "failure-domain.beta.kubernetes.io/region";
/// Nodes with this label are not counted when a zone is judged (but still tainted).
pub const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-disruption";

/// How often the controller looks at all nodes (`--node-monitor-period`), in seconds.
pub const MONITOR_PERIOD: f64 = 5.0;
/// How often the controller works on the queue of nodes to taint (`NodeEvictionPeriod`), in seconds.
pub const EVICTION_PERIOD: f64 = 0.1;
/// The default `--node-monitor-grace-period` since Kubernetes 1.32, in seconds
/// (`pkg/controller/nodelifecycle/config/v1alpha1/defaults.go`).
pub const GRACE_PERIOD: u32 = 50;
/// The default `--node-monitor-grace-period` up to Kubernetes 1.31, in seconds.
pub const GRACE_PERIOD_BEFORE_1_32: u32 = 40;
/// A zone with fewer nodes that are not Ready is never in partial disruption.
const PARTIAL_AT_LEAST: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// `--node-monitor-grace-period`, in seconds.
    pub grace_period: u32,
    /// `--node-eviction-rate`: nodes a second in a healthy zone.
    pub eviction_rate: f32,
    /// `--secondary-node-eviction-rate`: nodes a second in a large zone in partial disruption.
    pub secondary_rate: f32,
    /// `--unhealthy-zone-threshold`: the share that makes a disruption partial.
    pub unhealthy_threshold: f32,
    /// `--large-cluster-size-threshold`: a zone with more nodes than this is large.
    pub large_zone: usize,
    /// Whether the controller reads a node's lease before it takes the node for Unknown
    /// (`NodeControllerLeaseCircuitBreaker`, on by default since 1.37).
    #[serde(skip)]
    pub reads_lease: bool,
}

impl Default for Settings {
    /// The defaults of v1.36.3.
    fn default() -> Self {
        Self {
            grace_period: GRACE_PERIOD,
            eviction_rate: 0.1,
            secondary_rate: 0.01,
            unhealthy_threshold: 0.55,
            large_zone: 50,
            reads_lease: false,
        }
    }
}

impl Settings {
    /// The defaults of the version that the server names (`v1.31.4`); of v1.36.3 when it is not known.
    pub fn for_version(server: Option<&str>) -> Self {
        let version = server
            .and_then(crate::version::Version::parse)
            .map(|version| (version.major, version.minor));
        let mut settings = Self::default();
        if version.is_some_and(|version| version < (1, 32)) {
            settings.grace_period = GRACE_PERIOD_BEFORE_1_32;
        }
        settings.reads_lease = version.is_some_and(|version| version >= (1, 37));
        settings
    }

    /// Seconds from a node's last sign of life until its condition Ready is Unknown, at the
    /// latest. The controller sees a sign of life in its next pass and counts the grace period
    /// from there (`probeTimestamp` in `tryUpdateNodeHealth`), in whole passes.
    pub fn detected_within(&self) -> f64 {
        let passes = (f64::from(self.grace_period) / MONITOR_PERIOD).ceil();
        (passes + 1.0) * MONITOR_PERIOD
    }
}

/// Region and zone of a node as the controller reads them; both may be empty.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct ZoneKey {
    /// Region.
    pub region: Str,
    /// Zone.
    pub zone: Str,
}

impl ZoneKey {
    /// The key of a node with these labels. All nodes without any share one.
    pub fn of(labels: &Labels) -> Self {
        let first = |beta: &str, stable: &str| {
            let label = labels.get(beta).or_else(|| labels.get(stable));
            label.cloned().unwrap_or_default()
        };
        Self {
            region: first(BETA_REGION_LABEL, REGION_LABEL),
            zone: first(BETA_ZONE_LABEL, ZONE_LABEL),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.region.is_empty() && self.zone.is_empty()
    }
}

impl std::fmt::Display for ZoneKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.region.as_str(), self.zone.as_str()) {
            ("", "") => f.write_str("(no zone)"),
            ("", zone) => f.write_str(zone),
            (region, "") => write!(f, "{region} (no zone)"),
            // Cloud zones are often named after their region; do not say it twice.
            (region, zone) if zone.starts_with(region) => f.write_str(zone),
            (region, zone) => write!(f, "{region}/{zone}"),
        }
    }
}

/// The name of a zone in the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ZoneState {
    /// Enough nodes are Ready.
    #[default]
    Normal,
    /// At least three, and a share of at least the threshold, are not.
    PartialDisruption,
    /// None is.
    FullDisruption,
}

impl ZoneState {
    #[expect(clippy::cast_precision_loss, reason = "float32, as Kubernetes computes it")]
    pub fn of(ready: usize, not_ready: usize, settings: &Settings) -> Self {
        let share = not_ready as f32 / (not_ready + ready) as f32;
        if ready == 0 && not_ready > 0 {
            Self::FullDisruption
        } else if not_ready >= PARTIAL_AT_LEAST && share >= settings.unhealthy_threshold {
            Self::PartialDisruption
        } else {
            Self::Normal
        }
    }
}

/// How many nodes of a zone have to fail before its disruption is partial; none if it is full first.
pub fn failures_to_partial(size: usize, settings: &Settings) -> Option<usize> {
    (PARTIAL_AT_LEAST..size).find(|&failed| {
        ZoneState::of(size - failed, failed, settings) == ZoneState::PartialDisruption
    })
}

/// One zone as the controller sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Region and zone.
    #[serde(flatten)]
    pub key: ZoneKey,
    /// Nodes that count.
    pub size: usize,
    /// Of them, with Ready `True`.
    pub ready: usize,
    /// The others.
    pub not_ready: usize,
    /// Nodes that do not count, because they have no status: whether they are Ready is not known.
    pub unknown: usize,
    /// State.
    pub state: ZoneState,
    /// `NoExecute` taints a second.
    pub eviction_rate: f32,
    /// Nodes that are not Ready and have no `NoExecute` taint of the controller yet, excluded ones too.
    pub queued: usize,
    /// Seconds until the last of them has it; none: never.
    pub seconds_to_last_taint: Option<f64>,
}

/// The zones of a cluster: the JSON document of `explain zones`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneReport {
    /// By region and zone.
    pub zones: Vec<Zone>,
    /// Every zone is in full disruption: the controller takes its own health for bad,
    /// removes the taints once and evicts nowhere.
    pub all_fully_disrupted: bool,
    /// Nodes that bear the label `node.kubernetes.io/exclude-disruption`, by name.
    pub excluded: Vec<Str>,
}

impl ZoneReport {
    /// Judges the zones of `nodes`, which were read at `now`: a taint that is younger than the
    /// eviction rate allows holds up the next one. Where the time is not known, none does.
    pub fn of<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
        settings: &Settings,
        now: Option<Timestamp>,
    ) -> Self {
        let mut counts: BTreeMap<ZoneKey, (Zone, Option<Timestamp>)> = BTreeMap::new();
        let mut excluded = Vec::new();
        for node in nodes {
            let key = ZoneKey::of(&node.metadata.labels);
            let (zone, last_taint) = counts.entry(key).or_default();
            if node.metadata.labels.contains_key(EXCLUDE_LABEL) {
                excluded.push(node.metadata.name.clone());
            } else if node.lacks_conditions() {
                zone.unknown += 1;
            } else if node.is_ready() {
                zone.ready += 1;
            } else {
                zone.not_ready += 1;
            }
            if waits_for_taint(node) {
                zone.queued += 1;
            }
            let tainted_at = taints(node).filter_map(|taint| taint.time_added).max();
            *last_taint = tainted_at.max(*last_taint);
        }
        excluded.sort();
        let mut zones: Vec<_> = counts
            .into_iter()
            .map(|(key, (zone, last_taint))| {
                let since = now.zip(last_taint);
                let since = since.map(|(now, then)| now.duration_since(then).as_secs_f64());
                zone.judged(key, settings, since)
            })
            .collect();
        let mut counted = zones.iter().filter(|zone| zone.size > 0).peekable();
        let all_fully_disrupted =
            counted.peek().is_some() && counted.all(|zone| zone.state == ZoneState::FullDisruption);
        if all_fully_disrupted {
            for zone in &mut zones {
                zone.eviction_rate = 0.0;
                zone.seconds_to_last_taint = seconds_to_last_taint(zone.queued, 0.0, None);
            }
        }
        Self {
            zones,
            all_fully_disrupted,
            excluded,
        }
    }

    pub fn known(&self) -> impl Iterator<Item = &Zone> + Clone {
        self.zones.iter().filter(|zone| zone.unknown == 0)
    }

    pub fn zone_of(&self, labels: &Labels) -> Option<&Zone> {
        let key = ZoneKey::of(labels);
        self.zones.iter().find(|zone| zone.key == key)
    }
}

pub fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let keys = [NOT_READY, UNREACHABLE].into_iter();
    keys.filter_map(|key| find(node, key, NO_EXECUTE))
}

/// Whether the controller will put a `NoExecute` taint on the node when its rate allows.
pub fn waits_for_taint(node: &Node) -> bool {
    // A swap of one for the other is not rate limited, so only untainted nodes queue.
    let ready = node.condition("Ready");
    ready.is_some_and(|ready| ready.status != "True") && taints(node).next().is_none()
}

impl Zone {
    /// The counted zone, as the controller judges it; `since`: as for [`seconds_to_last_taint`].
    fn judged(self, key: ZoneKey, settings: &Settings, since: Option<f64>) -> Self {
        let size = self.ready + self.not_ready;
        let state = ZoneState::of(self.ready, self.not_ready, settings);
        let eviction_rate = eviction_rate(size, state, settings);
        Self {
            key,
            size,
            state,
            eviction_rate,
            seconds_to_last_taint: seconds_to_last_taint(self.queued, eviction_rate, since),
            ..self
        }
    }
}

/// Nodes a second that the controller taints in a zone, unless all zones are fully disrupted.
pub fn eviction_rate(size: usize, state: ZoneState, settings: &Settings) -> f32 {
    match state {
        ZoneState::Normal | ZoneState::FullDisruption => settings.eviction_rate,
        ZoneState::PartialDisruption if size > settings.large_zone => settings.secondary_rate,
        ZoneState::PartialDisruption => 0.0,
    }
}

/// Seconds until the last of `queued` nodes is tainted at `rate`, none for never. The first
/// goes at once, if the zone's last taint was long enough ago (`since`, in seconds): the bucket
/// holds one. The others follow one by one.
#[expect(clippy::cast_precision_loss, reason = "counts of nodes are small")]
pub fn seconds_to_last_taint(queued: usize, rate: f32, since: Option<f64>) -> Option<f64> {
    if queued == 0 {
        return Some(0.0);
    }
    // Through the decimal form: 0.1f32 as f64 would give 9.99999985 s a node.
    let rate: f64 = rate.to_string().parse().unwrap_or_default();
    (rate > 0.0).then(|| {
        let first = since.map_or(0.0, |since| (1.0 / rate - since.max(0.0)).max(0.0));
        first + (queued - 1) as f64 / rate
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(ready: usize, not_ready: usize) -> ZoneState {
        ZoneState::of(ready, not_ready, &Settings::default())
    }

    #[test]
    fn states_at_the_borders() {
        assert_eq!(state(0, 2), ZoneState::FullDisruption);
        assert_eq!(state(1, 2), ZoneState::Normal, "two are never partial");
        assert_eq!(state(2, 3), ZoneState::PartialDisruption);
        assert_eq!(state(9, 11), ZoneState::PartialDisruption, "0.55 exactly");
        assert_eq!(state(0, 0), ZoneState::Normal);
    }

    #[test]
    fn a_zone_of_exactly_fifty_is_small() {
        let settings = Settings::default();
        let rate = |size| eviction_rate(size, ZoneState::PartialDisruption, &settings);
        assert!(rate(50).abs() < f32::EPSILON);
        assert!((rate(51) - 0.01).abs() < f32::EPSILON);
        assert_eq!(seconds_to_last_taint(3, rate(50), None), None);
        assert_eq!(seconds_to_last_taint(30, rate(51), None), Some(2900.0));
        assert_eq!(seconds_to_last_taint(4, 0.1, None), Some(30.0));
    }

    #[test]
    fn a_taint_just_now_holds_up_the_next_one() {
        assert_eq!(seconds_to_last_taint(2, 0.1, Some(4.0)), Some(16.0));
        assert_eq!(seconds_to_last_taint(2, 0.1, Some(3600.0)), Some(10.0));
        assert_eq!(seconds_to_last_taint(0, 0.1, Some(0.0)), Some(0.0));
        let skewed = seconds_to_last_taint(1, 0.1, Some(-5.0));
        assert_eq!(
            skewed,
            Some(10.0),
            "clocks differ; never more than one turn"
        );
    }

    #[test]
    fn the_grace_period_is_counted_in_passes() {
        let within = |grace_period| {
            let settings = Settings {
                grace_period,
                ..Settings::default()
            };
            settings.detected_within()
        };
        let seconds = [(50, 55.0), (40, 45.0), (13, 20.0), (15, 20.0), (16, 25.0)];
        for (grace_period, expected) in seconds {
            let difference: f64 = within(grace_period) - expected;
            assert!(difference.abs() < f64::EPSILON, "{grace_period}");
        }
    }

    #[test]
    fn the_beta_label_wins() {
        let labels = Labels::from([
            (ZONE_LABEL.into(), "new".into()),
            (BETA_ZONE_LABEL.into(), "old".into()),
        ]);
        assert_eq!(ZoneKey::of(&labels).zone, "old");
    }

    #[test]
    fn the_grace_period_follows_the_server() {
        assert_eq!(Settings::for_version(Some("v1.31.9")).grace_period, 40);
        assert_eq!(
            Settings::for_version(Some("v1.32.0-eks-abc")).grace_period,
            50
        );
        assert_eq!(Settings::for_version(None).grace_period, 50);
    }

    #[test]
    fn all_zones_down_stops_everything() {
        let node = |zone: &str| {
            let mut node = crate::fixtures::node(zone);
            node.metadata.labels = Labels::from([(ZONE_LABEL.into(), zone.into())]);
            node.status.conditions[0].status = "Unknown".into();
            node
        };
        let report = ZoneReport::of(&[node("a"), node("b")], &Settings::default(), None);
        assert!(report.all_fully_disrupted);
        assert!(report.zones.iter().all(|zone| zone.eviction_rate == 0.0));
        let mut stripped = node("a");
        stripped.status.conditions.clear();
        let report = ZoneReport::of(&[stripped], &Settings::default(), None);
        assert!(!report.all_fully_disrupted && report.known().next().is_none());
        assert_eq!((report.zones[0].size, report.zones[0].unknown), (0, 1));
    }

    proptest! {
        #[test]
        fn the_failures_to_partial_are_the_first_ones(size in 0_usize..300) {
            let settings = Settings::default();
            if let Some(failures) = failures_to_partial(size, &settings) {
                prop_assert_eq!(state(size - failures, failures), ZoneState::PartialDisruption);
                prop_assert_eq!(state(size - failures + 1, failures - 1), ZoneState::Normal);
            }
        }
    }
}
