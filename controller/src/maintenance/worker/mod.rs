//! `Worker`: carries out one NodeMaintenance, from its creation to its deletion.
//!
//! A worker has no state that matters beside the object's status: it can be dropped at any await, and
//! one of another replica goes on. It is the only writer of the status and of the finalizer.

mod approval;
mod carry_out;
mod give_back;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::node_maintenance::{
    FINALIZER, MaintenanceStatus, NodeMaintenance, NodeState, NodeStatus, condition,
};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain::{DrainIdentity, DrainSettings, DrainStatus, NodeSelection, Prepared, prepare};
use tokio::sync::watch;
use tokio::time::Instant;

use super::others;
use super::reporter::StatusReporter;
use super::settings::{settings, times};
use super::status::{count_nodes, outcome, set_condition};
use crate::part::Term;

/// All objects by name.
pub(in crate::maintenance) type All = BTreeMap<Str, NodeMaintenance>;

/// How long what failed, or another has, waits until it is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// How long the watch may take to show what was written.
const SOON: Duration = Duration::from_millis(100);

pub(super) struct Worker {
    cluster: Cluster,
    /// Who reports the Events.
    instance: String,
    /// Metadata and spec as the watch showed them last; the status as it was written last.
    object: NodeMaintenance,
    all: watch::Receiver<All>,
}

/// Why a worker looks at its object again.
enum Next {
    /// At once.
    Now,
    /// When the object or another one has changed, or after so long.
    Changed(Duration),
    /// When the object has changed.
    Idle,
    /// The object is gone.
    Gone,
}

impl Worker {
    pub(super) fn new(object: NodeMaintenance, all: watch::Receiver<All>, term: &Term) -> Self {
        Self {
            cluster: term.cluster.clone(),
            instance: term.identity.to_string(),
            object,
            all,
        }
    }

    /// Works until the object is gone.
    pub(super) async fn run(mut self) {
        loop {
            let next = match Box::pin(self.step()).await {
                Ok(next) => next,
                Err(error) => self.failed(&error).await,
            };
            let waited = match next {
                Next::Now => self.refresh(),
                Next::Gone => false,
                Next::Changed(most) => self.changed(Some(most)).await,
                Next::Idle => self.changed(None).await,
            };
            if !waited {
                return;
            }
        }
    }

    /// Takes over what the watch shows; whether the object is still there.
    fn refresh(&mut self) -> bool {
        let all = self.all.borrow_and_update();
        let Some(now) = all.get(&self.object.metadata.name) else {
            return false;
        };
        if now.metadata.uid != self.object.metadata.uid {
            return false;
        }
        self.object.metadata = now.metadata.clone();
        self.object.spec = now.spec.clone();
        true
    }

    /// Waits until the spec changes, or the object is deleted, or time is over; `most`: then a change
    /// of another object ends the wait as well.
    async fn changed(&mut self, most: Option<Duration>) -> bool {
        let before = (self.object.metadata.generation, self.object.is_deleted());
        let end = most.map(|most| Instant::now() + most);
        let others = self.others_begun();
        loop {
            if !self.refresh() {
                return false;
            }
            let now = (self.object.metadata.generation, self.object.is_deleted());
            let others_changed = most.is_some() && others != self.others_begun();
            if now != before || others_changed {
                return true;
            }
            let update = self.all.changed();
            let is_open = match end {
                None => update.await.is_ok(),
                Some(end) => match tokio::time::timeout_at(end, update).await {
                    Ok(update) => update.is_ok(),
                    Err(_elapsed) => return self.refresh(),
                },
            };
            if !is_open {
                return false;
            }
        }
    }

    /// The others that have begun: what they have is waited for.
    fn others_begun(&self) -> BTreeSet<Str> {
        let all = self.all.borrow();
        let begun = all.values().filter(|one| one.status.started_at.is_some());
        begun.map(|one| one.metadata.uid.clone()).collect()
    }

    async fn failed(&mut self, error: &anyhow::Error) -> Next {
        let name = &self.object.metadata.name;
        tracing::warn!(maintenance = %name, "{error:#}");
        if matches!(error.downcast_ref(), Some(ApiError::NotFound(_))) {
            // The watch shows whether it is the object.
            return Next::Changed(RETRY);
        }
        let text = format!("{error:#}");
        if let Err(error) = self.block("Error", &text).await {
            tracing::debug!(%error, "failed to write the status");
        }
        Next::Changed(RETRY)
    }

    async fn step(&mut self) -> anyhow::Result<Next> {
        if self.object.is_deleted() {
            return self.give_back().await;
        }
        let meta = &self.object.metadata;
        if !meta.finalizers.iter().any(|one| *one == FINALIZER) {
            let set = self
                .cluster
                .set_maintenance_finalizer(&self.object, FINALIZER, true);
            return match set.await {
                // The watch shows it soon.
                Ok(()) | Err(ApiError::Conflict(_)) => Ok(Next::Changed(SOON)),
                Err(error) => Err(error.into()),
            };
        }
        if self.object.status.finished_at.is_some() {
            return Ok(Next::Idle);
        }
        let asked = settings(&self.object.spec, &self.cluster)
            .and_then(|settings| Ok((settings, times(&self.object.spec)?)));
        let (mut settings, (start, end)) = match asked {
            Ok(asked) => asked,
            Err(why) => {
                self.block("InvalidSpec", &why).await?;
                return Ok(Next::Idle);
            }
        };
        let now = self.cluster.clock().now();
        if let Some(start) = start.filter(|start| now < *start) {
            let text = format!("begins at {start:.0}");
            self.wait("WaitsForWindow", &text).await?;
            let wait = Duration::try_from(start.duration_since(now)).unwrap_or_default();
            return Ok(Next::Changed(wait));
        }
        if end.is_some_and(|end| end <= now) {
            let text = "the deadline or the end of the window came before it was drained";
            self.finish(DrainStatus::Failed, text).await?;
            return Ok(Next::Idle);
        }
        settings.end = end.map(|end| {
            let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
            Instant::now() + left
        });
        self.drain(settings).await
    }

    /// Plans, waits for others and for the approval, and drains.
    async fn drain(&mut self, mut settings: DrainSettings) -> anyhow::Result<Next> {
        let wanted = self.wanted_nodes().await?;
        if wanted.is_empty() && self.object.status.started_at.is_none() {
            self.block("NoNodes", "no node matches nodeSelector")
                .await?;
            return Ok(Next::Changed(RETRY));
        }
        if wanted.is_empty() {
            let text = "no node is left that is to be drained";
            self.finish(DrainStatus::Done, text).await?;
            return Ok(Next::Idle);
        }
        let waits = {
            let all = self.all.borrow();
            let names: BTreeSet<Str> = wanted.iter().cloned().collect();
            let most = settings.max_unavailable;
            others::taken(&self.object, &names, all.values()).map_or_else(
                || {
                    let left = most
                        .map(|most| others::left(&self.object, most, wanted.len(), all.values()));
                    left.transpose()
                },
                Err,
            )
        };
        match waits {
            Ok(left) => settings.max_unavailable = left,
            Err(wait) => {
                self.block(wait.reason, &wait.message).await?;
                return Ok(Next::Changed(RETRY));
            }
        }
        settings.nodes = NodeSelection::named(wanted);
        let (mut reporter, view) = StatusReporter::new(self.object.metadata.name.clone());
        let mut drain = match prepare(&self.cluster, &settings, &mut reporter).await? {
            Prepared::Ready(drain) => drain,
            refused => {
                let status = refused.status();
                if let Some(plan) = refused.plan() {
                    self.note_refused(plan.nodes.iter().cloned(), &reporter.last);
                }
                self.finish(status, &reporter.last).await?;
                return Ok(Next::Idle);
            }
        };
        if let Some(next) = self.approve(&mut drain).await? {
            return Ok(next);
        }
        let nodes = drain.plan().nodes.clone();
        let refused = drain.refusals().nodes.clone();
        self.begin(nodes, refused).await?;
        self.carry_out(drain, reporter, view).await
    }

    /// The nodes that are still to be drained and are there.
    async fn wanted_nodes(&mut self) -> anyhow::Result<Vec<Str>> {
        let nodes = self.list_nodes().await?;
        let begun = self.object.status.started_at.is_some();
        let spec = &self.object.spec;
        if !begun {
            if let Some(selector) = &spec.node_selector {
                let selected = nodes.iter();
                let selected = selected.filter(|node| selector.matches(&node.metadata.labels));
                return Ok(selected.map(|node| node.metadata.name.clone()).collect());
            }
            return Ok(spec.nodes.clone());
        }
        let is_there = |name: &Str| nodes.iter().any(|node| node.metadata.name == *name);
        for node in &mut self.object.status.nodes {
            if node.state != NodeState::Drained && !is_there(&node.name) {
                node.state = NodeState::Drained;
                node.message = "somebody deleted it".into();
            }
        }
        let left = self.object.status.nodes.iter();
        let left = left.filter(|n| !matches!(n.state, NodeState::Drained | NodeState::Refused));
        Ok(left.map(|node| node.name.clone()).collect())
    }

    async fn list_nodes(&self) -> Result<Vec<Node>, ApiError> {
        let all = ListFilter::default();
        let listed = self.cluster.list(&listing::NODES, &all, |_| {}).await?;
        Ok(listed.items)
    }

    /// Writes down what the drain takes, before it takes anything. `refused`: the nodes that it leaves
    /// alone, and why.
    async fn begin(
        &mut self,
        nodes: Vec<Str>,
        refused: BTreeMap<Str, String>,
    ) -> anyhow::Result<()> {
        let mut status = self.object.status.clone();
        let known: BTreeSet<Str> = status.nodes.iter().map(|n| n.name.clone()).collect();
        let new = nodes.iter().chain(refused.keys());
        let new = new.filter(|name| !known.contains(*name));
        status.nodes.extend(new.map(|name| NodeStatus {
            name: name.clone(),
            ..NodeStatus::default()
        }));
        for node in &mut status.nodes {
            if let Some(why) = refused.get(&node.name) {
                node.state = NodeState::Refused;
                node.message = why.chars().take(300).collect::<String>().into();
            }
        }
        let now = self.cluster.clock().now();
        let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
        status.started_at.get_or_insert(seconds);
        let reason = ("Draining", "");
        set_condition(&mut status, (condition::PROGRESSING, true), reason, now);
        set_condition(&mut status, (condition::BLOCKED, false), reason, now);
        count_nodes(&mut status);
        self.write(status).await
    }

    /// Who locks and cordons: the same after a change of the leader.
    fn identity(&self) -> DrainIdentity {
        let meta = &self.object.metadata;
        DrainIdentity {
            holder: format!("nodemaintenance/{} ({})", meta.name, meta.uid),
            process: String::new(),
            cordoned_by: format!("nodemaintenance/{} ({})", meta.name, meta.uid),
            instance: self.instance.clone(),
            since: self.object.status.started_at,
        }
    }

    /// The drain is over; the nodes stay as they are until the object is deleted.
    async fn finish(&mut self, ended: DrainStatus, text: &str) -> anyhow::Result<()> {
        let (code, reason) = outcome(ended);
        let now = self.cluster.clock().now();
        let done = ended == DrainStatus::Done;
        let mut status = self.object.status.clone();
        status.finished_at = Some(Timestamp::from_second(now.as_second()).unwrap_or(now));
        status.exit_status = Some(code);
        let state = if done { "Drained" } else { "NotDrained" };
        set_condition(
            &mut status,
            (condition::PROGRESSING, false),
            (state, text),
            now,
        );
        set_condition(&mut status, (condition::DRAINED, done), (reason, text), now);
        set_condition(
            &mut status,
            (condition::BLOCKED, !done),
            (reason, text),
            now,
        );
        count_nodes(&mut status);
        self.write(status).await
    }

    fn note_refused(&mut self, nodes: impl Iterator<Item = Str>, why: &str) {
        if self.object.status.nodes.is_empty() {
            self.object.status.nodes = nodes
                .map(|name| NodeStatus {
                    name,
                    state: NodeState::Refused,
                    message: why.into(),
                    ..NodeStatus::default()
                })
                .collect();
        }
    }

    /// Says what is in the way.
    async fn block(&mut self, reason: &str, text: &str) -> anyhow::Result<()> {
        self.pause((reason, text), true).await
    }

    /// Says what is waited for, as it was asked for.
    async fn wait(&mut self, reason: &str, text: &str) -> anyhow::Result<()> {
        self.pause((reason, text), false).await
    }

    async fn pause(&mut self, why: (&str, &str), blocked: bool) -> anyhow::Result<()> {
        let mut status = self.object.status.clone();
        let now = self.cluster.clock().now();
        set_condition(&mut status, (condition::PROGRESSING, false), why, now);
        set_condition(&mut status, (condition::BLOCKED, blocked), why, now);
        self.write(status).await
    }

    async fn set(&mut self, kind: &str, holds: bool, why: (&str, &str)) -> anyhow::Result<()> {
        let mut status = self.object.status.clone();
        let now = self.cluster.clock().now();
        set_condition(&mut status, (kind, holds), why, now);
        self.write(status).await
    }

    /// Writes the status, if it has changed.
    async fn write(&mut self, mut status: MaintenanceStatus) -> anyhow::Result<()> {
        status.observed_generation = self.object.metadata.generation;
        if status == self.object.status {
            return Ok(());
        }
        self.cluster
            .write_maintenance_status(&self.object, &status)
            .await
            .context("failed to write the status")?;
        self.object.status = status;
        Ok(())
    }
}
