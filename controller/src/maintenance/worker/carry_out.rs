//! A drain that runs.

use jiff::Timestamp;
use nodelife_core::node_maintenance::{
    FINALIZER, MaintenanceStatus, NodeMaintenance, NodeState, condition,
};
use nodelife_core::text::Str;
use nodelife_drain::{Drain, DrainStatus};
use tokio::sync::{mpsc, watch};

use super::super::reporter::{PERIOD, StatusReporter, View};
use super::super::reservations::{Limits, Reservation};
use super::super::status::{count_nodes, set_condition};
use super::{Next, RETRY, Seen, Worker};

impl Worker {
    /// Runs the drain, and writes how far it has come, until it ends or the object is deleted.
    pub(super) async fn carry_out(
        &mut self,
        drain: Box<Drain>,
        (mut reporter, limits): (StatusReporter, Limits),
        mut view: watch::Receiver<View>,
    ) -> anyhow::Result<Next> {
        let (stop, mut interrupts) = mpsc::unbounded_channel();
        let (identity, mut seen) = (self.identity(), self.seen.clone());
        let mut changes = self.seen.clone();
        let name = self.object.metadata.name.clone();
        let ended = {
            let deleted = async {
                let is_deleted =
                    |seen: &Seen| seen.as_ref().is_none_or(NodeMaintenance::is_deleted);
                // An error is the end of the term.
                let _ = seen.wait_for(is_deleted).await;
                // Who does not listen has ended.
                let _ = stop.send(());
                std::future::pending::<()>().await;
            };
            let writes = async {
                loop {
                    tokio::select! {
                        shown = view.changed() => if shown.is_err() { break },
                        told = changes.changed() => if told.is_err() { break },
                    }
                    self.refresh();
                    self.keep_finalizer().await;
                    let now = self.cluster.clock().now();
                    let mut status = with_view(&self.object.status, &view.borrow_and_update(), now);
                    note_limit(&mut status, &self.reservation, limits, now);
                    if let Err(error) = self.write(status).await {
                        tracing::warn!(maintenance = %name, "failed to write the status: {error:#}");
                    }
                    tokio::time::sleep(PERIOD).await;
                }
                std::future::pending::<()>().await;
            };
            let run = drain.run(identity, &mut interrupts, &mut reporter);
            tokio::select! {
                ended = run => ended?,
                () = deleted => DrainStatus::Failed,
                () = writes => DrainStatus::Failed,
            }
        };
        self.reservation.release_in_use();
        let last = view.borrow().clone();
        if !last.ended {
            if ended == DrainStatus::Refused {
                self.block("NodeLocked", &reporter.last).await?;
            } else {
                let text = reporter.last.clone();
                self.block("NotBegun", &text).await?;
            }
            return Ok(Next::After(RETRY));
        }
        let now = self.cluster.clock().now();
        self.object.status = with_view(&self.object.status, &last, now);
        if !self.refresh() {
            return Ok(Next::Now);
        }
        if self.object.is_deleted() {
            return Ok(Next::Now);
        }
        if ended == DrainStatus::Failed && !last.is_final {
            // The API server was away, or the locks were lost: it goes on from here.
            let text = reporter.last.clone();
            self.block("Failed", &text).await?;
            return Ok(Next::After(RETRY));
        }
        let why = last
            .pods
            .first()
            .map_or(reporter.last.as_str(), |pod| &pod.reason);
        let text = match ended {
            DrainStatus::Done => String::new(),
            _ if last.gate_failed => reporter.warning.clone(),
            _ => why.to_owned(),
        };
        self.finish(ended, &text).await?;
        Ok(Next::Idle)
    }

    /// Puts the finalizer back, if somebody took it off while the drain runs.
    async fn keep_finalizer(&self) {
        let meta = &self.object.metadata;
        if self.object.is_deleted() || meta.finalizers.iter().any(|one| *one == FINALIZER) {
            return;
        }
        let cluster = &self.cluster;
        let set = cluster.set_maintenance_finalizer(&self.object, FINALIZER, true);
        if let Err(error) = set.await {
            tracing::debug!(%error, "failed to put the finalizer back");
        }
    }
}

/// The status with what a drain shows of its nodes; those of which it shows nothing stay as they are.
fn with_view(status: &MaintenanceStatus, view: &View, now: Timestamp) -> MaintenanceStatus {
    let mut status = status.clone();
    for shown in &view.nodes {
        match status.nodes.iter_mut().find(|node| node.name == shown.name) {
            Some(node) => node.clone_from(shown),
            None => status.nodes.push(shown.clone()),
        }
    }
    status.pods.clone_from(&view.pods);
    status.more_pods = view.more_pods;
    count_nodes(&mut status);
    let blocked = view.nodes.iter().any(|node| node.pods.blocked > 0);
    let first = view.pods.first().filter(|_| blocked);
    let why = match first {
        Some(pod) => (
            "PodsBlocked",
            format!("{}/{}: {}", pod.namespace, pod.name, pod.reason),
        ),
        None => ("Draining", String::new()),
    };
    set_condition(
        &mut status,
        (condition::BLOCKED, blocked),
        (why.0, &why.1),
        now,
    );
    status
}

/// Says that a limit over all maintenances is in the way, where no node is drained and one waits.
fn note_limit(
    status: &mut MaintenanceStatus,
    reservation: &Reservation,
    limits: Limits,
    now: Timestamp,
) {
    let is = |state: NodeState| status.nodes.iter().filter(move |node| node.state == state);
    if is(NodeState::Draining)
        .chain(is(NodeState::Settling))
        .next()
        .is_some()
    {
        return;
    }
    let waiting: Vec<&Str> = is(NodeState::Waiting).map(|node| &node.name).collect();
    if waiting.is_empty() {
        return;
    }
    if let Some(wait) = reservation.limited(limits, &waiting) {
        let why = (wait.reason, wait.message.as_str());
        set_condition(status, (condition::BLOCKED, true), why, now);
    }
}
