//! Progress log of a drain: one line for each change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use nodelife_core::format;
use nodelife_core::node_marks::CordonOwner;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain::{DrainEnd, DrainStatus, Level, Progress, Reporter};
use nodelife_drain_plan::{
    DrainMachine, DrainReport, NodeLoss, NodePhase, Outcome, PodState, StopReason, Tracked,
    diagnosis,
};

use super::lines::{self, Line};
use super::screen::screen;
use crate::cli::drain::DrainFormat;
use crate::output::Printer;

pub(crate) struct ProgressLog<'a> {
    printer: &'a mut Printer,
    print_events: bool,
    report: Option<DrainFormat>,
    nodes: BTreeMap<Str, &'static str>,
    /// The last block that was printed of each blocked pod, by its UID.
    blocks: BTreeMap<Str, PodState>,
    painted: Option<(Timestamp, Timestamp)>,
    repaint_pending: bool,
}

/// At most so often the screen is painted, and at least so often, since times go on.
const REPAINT: (SignedDuration, SignedDuration) = (
    SignedDuration::from_millis(100),
    SignedDuration::from_secs(1),
);

impl<'a> ProgressLog<'a> {
    pub(crate) fn new(
        printer: &'a mut Printer,
        print_events: bool,
        report: Option<DrainFormat>,
    ) -> Self {
        Self {
            printer,
            print_events,
            report,
            nodes: BTreeMap::new(),
            blocks: BTreeMap::new(),
            painted: None,
            repaint_pending: false,
        }
    }

    /// The screen to paint on; not beside events on stdout, which may be on the same terminal.
    fn canvas(&self) -> Option<(usize, usize)> {
        self.printer.canvas().filter(|_| !self.print_events)
    }

    fn print_state(&mut self, tracked: &Tracked) {
        let first = tracked.attempts <= 1;
        let same = self.is_blocked_as_before(tracked);
        let worth = match &tracked.state {
            PodState::Skipped(_)
            | PodState::Waiting
            | PodState::CheckingOwner
            | PodState::Fetching => false,
            // Repeated attempts are reported by their answers.
            PodState::Evicting => first,
            // The eviction was reported; a deletion by somebody else was not.
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

    fn print_nodes(&mut self, progress: &Progress<'_>) {
        if !self.print_events {
            return;
        }
        for (node, phase) in progress.machine.nodes() {
            let Some((state, message)) = lines::state(progress.machine, node, phase) else {
                continue;
            };
            if self.nodes.insert(node.clone(), state) != Some(state) {
                let time = progress.now;
                let line = Line::Node {
                    time,
                    node,
                    state,
                    message,
                };
                if let Err(error) = line.print(self.printer) {
                    tracing::debug!(%error, "failed to print the state of a node");
                }
            }
        }
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

    /// What a drain has done, and the command that takes it back.
    fn print_sum(&mut self, machine: &DrainMachine, before: &[Node], refused: usize) {
        const NAMED: usize = 5;
        let nodes = machine.nodes().map(|(name, _)| name.as_str());
        let mut nodes: Vec<&str> = nodes.filter(|node| machine.is_drained(node)).collect();
        let pods = machine.pods();
        let evicted = pods.filter(|pod| machine.outcome(pod) == Outcome::Evicted);
        let evicted = format::count(evicted.count(), "pod");
        let (drained, all) = (nodes.len(), machine.nodes().count() + refused);
        if all > 1 {
            let of = if drained == all {
                String::new()
            } else {
                format!("{drained} of ")
            };
            self.printer
                .note(format_args!("{of}{all} nodes drained: {evicted} evicted"));
        }
        // `--undo` leaves a node cordoned that somebody else had cordoned.
        let others = before
            .iter()
            .filter(|node| node.spec.unschedulable && CordonOwner::of(node).is_none());
        let others: BTreeSet<&str> = others.map(|node| node.metadata.name.as_str()).collect();
        nodes.retain(|node| !others.contains(node));
        let names = match nodes.as_slice() {
            [] => return,
            few if few.len() <= NAMED => few.join(" "),
            _ => "NODE...".to_owned(),
        };
        self.printer.note(format_args!(
            "to undo: kubectl nodelife drain {names} --undo"
        ));
    }
}

impl Reporter for ProgressLog<'_> {
    fn tell(&mut self, level: Level, text: &dyn fmt::Display) {
        self.printer.tell(level, text);
    }

    fn error(&mut self, error: &anyhow::Error) {
        self.printer.error(error);
    }

    fn pod_changed(&mut self, tracked: &Tracked, now: Timestamp) -> anyhow::Result<()> {
        if self.print_events {
            Line::of_pod(tracked, now).print(self.printer)?;
        }
        self.print_state(tracked);
        Ok(())
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.print_nodes(progress);
        let Some(size) = self.canvas() else { return };
        let now = progress.now;
        let (started, last) = self.painted.unwrap_or((now, Timestamp::UNIX_EPOCH));
        self.repaint_pending = now.duration_since(last) < REPAINT.0;
        if self.repaint_pending {
            return;
        }
        self.painted = Some((started, now));
        let lines = screen(progress.machine, progress.nodes, (started, now), size);
        self.printer.live(lines);
    }

    fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let (least, most) = REPAINT;
        let pause = if self.repaint_pending { least } else { most };
        self.canvas().map(|_| now + pause)
    }

    fn interrupted(&mut self, waits: bool) {
        self.printer.note(if waits {
            "interrupted: waiting for pending evictions; press Ctrl-C again to exit now"
        } else {
            "interrupted"
        });
    }

    fn ended(&mut self, end: &DrainEnd<'_>) {
        self.print_nodes(&end.progress);
        let Progress {
            machine,
            nodes,
            now,
            ..
        } = end.progress;
        self.printer.live(Vec::new());
        // An interruption was reported when it happened.
        if machine.stopped() == Some(StopReason::Deadline) {
            self.printer.note("timed out (--timeout)");
        }
        if end.status == DrainStatus::Done {
            if !machine.pods_are_named() {
                self.print_sum(machine, nodes, end.refused);
            }
            return;
        }
        let mut left: Vec<&Tracked> = machine.pods().filter(|t| !t.is_done()).collect();
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
                outcome_word(machine, tracked, now)
            ));
            for reason in diagnosis(&tracked.pod, nodes, now) {
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
            .partition(|node| end.to_uncordon.iter().any(|back| back.as_str() == *node));
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
        self.print_sum(machine, nodes, end.refused);
    }

    fn report(&mut self, report: &DrainReport) -> anyhow::Result<()> {
        match self.report {
            Some(format) => self.printer.drain_document(report, format),
            None => Ok(()),
        }
    }
}

/// The result for a pod that is left, in a word: one that has grace left is not stuck yet.
fn outcome_word(machine: &DrainMachine, tracked: &Tracked, now: Timestamp) -> String {
    let due = tracked.pod.metadata.deletion_timestamp;
    match &tracked.state {
        PodState::Terminating { .. } if due.is_none_or(|due| due > now) => {
            "not gone yet".to_owned()
        }
        _ => machine.outcome(tracked).to_string(),
    }
}
