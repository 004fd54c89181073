//! The finalizer of an object, and its end.

use std::collections::BTreeSet;

use anyhow::Context as _;
use nodelife_cluster::ApiError;
use nodelife_core::format;
use nodelife_core::node_maintenance::{FINALIZER, NodeState};
use nodelife_core::text::Str;
use nodelife_drain::{NotGivenBack, TakeOff, give_back};

use super::super::reporter::StatusReporter;
use super::super::reservations::Wait;
use super::{Next, RETRY, SOON, Worker};

impl Worker {
    /// Whether it has the finalizer; else it is set, and the watch shows it soon.
    pub(super) async fn is_held(&self) -> anyhow::Result<bool> {
        let meta = &self.object.metadata;
        if meta.finalizers.iter().any(|one| *one == FINALIZER) {
            return Ok(true);
        }
        let set = self.cluster.set_maintenance_finalizer(&self.object, true);
        match set.await {
            Ok(()) | Err(ApiError::Conflict(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives back what was taken from the nodes, and lets the object go.
    pub(super) async fn give_back(&mut self) -> anyhow::Result<Next> {
        let meta = &self.object.metadata;
        if !meta.finalizers.iter().any(|one| *one == FINALIZER) {
            return Ok(Next::Idle);
        }
        if let Some(wait) = self.return_nodes().await? {
            return self.blocked_by(wait).await;
        }
        let _turn = self.turn().await;
        let released = self.cluster.set_maintenance_finalizer(&self.object, false);
        match released.await {
            Ok(()) | Err(ApiError::NotFound(_)) => Ok(Next::Idle),
            Err(ApiError::Conflict(_)) => Ok(Next::After(SOON)),
            Err(error) => Err(error.into()),
        }
    }

    /// Somebody took the finalizer off: the object is gone before its nodes were given back.
    pub(super) async fn give_back_late(&mut self) {
        loop {
            match self.return_nodes().await {
                Ok(None) => return,
                Ok(Some(wait)) => {
                    let reservations = self.reservation.reservations.clone();
                    let check = self.check(true);
                    check
                        .until_changed(wait, reservations, self.cluster.clone())
                        .await;
                }
                Err(error) => {
                    let name = &self.object.metadata.name;
                    tracing::warn!(maintenance = %name, "{error:#}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Gives the nodes back, whatever has become of them; what is in the way of some.
    pub(super) async fn return_nodes(&mut self) -> anyhow::Result<Option<Wait>> {
        if self.given_back || self.object.status.started_at.is_none() {
            return Ok(None);
        }
        let nodes = self.object.status.nodes.iter();
        let nodes = nodes.map(|node| node.name.clone()).collect();
        let left = self.take_off(&nodes, TakeOff::All).await?;
        if left.0.is_empty() {
            self.given_back = true;
            return Ok(None);
        }
        if let Some(wait) = self.know_nodes().await {
            return Ok(Some(wait));
        }
        match self.blocked(true).0 {
            // A terminal drain at work on one of them; those that fail are tried again with it.
            Some(blocker) if blocker.held == left.0.len() => Ok(Some(blocker.wait)),
            _ => Err(not_given_back(&left)),
        }
    }

    /// The drain has ended: nothing may say that it is at work any more.
    pub(super) async fn stop_work(&mut self) -> anyhow::Result<()> {
        let name = self.identity().lease;
        let reservations = &self.reservation.reservations;
        if !reservations.known().locks.contains_key(&name) {
            return Ok(());
        }
        let nodes = self.object.status.nodes.iter();
        let nodes = nodes.map(|node| node.name.clone()).collect();
        let left = self.take_off(&nodes, TakeOff::Work).await?;
        anyhow::ensure!(left.0.is_empty(), not_given_back(&left));
        Ok(())
    }

    /// The deadline came while nobody led: what the drain would have done at its end.
    pub(super) async fn end_late(&mut self, undo: bool) -> anyhow::Result<()> {
        if self.object.status.started_at.is_none() {
            return Ok(());
        }
        let mut status = self.object.status.clone();
        let open = status.nodes.iter_mut();
        let open = open.filter(|node| !node.has_ended() && node.state != NodeState::Refused);
        let mut nodes = BTreeSet::new();
        for node in open {
            node.state = NodeState::NotDrained;
            nodes.insert(node.name.clone());
        }
        let what = if undo { TakeOff::All } else { TakeOff::Work };
        let left = self.take_off(&nodes, what).await?;
        anyhow::ensure!(left.0.is_empty(), not_given_back(&left));
        self.object.status = status;
        Ok(())
    }

    async fn take_off(&self, nodes: &BTreeSet<Str>, what: TakeOff) -> anyhow::Result<NotGivenBack> {
        let (mut reporter, _) = StatusReporter::new(&self.object);
        give_back(&self.cluster, &self.identity(), nodes, what, &mut reporter)
            .await
            .context("failed to give back the nodes")
    }
}

fn not_given_back(left: &NotGivenBack) -> anyhow::Error {
    const SHOWN: usize = 10;
    let nodes = left.0.iter().map(|(node, why)| format!("{node}: {why}"));
    let nodes = format::first(SHOWN, nodes);
    anyhow::anyhow!("{} of the nodes are not given back: {nodes}", left.0.len())
}
