//! The end of an object.

use std::collections::BTreeSet;

use anyhow::Context as _;
use nodelife_cluster::ApiError;
use nodelife_core::node_maintenance::FINALIZER;
use nodelife_core::text::Str;
use nodelife_drain::{DrainStatus, give_back};

use super::super::reporter::StatusReporter;
use super::super::reservations::Wait;
use super::{Next, RETRY, SOON, Worker};

impl Worker {
    /// Gives back what was taken from the nodes, and lets the object go.
    pub(super) async fn give_back(&mut self) -> anyhow::Result<Next> {
        let meta = &self.object.metadata;
        if !meta.finalizers.iter().any(|one| *one == FINALIZER) {
            return Ok(Next::Idle);
        }
        if let Some(wait) = self.return_nodes().await? {
            self.block(wait.reason, &wait.message).await?;
            return Ok(Next::Blocked(wait));
        }
        match self
            .cluster
            .set_maintenance_finalizer(&self.object, FINALIZER, false)
            .await
        {
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
                    let reservations = self.reservation.reservations().clone();
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

    /// Gives the nodes back, unless something is in the way.
    async fn return_nodes(&mut self) -> anyhow::Result<Option<Wait>> {
        if self.given_back || self.object.status.started_at.is_none() {
            return Ok(None);
        }
        if let Some(wait) = self.know_nodes().await {
            return Ok(Some(wait));
        }
        let check = self.check(true);
        let now = self.cluster.clock().now();
        let taken: BTreeSet<Str> = {
            let known = self.reservation.reservations().known();
            if let Some(blocker) = check.blocker(&known, now) {
                return Ok(Some(blocker.wait));
            }
            check.wanted(&known).into_iter().collect()
        };
        let (mut reporter, _) = StatusReporter::new(self.object.metadata.name.clone());
        let status = give_back(&self.cluster, self.identity(), &taken, &mut reporter)
            .await
            .context("failed to give back the nodes")?;
        if status != DrainStatus::Done {
            anyhow::bail!("failed to give back the nodes: {}", reporter.last);
        }
        self.given_back = true;
        Ok(None)
    }
}
