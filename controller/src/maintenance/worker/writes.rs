//! The writes of the status.

use std::sync::PoisonError;

use anyhow::Context as _;
use nodelife_core::node_maintenance::MaintenanceStatus;

use super::super::status::summarize;
use super::{Worker, version};

impl Worker {
    /// Writes a status to which the present spec leads, if it has changed.
    pub(super) async fn write(&mut self, mut status: MaintenanceStatus) -> anyhow::Result<()> {
        status.observed_generation = self.object.metadata.generation;
        self.write_news(status).await
    }

    /// The same for news from the nodes alone: its conditions say nothing yet of a spec that has changed.
    pub(super) async fn write_news(&mut self, mut status: MaintenanceStatus) -> anyhow::Result<()> {
        let now = self.cluster.clock().now();
        self.notices.note(&mut status);
        summarize(&mut status, self.object.is_deleted(), now);
        let begun = status.nodes.iter();
        let begun =
            begun.filter_map(|node| Some((node.name.clone(), (node.begun_at?, node.done_at))));
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = begun.collect();
        if status == self.object.status && !self.is_overwritten {
            self.notices.tell(&self.object, now);
            return Ok(());
        }
        let turn = self.turn().await;
        let written = self
            .cluster
            .write_maintenance_status(&self.object, &status)
            .await
            .context("failed to write the status")?;
        drop(turn);
        self.written_in = version(&written);
        // Else the next write of the finalizer is one of an old version, and refused.
        let (known, new) = (&mut self.object.metadata, written.metadata);
        if (known.generation, &known.finalizers) == (new.generation, &new.finalizers) {
            known.resource_version = new.resource_version;
        }
        self.is_overwritten = false;
        self.events.record(&self.object, &status);
        self.object.status = status;
        self.notices.tell(&self.object, now);
        Ok(())
    }
}
