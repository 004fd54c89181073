//! The end of an object.

use std::collections::BTreeSet;

use anyhow::Context as _;
use nodelife_cluster::ApiError;
use nodelife_core::node_maintenance::FINALIZER;
use nodelife_core::text::Str;
use nodelife_drain::{DrainStatus, Reporter, UndoSettings, undo_drain};

use super::super::reporter::StatusReporter;
use super::{Next, RETRY, SOON, Worker};

impl Worker {
    /// Gives back what was taken from the nodes, and lets the object go.
    pub(super) async fn give_back(&mut self) -> anyhow::Result<Next> {
        let meta = &self.object.metadata;
        if !meta.finalizers.iter().any(|one| *one == FINALIZER) {
            return Ok(Next::Idle);
        }
        if self.object.status.started_at.is_some() {
            let taken: BTreeSet<&Str> = self.object.status.nodes.iter().map(|n| &n.name).collect();
            let mut nodes = self.list_nodes().await?;
            nodes.retain(|node| taken.contains(&node.metadata.name));
            let undo = UndoSettings {
                identity: self.identity(),
                own_only: true,
                dry_run: false,
            };
            let (mut reporter, _) = StatusReporter::new(meta.name.clone());
            let told: &mut dyn Reporter = &mut reporter;
            let status = undo_drain(&self.cluster, &nodes, &undo, told)
                .await
                .context("failed to give back the nodes")?;
            if status != DrainStatus::Done {
                let text = format!("failed to give back the nodes: {}", reporter.last);
                self.block("GiveBackFailed", &text).await?;
                return Ok(Next::Changed(RETRY));
            }
        }
        match self
            .cluster
            .set_maintenance_finalizer(&self.object, FINALIZER, false)
            .await
        {
            Ok(()) | Err(ApiError::NotFound(_)) => Ok(Next::Idle),
            Err(ApiError::Conflict(_)) => Ok(Next::Changed(SOON)),
            Err(error) => Err(error.into()),
        }
    }
}
