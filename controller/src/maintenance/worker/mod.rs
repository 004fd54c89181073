//! `Worker`: carries out one NodeMaintenance, from its creation to its deletion.
//!
//! A worker has no state that matters beside the object's status: it can be dropped at any await, and
//! one of another replica goes on. It is the only writer of the status and of the finalizer.

mod approval;
mod blocker;
mod carry_out;
mod give_back;
mod journal;
mod nodes;
mod plan;
mod rescue;
mod schedule;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_core::node_maintenance::{
    MaintenanceStatus, Mode, NodeMaintenance, NodeState, NodeStatus, condition,
};
use nodelife_core::text::Str;
use nodelife_drain::{Drain, DrainIdentity, DrainRequest, DrainStatus, Prepared, deadline};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{SemaphorePermit, watch};
use tokio::time::Instant;

use super::events::MaintenanceEvents;
use super::gate::{Begun, GateAudit};
use super::notify::{Notices, Notifier};
use super::reservations::{Reservation, Reservations, Taken, Wait};
use super::settings::{request, times};
use super::status::{count_nodes, cut, reason, set_condition, whole_second};
use crate::part::Term;
use blocker::{Blocker, BlockerCheck, nodes_unknown};
use journal::note_begins;
use nodes::{not_drained, note_refused};

/// An object as the watch showed it last; none once it is gone.
pub(in crate::maintenance) type Seen = Option<NodeMaintenance>;

/// How long what failed, or was refused, waits until it is tried again: this long first, and at most.
const RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_mins(5);
/// The part of a wait by which it may be longer, so that objects do not look at the same time.
const JITTER: f64 = 0.4;

/// For so long a worker waits for the list of nodes before it says so.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the watch may take to show what was written.
const SOON: Duration = Duration::from_millis(100);

pub(super) struct Worker {
    cluster: Cluster,
    /// Who reports the Events.
    instance: String,
    /// Metadata and spec as the watch showed them last; the status as it was written last.
    object: NodeMaintenance,
    /// The resource version of the last write of the status, or in which it was read.
    written_in: Option<u64>,
    /// Whether somebody else has written the status since.
    is_overwritten: bool,
    /// Whether it has begun nothing, and nothing that it can begin is known: its writes wait for their turn.
    waits: bool,
    seen: watch::Receiver<Seen>,
    audit: GateAudit,
    reservation: Reservation,
    nodes_changed: watch::Receiver<()>,
    /// As the status has it, for the gate.
    begun: Begun,
    /// When the drain ends at the latest, or its window begins.
    end: Option<Instant>,
    /// When its window begins, until it does, and ends: the plan is made ahead, so that people can
    /// approve it.
    ahead: Option<(Timestamp, Option<Timestamp>)>,
    given_back: bool,
    /// How many times in a row it came to nothing.
    retries: u32,
    events: MaintenanceEvents,
    notices: Notices,
}

/// When a worker looks at its object again, beside when that has changed or its time is over.
enum Next {
    Now,
    After(Duration),
    /// When something else is in the way, or nothing.
    Blocked(Wait),
    /// When a node has changed.
    Nodes,
    /// When another plan would be made for these nodes, or others are wanted.
    Planned(Box<Drain>, Vec<Str>),
    Idle,
}

impl Worker {
    pub(super) fn new(
        object: NodeMaintenance,
        seen: watch::Receiver<Seen>,
        (reservations, audit, notifier): (&Arc<Reservations>, &GateAudit, &Arc<Notifier>),
        term: &Term,
    ) -> Self {
        let worker = Self {
            cluster: term.cluster.clone(),
            instance: term.identity.to_string(),
            written_in: version(&object),
            is_overwritten: false,
            waits: true,
            seen,
            audit: audit.clone(),
            reservation: Reservation::new(reservations, object.metadata.uid.clone()),
            nodes_changed: reservations.changes(),
            begun: Begun::default(),
            end: None,
            ahead: None,
            given_back: false,
            retries: 0,
            events: MaintenanceEvents::new(&term.cluster, &term.identity),
            notices: Notices::new(notifier),
            object,
        };
        if worker.object.status.started_at.is_some() {
            // Another replica took them. Whoever has them, this one waits for it.
            let _ = worker.reservation.take(worker.taken(&worker.object.status));
        }
        worker
    }

    pub(super) fn uid(&self) -> &Str {
        &self.object.metadata.uid
    }

    /// Works until the object is gone.
    pub(super) async fn run(mut self) {
        loop {
            let next = match Box::pin(self.step()).await {
                Ok(next) => next,
                Err(error) => self.failed(&error).await,
            };
            if !self.wait(next).await {
                break;
            }
        }
        // The end of the leader's term ends the channel as well.
        if self.seen.has_changed().is_ok() {
            self.give_back_late().await;
        }
    }

    /// Takes over what the watch shows; whether the object is still there.
    fn refresh(&mut self) -> bool {
        let seen = self.seen.borrow_and_update();
        let Some(now) = &*seen else {
            return false;
        };
        self.is_overwritten = now.status != self.object.status && version(now) > self.written_in;
        self.object.metadata = now.metadata.clone();
        if self.object.spec != now.spec {
            self.retries = 0;
        }
        self.object.spec = now.spec.clone();
        self.object.unreadable_spec = now.unreadable_spec.clone();
        if self.object.unreadable_status.is_some() {
            self.object.status = now.status.clone();
            self.object.unreadable_status = now.unreadable_status.clone();
        }
        true
    }

    /// Waits until there is something to do; whether the object is still there.
    async fn wait(&mut self, next: Next) -> bool {
        let wake: BoxFuture<'static, ()> = match next {
            Next::Now => return self.refresh(),
            Next::Idle => Box::pin(std::future::pending()),
            Next::After(wait) => Box::pin(tokio::time::sleep(wait)),
            Next::Blocked(wait) => {
                let check = self.check(self.object.is_deleted());
                let reservations = Arc::clone(&self.reservation.reservations);
                Box::pin(check.until_changed(wait, reservations, self.cluster.clone()))
            }
            Next::Nodes => {
                let mut changed = self.nodes_changed.clone();
                Box::pin(async move {
                    // It ends with the term.
                    let _ = changed.changed().await;
                    tokio::time::sleep(SOON).await;
                })
            }
            Next::Planned(mut drain, wanted) => {
                let check = self.check(false);
                let reservations = Arc::clone(&self.reservation.reservations);
                let cluster = self.cluster.clone();
                Box::pin(async move {
                    tokio::select! {
                        () = drain.changed() => {}
                        () = check.until_wanted_changes(&wanted, &reservations, &cluster) => {}
                    }
                })
            }
        };
        let over = deadline(self.end);
        tokio::select! {
            is_there = self.changed() => is_there,
            () = wake => self.refresh(),
            () = over => self.refresh(),
        }
    }

    /// Waits until the spec changes, the object is deleted, somebody else takes the finalizer off or
    /// writes the status, or there is something to tell or to write of a channel.
    async fn changed(&mut self) -> bool {
        let state = |object: &NodeMaintenance| {
            let meta = &object.metadata;
            (
                meta.generation,
                object.is_deleted(),
                meta.finalizers.clone(),
            )
        };
        let before = state(&self.object);
        loop {
            if !self.refresh() {
                return false;
            }
            if state(&self.object) != before || self.is_overwritten {
                return true;
            }
            tokio::select! {
                seen = self.seen.changed() => if seen.is_err() { return false },
                () = self.notices.changed() => return self.refresh(),
            }
        }
    }

    /// Waits a moment for the list of nodes; returns what is in the way if it does not come.
    async fn know_nodes(&self) -> Option<Wait> {
        let reservations = &self.reservation.reservations;
        let mut changes = reservations.changes();
        let listed = async {
            while reservations.known().nodes.all.is_none() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // What is not said sooner needs no status of its own.
        let _ = tokio::time::timeout(PATIENCE, listed).await;
        nodes_unknown(&reservations.known())
    }

    /// `ends`: whether it gives back, or goes on.
    fn check(&self, ends: bool) -> BlockerCheck {
        BlockerCheck {
            object: self.object.clone(),
            identity: self.identity(),
            ends,
        }
    }

    async fn failed(&mut self, error: &anyhow::Error) -> Next {
        let name = &self.object.metadata.name;
        tracing::warn!(maintenance = %name, "{error:#}");
        let text = format!("{error:#}");
        if let Err(error) = self.block("Error", &text).await {
            tracing::debug!(%error, "failed to write the status");
        }
        self.later()
    }

    /// Looks again after a while: the longer, the more often that came to nothing. Many objects that fail
    /// for one reason do not all come back at once.
    fn later(&mut self) -> Next {
        let wait = pause(self.retries, fastrand::f64());
        self.retries += 1;
        Next::After(wait)
    }

    async fn step(&mut self) -> anyhow::Result<Next> {
        (self.end, self.ahead) = (None, None);
        self.waits = self.object.status.started_at.is_none();
        // It says what was taken: nothing is done, and nothing written over it, until somebody mends it.
        if self.object.unreadable_status.is_some() {
            return Ok(Next::Idle);
        }
        if self.is_overwritten || self.notices.has_news(&self.object.status) {
            self.write_news(self.object.status.clone()).await?;
        }
        if self.object.is_deleted() {
            return self.give_back().await;
        }
        if !self.waits && !self.is_held().await? {
            return Ok(Next::After(SOON));
        }
        let now = self.cluster.clock().now();
        let left =
            |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or_default();
        if self.object.status.finished_at.is_some() {
            self.nodes_changed.mark_unchanged();
            match self.leaves_at(now) {
                Some(at) if at <= now => return self.leave(now).await,
                at => self.end = at.map(|at| Instant::now() + left(at)),
            }
            self.stop_work().await?;
            self.note_uncordoned().await?;
            return Ok(Next::Nodes);
        }
        let readable = self.object.unreadable_spec.clone().map_or(Ok(()), Err);
        let asked = readable
            .map_err(|why| format!("this version of nodelife cannot read it: {why}"))
            .and_then(|()| request(&self.object.spec, &self.cluster, (&self.audit, &self.begun)))
            .and_then(|request| Ok((request, times(&self.object, now)?)));
        let (mut request, (start, end)) = match asked {
            Ok(asked) => asked,
            Err(why) => {
                self.block("InvalidSpec", &why).await?;
                return Ok(Next::Idle);
            }
        };
        self.note_scheduled(start).await?;
        request.end = end.map(|end| Instant::now() + left(end));
        self.ahead = start.filter(|start| now < *start).map(|start| (start, end));
        if let Some((start, _)) = self.ahead {
            self.end = Some(Instant::now() + left(start));
            // Its start was moved after it had begun.
            self.stop_work().await?;
            if self.object.status.started_at.is_some() {
                self.pause(self.object.status.clone(), ("", ""), false)
                    .await?;
                return Ok(Next::Idle);
            }
            return self.drain(request).await;
        }
        let progressing = self.object.status.condition(condition::PROGRESSING);
        if progressing.is_some_and(|one| one.reason == "WaitsForWindow") {
            self.retries = 0;
        }
        if end.is_some_and(|end| end <= now) {
            let text = "the deadline or the end of the window came before it was drained";
            self.end_late(request.settings.undo_on_failure).await?;
            self.finish(DrainStatus::Failed, text).await?;
            return Ok(Next::Now);
        }
        self.end = request.end;
        self.drain(request).await
    }

    /// What is in its way now, and the nodes that are left to drain, or to give back if it `ends`.
    fn blocked(&self, ends: bool) -> (Option<Blocker>, Vec<Str>) {
        let check = self.check(ends);
        let known = self.reservation.reservations.known();
        let now = self.cluster.clock().now();
        (check.blocker(&known, now), check.wanted(&known, now))
    }

    /// Its turn to write, if it waits.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if !self.waits {
            return None;
        }
        self.reservation.reservations.turn().await
    }

    /// Plans, waits for others and for the approval, and drains.
    async fn drain(&mut self, request: DrainRequest) -> anyhow::Result<Next> {
        if let Some(wait) = self.know_nodes().await {
            return self.blocked_by(wait).await;
        }
        self.waits &= self.blocked(false).0.is_some();
        self.note_named_nodes().await?;
        self.note_deleted_nodes().await?;
        let (blocker, wanted) = self.blocked(false);
        if let Some(blocker) = blocker {
            return self.blocked_by(blocker.wait).await;
        }
        if wanted.is_empty() {
            let text = "all nodes are already drained";
            self.finish(DrainStatus::Done, text).await?;
            return Ok(Next::Now);
        }
        self.waits = false;
        // Before anything is taken.
        if self.ahead.is_none() && !self.is_held().await? {
            return Ok(Next::After(SOON));
        }
        if self.object.spec.mode == Mode::Rescue {
            return self.rescue(request.end).await;
        }
        let (prepared, told) = self.plan(request, wanted.clone()).await?;
        let mut drain = match prepared {
            Prepared::Ready(drain) => drain,
            refused => {
                let (ended, why) = (refused.status(), told.why_refused(&refused));
                let mut status = self.object.status.clone();
                status.warnings = told.reporter.warnings;
                status.exit_status = Some(ended.code());
                if let Prepared::Refused { nodes, .. } = refused {
                    note_refused(&mut status, &nodes);
                }
                self.pause(status, (reason(ended), &why), true).await?;
                // Somebody may give the right, or mend the budget.
                return Ok(self.later());
            }
        };
        let mut status = self.object.status.clone();
        let waits = self.approve(&mut drain, &mut status);
        status.warnings.clone_from(&told.reporter.warnings);
        status.exit_status = None;
        note_refused(&mut status, &drain.refusals().nodes);
        if let Some((reason, text, blocked)) = waits {
            self.pause(status, (reason, &text), blocked).await?;
            return Ok(Next::Planned(drain, wanted));
        }
        if self.ahead.is_some() {
            self.pause(status, ("", ""), false).await?;
            return Ok(self.later());
        }
        self.note_begun(&mut status, &drain);
        if let Err(wait) = self.reservation.take(self.taken(&status)) {
            return self.blocked_by(wait).await;
        }
        self.write(status).await?;
        self.carry_out(drain, told).await
    }

    /// The nodes that it has with this status.
    fn taken(&self, status: &MaintenanceStatus) -> Taken {
        let nodes = status.nodes.iter();
        let nodes = nodes.filter(|node| node.state != NodeState::Refused);
        Taken {
            name: self.object.metadata.name.clone(),
            nodes: nodes.map(|node| node.name.clone()).collect(),
            has_ended: status.finished_at.is_some(),
        }
    }

    /// Notes what the drain takes, before it takes anything.
    fn note_begun(&self, status: &mut MaintenanceStatus, drain: &Drain) {
        let refused = &drain.refusals().nodes;
        if status.started_at.is_none() {
            // Those that were refused, and are no longer selected.
            status.nodes.retain(|node| {
                let name = &node.name;
                node.has_ended() || drain.plan().nodes.contains(name) || refused.contains_key(name)
            });
        }
        let known: BTreeSet<Str> = status.nodes.iter().map(|n| n.name.clone()).collect();
        let new = drain.plan().nodes.iter().chain(refused.keys());
        let new = new.filter(|name| !known.contains(*name));
        status.nodes.extend(new.map(|name| NodeStatus {
            name: name.clone(),
            ..NodeStatus::default()
        }));
        for node in &mut status.nodes {
            let known = self.reservation.reservations.known();
            if let Some(facts) = known.nodes.get(&node.name).filter(|_| node.uid.is_empty()) {
                node.uid = facts.uid.clone();
            }
            if let Some(why) = refused.get(&node.name) {
                node.state = NodeState::Refused;
                node.message = cut(why);
            }
        }
        let now = self.cluster.clock().now();
        if !drain.cordons_each() {
            let ready = drain.ready_before();
            let nodes = drain.plan().nodes.iter();
            for name in nodes.filter(|name| !refused.contains_key(*name)) {
                note_begins(status, name, &ready, now);
            }
        }
        status.started_at.get_or_insert_with(|| whole_second(now));
        let reason = ("Draining", "");
        set_condition(status, (condition::PROGRESSING, true), reason, now);
        set_condition(status, (condition::BLOCKED, false), reason, now);
        count_nodes(status);
    }

    /// Who locks and cordons: the same after a change of the leader.
    fn identity(&self) -> DrainIdentity {
        DrainIdentity::of_maintenance(&self.object, self.instance.clone())
    }

    /// The drain is over; the nodes stay as they are until the object is deleted.
    async fn finish(&mut self, mut ended: DrainStatus, text: &str) -> anyhow::Result<()> {
        let mut text = text.to_owned();
        if ended == DrainStatus::Done
            && let Some((status, why)) = not_drained(&self.object.status)
        {
            (ended, text) = (status, why);
        }
        let why = (reason(ended), text.as_str());
        let now = self.cluster.clock().now();
        let done = ended == DrainStatus::Done;
        let mut status = self.object.status.clone();
        for node in &mut status.nodes {
            node.next_waits_for = None;
        }
        status.finished_at = Some(whole_second(now));
        status.exit_status = Some(ended.code());
        let state = if done { "Drained" } else { "NotDrained" };
        let progressing = (condition::PROGRESSING, false);
        set_condition(&mut status, progressing, (state, why.1), now);
        set_condition(&mut status, (condition::DRAINED, done), why, now);
        set_condition(&mut status, (condition::BLOCKED, !done), why, now);
        count_nodes(&mut status);
        self.write(status).await?;
        // It has them already.
        let _ = self.reservation.take(self.taken(&self.object.status));
        Ok(())
    }

    /// Says what is in the way.
    async fn block(&mut self, reason: &str, text: &str) -> anyhow::Result<()> {
        let status = self.object.status.clone();
        self.pause(status, (reason, text), true).await
    }

    async fn blocked_by(&mut self, wait: Wait) -> anyhow::Result<Next> {
        self.block(wait.reason, &wait.message).await?;
        Ok(Next::Blocked(wait))
    }

    async fn pause(
        &mut self,
        mut status: MaintenanceStatus,
        why: (&str, &str),
        blocked: bool,
    ) -> anyhow::Result<()> {
        let now = self.cluster.clock().now();
        let window = self.until_window(why.1, blocked);
        // The wait was asked for: nothing is in the way.
        let (why, blocked) = match &window {
            Some(text) => (("WaitsForWindow", text.as_str()), false),
            None => (why, blocked),
        };
        set_condition(&mut status, (condition::PROGRESSING, false), why, now);
        set_condition(&mut status, (condition::BLOCKED, blocked), why, now);
        self.write(status).await
    }
}

/// Asks to stop once the object is deleted, and does not return.
async fn stop_when_deleted(mut seen: watch::Receiver<Seen>, stop: UnboundedSender<()>) {
    let is_deleted = |seen: &Seen| seen.as_ref().is_none_or(NodeMaintenance::is_deleted);
    // An error is the end of the term.
    let _ = seen.wait_for(is_deleted).await;
    // Who does not listen has ended.
    let _ = stop.send(());
    std::future::pending::<()>().await;
}

/// Waits for another spec than that of this generation.
async fn respecified(mut seen: watch::Receiver<Seen>, generation: Option<i64>) {
    let is_new = |seen: &Seen| {
        let now = seen.as_ref().filter(|now| !now.is_deleted());
        now.is_some_and(|now| now.metadata.generation != generation)
    };
    if seen.wait_for(is_new).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn version(object: &NodeMaintenance) -> Option<u64> {
    object.metadata.resource_version.parse().ok()
}

/// How long the look after this many in a row waits; `share`: of the jitter, from 0 to 1.
fn pause(retries: u32, share: f64) -> Duration {
    let most = MAX_RETRY.mul_f64(1.0 / (1.0 + JITTER));
    let wait = RETRY.saturating_mul(1 << retries.min(6)).min(most);
    wait.mul_f64(share.mul_add(JITTER, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_looked_at_less_and_less_often() {
        assert_eq!(pause(0, 0.0), RETRY);
        assert!(pause(0, 1.0) < pause(1, 0.0));
        assert!(pause(40, 0.0) < pause(40, 1.0) && pause(40, 1.0) <= MAX_RETRY);
    }
}
