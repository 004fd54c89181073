//! Progress log of a drain: one line for each change.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;

use jiff::{SignedDuration, Timestamp};
use nodelife_core::drain::{
    Machine, NodeLoss, NodePhase, Outcome, PodState, SkipReason, StopReason, Tracked, diagnosis,
};
use nodelife_core::format::count;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use serde::Serialize;

use super::events::EventReason;
use super::screen::screen;
use crate::exit::ExitStatus;
use crate::output::Printer;

/// Tells how a drain goes on.
pub(crate) struct ProgressLog<'a> {
    printer: &'a mut Printer,
    /// Whether each change of a state goes to stdout.
    print_events: bool,
    /// As they were before the drain.
    nodes: Vec<Node>,
    /// What each pod that is blocked was last said to be blocked by, by its UID.
    blocks: BTreeMap<Str, PodState>,
    /// When the screen was first and last painted.
    painted: Option<(Timestamp, Timestamp)>,
    /// Whether something changed since, too soon to be painted.
    repaint_pending: bool,
}

/// At most so often the screen is painted, and at least so often, since times go on.
const REPAINT: (SignedDuration, SignedDuration) = (
    SignedDuration::from_millis(100),
    SignedDuration::from_secs(1),
);

/// How many pods that stay are named.
const MAX_NAMED: usize = 5;

/// One line of `--events jsonl`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: Timestamp,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    node: &'a str,
    /// What the outcome would be if the drain ended now.
    outcome: Outcome,
    message: String,
    /// The budget that is in the way, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<String>,
    attempts: u32,
}

impl<'a> ProgressLog<'a> {
    pub(crate) fn new(printer: &'a mut Printer, print_events: bool, nodes: &[Node]) -> Self {
        Self {
            printer,
            print_events,
            nodes: nodes.to_vec(),
            blocks: BTreeMap::new(),
            painted: None,
            repaint_pending: false,
        }
    }

    /// The screen to paint on. The events on stdout may be on the same terminal, so they and
    /// the painting exclude each other.
    fn canvas(&self) -> Option<(usize, usize)> {
        self.printer.canvas().filter(|_| !self.print_events)
    }

    /// When to wake up at the latest to paint again.
    pub(crate) fn wake_at(&self, wake: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let pause = if self.repaint_pending {
            REPAINT.0
        } else {
            REPAINT.1
        };
        let paint = self.canvas().map(|_| now + pause);
        wake.into_iter().chain(paint).min()
    }

    /// Paints what stands where, on a terminal alone.
    pub(crate) fn paint(&mut self, machine: &Machine, now: Timestamp) {
        let Some(size) = self.canvas() else { return };
        let (started, last) = self.painted.unwrap_or((now, Timestamp::UNIX_EPOCH));
        self.repaint_pending = now.duration_since(last) < REPAINT.0;
        if self.repaint_pending {
            return;
        }
        self.painted = Some((started, now));
        let lines = screen(machine, &self.nodes, (started, now), size);
        self.printer.live(lines);
    }

    pub(crate) fn printer(&mut self) -> &mut Printer {
        self.printer
    }

    pub(crate) fn pod(&mut self, tracked: &Tracked, now: Timestamp) -> anyhow::Result<()> {
        if self.print_events {
            let meta = &tracked.pod.metadata;
            let line = Line {
                time: now,
                namespace: &meta.namespace,
                name: &meta.name,
                uid: &meta.uid,
                node: &tracked.pod.spec.node_name,
                outcome: tracked.outcome(),
                message: tracked.state.to_string(),
                budget: tracked.budget(),
                attempts: tracked.attempts,
            };
            serde_json::to_writer(self.printer.data(), &line)?;
            writeln!(self.printer.data())?;
            self.printer.flush()?;
        }
        self.print_state(tracked);
        Ok(())
    }

    fn print_state(&mut self, tracked: &Tracked) {
        let first = tracked.attempts <= 1;
        let same = self.is_blocked_as_before(tracked);
        let worth = match &tracked.state {
            PodState::Skipped(_)
            | PodState::Waiting
            | PodState::CheckingOwner
            | PodState::Fetching => false,
            // Repeated attempts are told by what they were answered.
            PodState::Evicting => first,
            // The eviction was told; what somebody else deleted was not.
            PodState::Terminating { .. } => !tracked.accepted && tracked.attempts == 0,
            // Between two refusals of the same budget it was only asked again.
            PodState::Blocked(_) => !same,
            PodState::Completing
            | PodState::Gone
            | PodState::Refused(_)
            | PodState::Impossible(_)
            | PodState::GivenUp(_)
            | PodState::Stuck => true,
        };
        // What passes is painted on a terminal, and what stays is written.
        let painted = matches!(tracked.state, PodState::Evicting | PodState::Blocked(_));
        if !worth || (painted && self.canvas().is_some()) {
            return;
        }
        let meta = &tracked.pod.metadata;
        let took = match (tracked.started_at, tracked.finished_at) {
            (Some(start), Some(end)) => {
                format!(" after {:.1} s", end.duration_since(start).as_secs_f64())
            }
            _ => String::new(),
        };
        let (namespace, name) = (&meta.namespace, &meta.name);
        self.printer
            .note(format_args!("{namespace}/{name}: {}{took}", tracked.state));
    }

    /// Whether that was the last that was said of it, though it was tried again since.
    fn is_blocked_as_before(&mut self, tracked: &Tracked) -> bool {
        let uid = &tracked.pod.metadata.uid;
        match &tracked.state {
            PodState::Blocked(_) => {
                let before = self.blocks.insert(uid.clone(), tracked.state.clone());
                before.is_some_and(|before| before.reads_like(&tracked.state))
            }
            PodState::Waiting
            | PodState::CheckingOwner
            | PodState::Evicting
            | PodState::Fetching => false,
            _ => {
                self.blocks.remove(uid);
                false
            }
        }
    }

    /// A node was found empty of all that had to go. What that is for its events.
    pub(crate) fn done(&mut self, node: &str, machine: &Machine) -> (EventReason, String) {
        let here = || machine.pods().filter(|t| t.pod.spec.node_name == node);
        let left = here().filter(|t| !is_done(t)).count();
        let unselected = here()
            .filter(|t| t.state == PodState::Skipped(SkipReason::NotSelected))
            .count();
        let (what, text) = if left > 0 {
            let text = format!("not drained, {left} pods left");
            (EventReason::Stopped, text)
        } else if unselected > 0 {
            let text = format!(
                "drained of the pods that match --pod-selector; {unselected} other pods \
                     left"
            );
            (EventReason::Drained, text)
        } else {
            let evicted = here().filter(|t| t.outcome() == Outcome::Evicted).count();
            let text = format!("drained: {evicted} evicted{}", staying(here()));
            (EventReason::Drained, text)
        };
        self.printer.note(format_args!("node/{node}: {text}"));
        (what, text)
    }

    /// The user asked to stop. `waits`: for answers to what was sent before.
    pub(crate) fn interrupted(&mut self, waits: bool) {
        let more = if waits {
            ": waiting for pending evictions; press Ctrl-C again to exit now"
        } else {
            ""
        };
        self.printer.note(format_args!("interrupted{more}"));
    }

    /// How it ended at this time, and how to go on; `to_uncordon`: the nodes whose cordon is taken
    /// back.
    pub(crate) fn finish(
        &mut self,
        machine: &Machine,
        status: ExitStatus,
        now: Timestamp,
        to_uncordon: &[Str],
    ) {
        self.printer.live(Vec::new());
        // An interruption was told when it happened.
        if machine.stopped() == Some(StopReason::Deadline) {
            self.printer.note("timed out (--timeout)");
        }
        if status == ExitStatus::Done {
            return;
        }
        let mut left: Vec<&Tracked> = machine.pods().filter(|t| !is_done(t)).collect();
        left.sort_by(|a, b| {
            let (a, b) = (&a.pod.metadata, &b.pod.metadata);
            (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid))
        });
        for tracked in left {
            let meta = &tracked.pod.metadata;
            self.printer.note(format_args!(
                "{}/{} on {}: {} ({})",
                meta.namespace,
                meta.name,
                tracked.pod.spec.node_name,
                tracked.state,
                outcome_word(tracked, now)
            ));
            for reason in diagnosis(&tracked.pod, &self.nodes, now) {
                self.printer.note(format_args!("  {reason}"));
            }
        }
        for (node, phase) in machine.nodes() {
            if let NodePhase::Left(loss) = phase
                && loss != NodeLoss::Deleted
            {
                self.printer
                    .note(format_args!("node/{node}: not drained: {loss}"));
            }
        }
        let (open, kept): (Vec<&str>, Vec<&str>) = machine
            .nodes()
            .filter(|(node, phase)| {
                let begun = match phase {
                    NodePhase::Waiting | NodePhase::Cordoning => false,
                    NodePhase::Left(loss) => loss.keeps_cordon() && machine.had_turn(node),
                    _ => true,
                };
                begun && !machine.is_drained(node)
            })
            .map(|(node, _)| node.as_str())
            .partition(|node| to_uncordon.iter().any(|back| back.as_str() == *node));
        let on = "to continue, run the same command again";
        if machine.pods_are_named() {
            self.printer.note(on);
            return;
        }
        if !open.is_empty() {
            let open = open.join(" ");
            self.printer.note(format_args!("not drained: {open}; {on}"));
        }
        if !kept.is_empty() {
            let kept = kept.join(" ");
            self.printer.note(format_args!(
                "not drained and still cordoned: {kept}; {on}; to give up: kubectl nodelife drain \
                 {kept} --undo"
            ));
        }
    }
}

/// Says what is not known where the budgets may not be seen.
pub(crate) fn warn_budgets_unreadable(why: &impl fmt::Display, printer: &mut Printer) {
    printer.warn(format_args!("cannot read PodDisruptionBudgets: {why}"));
    printer.note(
        "the API server still checks the budgets of each eviction; drain cannot predict what they \
         allow, the number of waves or the duration",
    );
}

/// What became of a pod that is left, in a word: one that has grace left is not stuck yet.
fn outcome_word(tracked: &Tracked, now: Timestamp) -> String {
    let due = tracked.pod.metadata.deletion_timestamp;
    match &tracked.state {
        PodState::Terminating { .. } if due.is_none_or(|due| due > now) => {
            "not gone yet".to_owned()
        }
        _ => tracked.outcome().to_string(),
    }
}

/// The pods that stay, and why: those that nobody expects to stay are named.
fn staying<'a>(pods: impl Iterator<Item = &'a Tracked>) -> String {
    let (mut of_daemon_sets, mut of_kubelet, mut names) = (0, 0, Vec::new());
    for tracked in pods {
        match &tracked.state {
            PodState::Skipped(SkipReason::DaemonSet) => of_daemon_sets += 1,
            PodState::Skipped(SkipReason::Mirror) => of_kubelet += 1,
            PodState::Skipped(SkipReason::Asked(_) | SkipReason::Overdue) => {
                let meta = &tracked.pod.metadata;
                names.push(format!(
                    "{}/{} ({})",
                    meta.namespace, meta.name, tracked.state
                ));
            }
            _ => {}
        }
    }
    let all = of_daemon_sets + of_kubelet + names.len();
    names.sort();
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let kinds = [
        (of_daemon_sets, "DaemonSet pod"),
        (of_kubelet, "static pod"),
    ];
    let counts = kinds.iter().filter(|(number, _)| *number > 0);
    let mut parts: Vec<String> = counts.map(|(number, noun)| count(*number, noun)).collect();
    parts.append(&mut names);
    match all {
        0 => String::new(),
        1 => format!("; {} stays", parts.join(", ")),
        _ => format!("; {} stay", parts.join(", ")),
    }
}

fn is_done(tracked: &Tracked) -> bool {
    matches!(tracked.outcome(), Outcome::Evicted | Outcome::Skipped)
}
