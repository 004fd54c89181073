//! End of a drain: report and exit status.

use std::time::Duration;

use nodelife_cluster::ApiError;
use nodelife_cluster::request::Call;
use nodelife_core::text::Str;
use nodelife_drain_plan::{
    Awaited, DrainEvent, NodeLoss, NodePhase, NodeReport, Outcome, StopReason,
};

use super::Executor;
use crate::events::EventReason;
use crate::reporter::{DrainEnd, DrainStatus};

/// How long the API server may take after `--timeout` to say that it is there.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

impl Executor<'_> {
    pub(super) fn finish(&mut self) -> anyhow::Result<DrainStatus> {
        let now = self.now();
        let status = self.status();
        for node in self.machine.awaiting_nodes() {
            self.print_awaited(&node);
        }
        for (node, phase) in self.machine.nodes() {
            let is_gone = matches!(
                phase,
                NodePhase::Left(NodeLoss::Deleted | NodeLoss::Recreated)
            );
            if !is_gone && self.machine.had_turn(node) && !self.machine.is_drained(node) {
                self.events
                    .record(node, EventReason::STOPPED, "", "not drained");
            }
        }
        let to_uncordon = self.to_uncordon();
        for (node, why) in &self.refusals.nodes {
            let text = format_args!("node/{node}: not drained: refused: {why}");
            self.reporter.note(text);
        }
        let refused = self.refusals.nodes.len();
        self.show(now, |reporter, progress| {
            reporter.ended(&DrainEnd {
                progress,
                status,
                to_uncordon: &to_uncordon,
                refused,
            });
        });
        self.give_report(None)?;
        self.warn_forbidden(&to_uncordon);
        Ok(status)
    }

    /// Gives the report, unless that was done.
    pub(super) fn give_report(&mut self, error: Option<&anyhow::Error>) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.reported, true) {
            return Ok(());
        }
        let now = self.now();
        let mut report = self.machine.report(&self.view.nodes, self.started_at, now);
        report.error = error.map(|error| format!("{error:#}"));
        let refused = self.refusals.nodes.iter();
        report.nodes.extend(refused.map(|(node, why)| NodeReport {
            name: node.clone(),
            drained: false,
            left: Some(format!("refused: {why}")),
            waiting_for: Vec::new(),
        }));
        self.reporter.report(&report)
    }

    /// At the end by `--timeout` what is known of the pods may be old: asks whether the API server is there.
    pub(super) async fn check_reachable(&mut self) {
        let ended = self.machine.stopped() == Some(StopReason::Deadline);
        if !ended || self.status() == DrainStatus::Done {
            return;
        }
        let call = Call::path("/version");
        let answer = tokio::time::timeout(PROBE_TIMEOUT, self.cluster.exchange(&call)).await;
        if matches!(answer, Ok(Ok(_))) {
            return;
        }
        self.failed = self.failed.and(DrainStatus::Failed);
        self.reporter.note(format_args!(
            "the API server {} does not answer; the states of the pods are the last known ones",
            self.cluster.server()
        ));
    }

    pub(super) fn fail(&mut self, error: &anyhow::Error) -> anyhow::Result<DrainStatus> {
        self.reporter.error(error);
        let status = match error.downcast_ref::<ApiError>() {
            Some(ApiError::Forbidden(_)) => DrainStatus::Impossible,
            _ => DrainStatus::Failed,
        };
        self.failed = self.failed.and(status);
        self.give_report(Some(error))?;
        self.finish()
    }

    /// The nodes whose cordon of this run is taken back: with `--undo-on-failure` all that it could
    /// not empty, and in any case those that its user may not evict anything from: the right was
    /// asked for before the cordon, and may have been taken away since.
    pub(super) fn to_uncordon(&self) -> Vec<Str> {
        let given_back = |node: &&Str| {
            !self.machine.is_drained(node)
                && (self.request.settings.undo_on_failure
                    || self.machine.forbidden_namespace(node).is_some())
        };
        self.cordoned.iter().filter(given_back).cloned().collect()
    }

    pub(super) fn gate_ended(&mut self, node: Str, result: Result<(), String>) -> DrainEvent {
        let passed = result.is_ok();
        if let Err(why) = result {
            let gate = self.request.gate.as_ref().map_or("", |gate| gate.name());
            self.reporter.warn(format_args!(
                "{gate} failed after node {node}, so no other node is started: {why}"
            ));
        }
        DrainEvent::GateEnded { node, passed }
    }

    fn warn_forbidden(&mut self, to_uncordon: &[Str]) {
        let (right, flags) = self.request.settings.method().permission();
        let are_named = self.machine.pods_are_named();
        let kind = if are_named { "pod" } else { "node" };
        for (node, _) in self.machine.nodes() {
            let Some(namespace) = self.machine.forbidden_namespace(node) else {
                continue;
            };
            let is_back = to_uncordon.contains(node);
            let back = if is_back { ", uncordoning it" } else { "" };
            self.reporter.warn(format_args!(
                "{kind}/{node}: nothing was evicted{back}: not allowed to {right} in namespace \
                 {namespace}; check with: kubectl auth can-i {flags} -n {namespace}"
            ));
        }
    }

    pub(super) fn print_awaited(&mut self, node: &str) {
        for awaited in self.machine.awaited(node) {
            let text = format_args!("node/{node}: no pod left to evict; waiting: {awaited}");
            self.reporter.note(text);
        }
    }

    pub(super) fn status(&self) -> DrainStatus {
        if self.machine.stopped() == Some(StopReason::Interrupted) {
            return DrainStatus::Interrupted;
        }
        self.machine
            .pods()
            .map(|tracked| match tracked.outcome() {
                _ if tracked.is_unclear() => DrainStatus::Failed,
                Outcome::Evicted | Outcome::Skipped => DrainStatus::Done,
                Outcome::Pending | Outcome::Blocked => DrainStatus::Blocked,
                Outcome::Terminating | Outcome::Stuck => DrainStatus::Stuck,
                Outcome::Impossible => DrainStatus::Impossible,
            })
            .fold(self.unfinished(), DrainStatus::and)
            .and(self.failed)
            .and(self.left_alone())
            .and(self.refusals.status)
    }

    /// A node that is not empty and that nobody works on any more.
    fn left_alone(&self) -> DrainStatus {
        let nodes = self.machine.nodes();
        nodes
            .map(|(_, phase)| match phase {
                NodePhase::Left(NodeLoss::Uncordoned | NodeLoss::Recreated) => {
                    DrainStatus::Impossible
                }
                NodePhase::Left(NodeLoss::GateFailed) => DrainStatus::Failed,
                _ => DrainStatus::Done,
            })
            .fold(DrainStatus::Done, DrainStatus::and)
    }

    /// Time ran out before a node was seen to be empty.
    fn unfinished(&self) -> DrainStatus {
        let machine = &self.machine;
        let awaiting = machine.awaiting_nodes();
        let awaited = awaiting.iter().flat_map(|node| machine.awaited(node));
        let awaited = awaited.map(|awaited| match awaited {
            Awaited::Replacements { .. } => DrainStatus::Blocked,
            Awaited::Volume(_) => DrainStatus::Stuck,
        });
        let awaited = awaited.fold(DrainStatus::Done, DrainStatus::and);
        let settled = machine.pods().all(|tracked| tracked.state.is_settled());
        let unconfirmed = machine.nodes().any(|(_, phase)| {
            !matches!(
                phase,
                NodePhase::Settling | NodePhase::Done | NodePhase::Left(_)
            )
        });
        // What went after its node's time was over was not confirmed.
        let unnoticed = machine.nodes().any(|(node, phase)| {
            phase == NodePhase::Left(NodeLoss::TimedOut)
                && machine.is_settled(node)
                && machine.awaited(node).is_empty()
        });
        if unnoticed || settled && unconfirmed && machine.stopped().is_some() {
            DrainStatus::Failed
        } else {
            awaited
        }
    }
}
