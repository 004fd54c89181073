//! `StatusReporter`: turns what a drain tells into the status of its object.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_core::node_maintenance::{BetweenNodes, NodeMaintenance, NodeStatus, UnsettledPod};
use nodelife_core::text::Str;
use nodelife_drain::{DrainEnd, Level, Progress, Reporter};
use tokio::sync::watch;
use tokio::time::Instant;

use super::status;

/// How often the state of a drain is taken at most, and so written.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// How long a sentence in the status may be, in characters.
const MAX_SENTENCE: usize = 512;

/// How many warnings are kept.
const MAX_WARNINGS: usize = 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct View {
    pub(super) nodes: Vec<NodeStatus>,
    /// What the next node waits for, after each node that holds it up.
    pub(super) between: BTreeMap<Str, BetweenNodes>,
    /// The first pods that are not settled, and how many more; none before it has looked.
    pub(super) pods: Option<(Vec<UnsettledPod>, u32)>,
    /// What blocks pods, most pods first.
    pub(super) blocked: String,
    /// Whether the drain came to its end; not if it never began.
    pub(super) ended: bool,
    /// Whether a retry cannot succeed after a failure: its time is over, or its gate
    /// has failed.
    pub(super) is_final: bool,
    pub(super) gate_failed: bool,
}

#[derive(Default)]
pub(super) struct StatusReporter {
    name: Str,
    /// How many pods earlier drains of the object have evicted, by node: they are gone, and not seen again.
    evicted_before: BTreeMap<Str, u32>,
    view: watch::Sender<View>,
    taken_at: Option<Instant>,
    /// Whether something has happened since.
    stale: bool,
    /// The last sentence, errors included.
    pub(super) last: String,
    pub(super) error: Option<String>,
    /// The warnings, the first of many; the last one after a gate has failed is what it said.
    pub(super) warnings: Vec<Str>,
}

impl StatusReporter {
    pub(super) fn new(object: &NodeMaintenance) -> (Self, watch::Receiver<View>) {
        let (view, receiver) = watch::channel(View::default());
        let nodes = object.status.nodes.iter();
        let reporter = Self {
            name: object.metadata.name.clone(),
            view,
            evicted_before: nodes.map(|n| (n.name.clone(), n.pods.evicted)).collect(),
            ..Self::default()
        };
        (reporter, receiver)
    }

    fn take(&mut self, progress: &Progress<'_>, ended: bool) {
        self.taken_at = Some(Instant::now());
        self.stale = false;
        let mut nodes = status::nodes(progress);
        for node in &mut nodes {
            node.pods.evicted += self.evicted_before.get(&node.name).unwrap_or(&0);
        }
        self.view.send_replace(View {
            nodes,
            between: status::between(progress),
            pods: progress.has_pods.then(|| status::pods(progress)),
            blocked: status::blocked(progress),
            ended,
            is_final: status::is_final(progress),
            gate_failed: status::gate_failed(progress),
        });
    }

    fn remember(&mut self, text: &str) {
        self.last = text.chars().take(MAX_SENTENCE).collect();
    }
}

impl Reporter for StatusReporter {
    fn tell(&mut self, level: Level, text: &dyn Display) {
        let name = &self.name;
        match level {
            Level::Note => tracing::info!(maintenance = %name, "{text}"),
            Level::Warning => tracing::warn!(maintenance = %name, "{text}"),
        }
        self.remember(&text.to_string());
        if level == Level::Warning {
            self.warnings.truncate(MAX_WARNINGS - 1);
            self.warnings.push(self.last.as_str().into());
        }
    }

    fn error(&mut self, error: &anyhow::Error) {
        tracing::warn!(maintenance = %self.name, "{error:#}");
        self.remember(&format!("{error:#}"));
        self.error = Some(self.last.clone());
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if self.taken_at.is_some_and(|at| at.elapsed() < PERIOD) {
            self.stale = true;
        } else {
            self.take(progress, false);
        }
    }

    // What is written with the begin of a node says what became of those before.
    fn begins(&mut self, progress: &Progress<'_>) {
        self.take(progress, false);
    }

    fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let period = SignedDuration::try_from(PERIOD).ok()?;
        self.stale
            .then(|| now.saturating_add(period).ok())
            .flatten()
    }

    fn ended(&mut self, end: &DrainEnd<'_>) {
        self.take(&end.progress, true);
    }
}
