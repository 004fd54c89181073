//! A drain that runs.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use nodelife_core::node_maintenance::{MaintenanceStatus, NodeState, NodeStatus, condition};
use nodelife_core::text::Str;
use nodelife_drain::{Drain, DrainStatus};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::super::reporter::{PERIOD, StatusReporter, View};
use super::super::reservations::{Limits, Reservation};
use super::super::status::{count_nodes, reason, set_condition};
use super::journal::{Begins, note_begins};
use super::plan::Told;
use super::{Next, Worker, respecified, stop_when_deleted};

/// How often it is looked whether somebody has uncordoned a drained node.
const LOOK: Duration = Duration::from_secs(10);

/// How long the state is not written again: an API server that takes long has enough to do.
fn pause_after(write: Duration) -> Duration {
    PERIOD + (write * 4).min(PERIOD * 9)
}

impl Worker {
    /// Runs the drain, and writes how far it has come, until it ends or the object is deleted.
    pub(super) async fn carry_out(&mut self, drain: Box<Drain>, told: Told) -> Result<Next> {
        let Told {
            mut reporter,
            limits,
            mut view,
            mut begins,
        } = told;
        let ready = drain.ready_before();
        let (stop, mut interrupts) = mpsc::unbounded_channel();
        let identity = self.identity();
        let mut changes = self.seen.clone();
        let name = self.object.metadata.name.clone();
        let ended = {
            let deleted = stop_when_deleted(self.seen.clone(), stop);
            let respecified = respecified(self.seen.clone(), self.object.metadata.generation);
            let writes = async {
                let mut asked: Vec<Begins> = Vec::new();
                let mut looks = tokio::time::interval(LOOK);
                looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    if asked.is_empty() {
                        tokio::select! {
                            shown = view.changed() => if shown.is_err() { break },
                            told = changes.changed() => if told.is_err() { break },
                            _ = looks.tick() => {}
                            () = self.notices.changed() => {}
                            Some(ask) = begins.recv() => asked.push(ask),
                        }
                    }
                    while let Ok(ask) = begins.try_recv() {
                        asked.push(ask);
                    }
                    self.refresh();
                    self.keep_finalizer().await;
                    let now = self.cluster.clock().now();
                    let mut status = with_view(&self.object.status, &view.borrow_and_update(), now);
                    for (node, _) in &asked {
                        note_begins(&mut status, node, &ready, now);
                    }
                    note_limit(&mut status, &self.reservation, limits, now);
                    self.tell_uncordoned(&mut status);
                    let begun = Instant::now();
                    match self.write_news(status).await {
                        // Who does not listen has ended.
                        Ok(()) => asked.drain(..).for_each(|(_, begins)| {
                            let _ = begins.send(());
                        }),
                        Err(error) => {
                            let text = "failed to write the status";
                            tracing::warn!(maintenance = %name, "{text}: {error:#}");
                        }
                    }
                    tokio::select! {
                        () = tokio::time::sleep(pause_after(begun.elapsed())) => {}
                        Some(ask) = begins.recv() => asked.push(ask),
                    }
                }
                std::future::pending::<()>().await;
            };
            let run = drain.run(identity, &mut interrupts, &mut reporter);
            tokio::select! {
                ended = run => Some(ended?),
                () = deleted => Some(DrainStatus::Failed),
                () = respecified => None,
                () = writes => Some(DrainStatus::Failed),
            }
        };
        self.reservation.release_in_use();
        let Some(ended) = ended else {
            // From here on, as the spec says now.
            return Ok(Next::Now);
        };
        let last = view.borrow().clone();
        self.conclude(ended, &last, &reporter).await
    }

    /// What follows from the end of a run: the end of the drain, or another run later.
    async fn conclude(
        &mut self,
        ended: DrainStatus,
        last: &View,
        reporter: &StatusReporter,
    ) -> Result<Next> {
        if !last.ended {
            let reason = match ended {
                DrainStatus::Refused => "NodeLocked",
                _ => "NotBegun",
            };
            self.block(reason, &reporter.last).await?;
            return Ok(self.later());
        }
        if !self.refresh() || self.object.is_deleted() {
            return Ok(Next::Now);
        }
        let now = self.cluster.clock().now();
        let status = with_view(&self.object.status, last, now);
        self.write_news(status).await?;
        if ended == DrainStatus::Failed && !last.is_final {
            // The API server was away, or the locks were lost: it goes on from here.
            self.retries = 0;
            let text = reporter.last.clone();
            self.block("Failed", &text).await?;
            return Ok(self.later());
        }
        let first = last.pods.as_ref().and_then(|(pods, _)| pods.first());
        let first = first.map(|pod| pod.reason.to_string());
        let text = match ended {
            DrainStatus::Done => String::new(),
            _ if last.gate_failed => reporter
                .warnings
                .last()
                .map(ToString::to_string)
                .unwrap_or_default(),
            DrainStatus::Blocked if !last.blocked.is_empty() => last.blocked.clone(),
            _ => first
                .or_else(|| first_undrained(&self.object.status))
                .unwrap_or_else(|| reporter.last.clone()),
        };
        let mut nodes = self.object.status.nodes.iter();
        let is_open = |node: &NodeStatus| !node.has_ended() && node.state != NodeState::Refused;
        if ended != DrainStatus::Done && !last.is_final && nodes.any(is_open) {
            // Some could not be cordoned: they are tried again.
            let mut status = self.object.status.clone();
            status.exit_status = Some(ended.code());
            let why = reporter.error.as_deref().unwrap_or(&reporter.last);
            let why = (reason(ended), why);
            self.pause(status, why, true).await?;
            return Ok(self.later());
        }
        self.finish(ended, &text).await?;
        Ok(Next::Now)
    }

    /// Puts the finalizer back, if somebody took it off while the drain runs.
    async fn keep_finalizer(&self) {
        if !self.object.is_deleted()
            && let Err(error) = self.is_held().await
        {
            tracing::debug!(%error, "failed to put the finalizer back");
        }
    }
}

/// The first node whose drain ended before it was empty, and why.
fn first_undrained(status: &MaintenanceStatus) -> Option<String> {
    let mut nodes = status.nodes.iter();
    let node =
        nodes.find(|node| node.state == NodeState::NotDrained && !node.message.is_empty())?;
    Some(format!("node/{}: {}", node.name, node.message))
}

/// The status with what a drain shows of its nodes and pods; what it shows nothing of stays as it is.
fn with_view(status: &MaintenanceStatus, view: &View, now: Timestamp) -> MaintenanceStatus {
    let mut status = status.clone();
    let mut shown: BTreeMap<&Str, &NodeStatus> =
        view.nodes.iter().map(|node| (&node.name, node)).collect();
    for node in &mut status.nodes {
        if let Some(shown) = shown.remove(&node.name) {
            let before = std::mem::replace(node, shown.clone());
            node.uid = before.uid;
            node.begun_at = before.begun_at;
            node.done_at = shown.done_at.map(|at| before.done_at.unwrap_or(at));
        }
        if node.done_at.is_some() && !view.nodes.is_empty() {
            node.next_waits_for = view.between.get(&node.name).copied();
            if node.next_waits_for.is_none() {
                node.begun_at = None;
            }
        }
    }
    let is_draining = |node: &NodeStatus| node.begun_at.is_some() && !node.has_ended();
    if !status.nodes.iter().any(is_draining) {
        status.ready_before.clear();
    }
    if let Some((pods, more)) = &view.pods {
        status.pods.clone_from(pods);
        status.more_pods = *more;
    }
    count_nodes(&mut status);
    let blocked = !view.blocked.is_empty();
    let reason = if blocked { "PodsBlocked" } else { "Draining" };
    let why = (reason, view.blocked.as_str());
    set_condition(&mut status, (condition::BLOCKED, blocked), why, now);
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
    let drains = is(NodeState::Draining)
        .chain(is(NodeState::Settling))
        .count();
    let waiting: Vec<&Str> = is(NodeState::Waiting).map(|node| &node.name).collect();
    if drains > 0 || waiting.is_empty() {
        return;
    }
    if let Some(wait) = reservation.limited(limits, &waiting) {
        let why = (wait.reason, wait.message.as_str());
        set_condition(status, (condition::BLOCKED, true), why, now);
    }
}

#[cfg(test)]
mod tests {
    use nodelife_core::node_maintenance::UnsettledPod;

    use super::*;

    /// After a change of the leader, or of the spec: an empty list would say that they are gone.
    #[test]
    fn a_run_that_has_not_looked_keeps_the_pods_of_the_one_before() {
        let blocked = UnsettledPod {
            namespace: "shop".into(),
            name: "web-0".into(),
            node: "a".into(),
            reason: "blocked".into(),
            blocked_since: Some(Timestamp::UNIX_EPOCH),
        };
        let status = MaintenanceStatus {
            pods: vec![blocked],
            more_pods: 1,
            ..MaintenanceStatus::default()
        };
        let mut view = View {
            nodes: vec![NodeStatus::default()],
            ..View::default()
        };
        assert_eq!(
            with_view(&status, &view, Timestamp::UNIX_EPOCH).pods,
            status.pods
        );
        view.pods = Some((Vec::new(), 0));
        let looked = with_view(&status, &view, Timestamp::UNIX_EPOCH);
        assert!(looked.pods.is_empty() && looked.more_pods == 0);
    }
}
