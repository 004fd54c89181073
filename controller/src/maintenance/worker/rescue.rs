//! The rescue of a dead node.

use std::fmt::Display;

use anyhow::Result;
use nodelife_core::node_maintenance::{
    MAX_WORKLOADS, MaintenanceStatus, NodeState, PlanStatus, condition,
};
use nodelife_core::text::Str;
use nodelife_drain::{DrainStatus, Level, Reporter, Rescue, remove_out_of_service};
use nodelife_drain_plan::rescue::{Fate, RescuedPod, is_shut_down};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::super::status::{cut, set_condition, whole_second};
use super::{Next, Worker, respecified, stop_when_deleted};

/// Keeps the last sentence about the rescue of this name.
struct Told(Str, watch::Sender<String>);

impl Reporter for Told {
    fn tell(&mut self, _: Level, text: &dyn Display) {
        tracing::info!(maintenance = %self.0, "{text}");
        self.1.send_replace(text.to_string());
    }

    fn error(&mut self, error: &anyhow::Error) {
        self.tell(Level::Warning, &format_args!("{error:#}"));
    }
}

/// As of the plan of a drain: the pod, and what is lost.
fn entry(pod: &RescuedPod) -> Str {
    let lost = if pod.fate == Fate::Lost { " pod" } else { "" };
    format!("{}/Pod/{}{lost}", pod.namespace, pod.name).into()
}

impl Worker {
    /// Proves that its node is dead, waits for the approval, and moves its pods and volumes.
    pub(super) async fn rescue(&mut self, end: Option<Instant>) -> Result<Next> {
        let mut status = self.object.status.clone();
        let name = self.object.spec.nodes.first().cloned().unwrap_or_default();
        let rescue = Rescue::look(&self.cluster, &name).await?;
        let digest = rescue.digest();
        if status.started_at.is_some() {
            let plan = status.plan.as_ref();
            if plan.is_none_or(|plan| plan.digest != *digest) {
                remove_out_of_service(&self.cluster, &name).await?;
                let text = "the node has lived since its rescue began: the taint was removed";
                return self.rescued(DrainStatus::Impossible, text).await;
            }
            return self.run_rescue(rescue, end).await;
        }
        if let Some(life) = rescue.life() {
            let text = format!("node/{name} is not dead: {life}");
            self.block("NotDead", &text).await?;
            return Ok(self.later());
        }
        if let Some(text) = self.unapproved(&rescue, &mut status) {
            self.pause(status, ("WaitsForApproval", &text), false)
                .await?;
            return Ok(self.later());
        }
        if self.ahead.is_some() {
            self.pause(status, ("", ""), false).await?;
            return Ok(self.later());
        }
        let now = self.cluster.clock().now();
        for node in &mut status.nodes {
            node.uid.clone_from(&rescue.node().metadata.uid);
            node.begun_at = Some(whole_second(now));
            node.state = NodeState::Draining;
        }
        status.started_at = Some(whole_second(now));
        let why = ("Rescuing", "");
        set_condition(&mut status, (condition::PROGRESSING, true), why, now);
        set_condition(&mut status, (condition::BLOCKED, false), why, now);
        if let Err(wait) = self.reservation.take(self.taken(&status)) {
            return self.blocked_by(wait).await;
        }
        self.write(status).await?;
        self.run_rescue(rescue, end).await
    }

    /// Notes the plan and its approval. Returns what it waits for.
    fn unapproved(&self, rescue: &Rescue, status: &mut MaintenanceStatus) -> Option<String> {
        let now = self.cluster.clock().now();
        let (digest, report) = (rescue.digest(), rescue.report());
        let pods = report.pods.iter().take(MAX_WORKLOADS);
        status.plan = Some(PlanStatus {
            digest: digest.as_str().into(),
            pods: u32::try_from(report.pods.len()).unwrap_or(u32::MAX),
            nodes: vec![report.node.clone()],
            workloads: pods.map(entry).collect(),
        });
        status.warnings = report.proof.iter().map(|line| cut(line)).collect();
        status.warnings.push(cut(&format!(
            "who approves the plan says that the machine of node/{} is off and stays off",
            report.node
        )));
        set_condition(status, (condition::PLANNED, true), ("PlanMade", ""), now);
        let (reason, text) = if self.object.spec.approved_plan.as_deref() == Some(&digest) {
            ("Approved", None)
        } else if self.object.spec.needs_approval() {
            let text = format!(
                "see that the machine of node/{} is off and stays off, then set spec.approvedPlan to {digest}",
                report.node
            );
            ("WaitsForApproval", Some(text))
        } else if is_shut_down(rescue.node()) {
            ("NotRequired", None)
        } else {
            let text = "without an approval only a machine is rescued that the cloud provider has shut down";
            ("WaitsForApproval", Some(text.to_owned()))
        };
        let why = (reason, text.as_deref().unwrap_or_default());
        set_condition(status, (condition::APPROVED, text.is_none()), why, now);
        text
    }

    async fn run_rescue(&mut self, mut rescue: Rescue, end: Option<Instant>) -> Result<Next> {
        let identity = self.identity();
        let (sender, mut told) = watch::channel(String::new());
        let mut reporter = Told(self.object.metadata.name.clone(), sender);
        let (stop, mut interrupts) = mpsc::unbounded_channel();
        let ended = {
            let deleted = stop_when_deleted(self.seen.clone(), stop);
            let respecified = respecified(self.seen.clone(), self.object.metadata.generation);
            let writes = async {
                while told.changed().await.is_ok() {
                    self.refresh();
                    let mut status = self.object.status.clone();
                    for node in &mut status.nodes {
                        node.message = cut(&told.borrow_and_update());
                    }
                    if let Err(error) = self.write_news(status).await {
                        tracing::warn!("failed to write the status: {error:#}");
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = rescue.run(&identity, end, &mut interrupts, &mut reporter) => ended?,
                () = deleted => DrainStatus::Failed,
                () = respecified => return Ok(Next::Now),
                () = writes => DrainStatus::Failed,
            }
        };
        if !self.refresh() || self.object.is_deleted() {
            return Ok(Next::Now);
        }
        let last = reporter.1.borrow().clone();
        if matches!(ended, DrainStatus::Failed | DrainStatus::Refused) {
            self.block("Failed", &last).await?;
            return Ok(self.later());
        }
        self.rescued(ended, &last).await
    }

    async fn rescued(&mut self, ended: DrainStatus, text: &str) -> Result<Next> {
        let now = whole_second(self.cluster.clock().now());
        let drained = (ended == DrainStatus::Done).then_some(NodeState::Drained);
        let mut status = self.object.status.clone();
        for node in &mut status.nodes {
            node.state = drained.unwrap_or(NodeState::NotDrained);
            node.message = cut(text);
            node.done_at = Some(now);
        }
        self.write_news(status).await?;
        self.finish(ended, text).await?;
        Ok(Next::Now)
    }
}
