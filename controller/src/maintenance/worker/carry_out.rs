//! A drain that runs.

use jiff::Timestamp;
use nodelife_core::node_maintenance::{MaintenanceStatus, NodeMaintenance, condition};
use nodelife_drain::{Drain, DrainStatus};
use tokio::sync::{mpsc, watch};

use super::super::reporter::{PERIOD, StatusReporter, View};
use super::super::status::{count_nodes, set_condition};
use super::{Next, RETRY, Worker};

impl Worker {
    /// Runs the drain, and writes how far it has come, until it ends or the object is deleted.
    pub(super) async fn carry_out(
        &mut self,
        drain: Box<Drain>,
        mut reporter: StatusReporter,
        mut view: watch::Receiver<View>,
    ) -> anyhow::Result<Next> {
        let (stop, mut interrupts) = mpsc::unbounded_channel();
        let (identity, mut all) = (self.identity(), self.all.clone());
        let (name, uid) = (
            self.object.metadata.name.clone(),
            self.object.metadata.uid.clone(),
        );
        let ended = {
            let deleted = async {
                loop {
                    {
                        let all = all.borrow_and_update();
                        let own = all.get(&name).filter(|one| one.metadata.uid == uid);
                        if own.is_none_or(NodeMaintenance::is_deleted) {
                            break;
                        }
                    }
                    if all.changed().await.is_err() {
                        break;
                    }
                }
                // Who does not listen has ended.
                let _ = stop.send(());
                std::future::pending::<()>().await;
            };
            let writes = async {
                while view.changed().await.is_ok() {
                    let now = self.cluster.clock().now();
                    let status = with_view(&self.object.status, &view.borrow_and_update(), now);
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
        let last = view.borrow().clone();
        if !last.ended {
            if ended == DrainStatus::Refused {
                self.block("NodeLocked", &reporter.last).await?;
            } else {
                let text = reporter.last.clone();
                self.block("NotBegun", &text).await?;
            }
            return Ok(Next::Changed(RETRY));
        }
        let now = self.cluster.clock().now();
        self.object.status = with_view(&self.object.status, &last, now);
        if !self.refresh() {
            return Ok(Next::Gone);
        }
        if self.object.is_deleted() {
            return Ok(Next::Now);
        }
        if ended == DrainStatus::Failed && !last.is_final {
            // The API server was away, or the locks were lost: it goes on from here.
            let text = reporter.last.clone();
            self.block("Failed", &text).await?;
            return Ok(Next::Changed(RETRY));
        }
        let why = last
            .pods
            .first()
            .map_or(reporter.last.as_str(), |pod| &pod.reason);
        let text = if ended == DrainStatus::Done {
            String::new()
        } else {
            why.to_owned()
        };
        self.finish(ended, &text).await?;
        Ok(Next::Idle)
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
