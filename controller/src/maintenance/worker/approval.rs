//! The plan in the status, and its approval.

use std::sync::Arc;
use std::time::Duration;

use nodelife_core::drain::PlanScope;
use nodelife_core::node_maintenance::{Approval, MAX_WORKLOADS, PlanStatus, condition};
use nodelife_core::text::Str;
use nodelife_drain::Drain;

use super::super::status::set_condition;
use super::{Next, Worker};

/// How often a plan that waits for its approval is made anew.
const REPLAN: Duration = Duration::from_secs(15);

impl Worker {
    /// Publishes the plan; what to wait for, if it has to be approved and is not.
    pub(super) async fn approve(&mut self, drain: &mut Drain) -> anyhow::Result<Option<Next>> {
        let plan = drain.plan();
        let scope = plan.scope();
        let required = self.object.spec.approval == Approval::Required;
        let pods = plan.pods.iter().filter(|pod| pod.removed).count();
        let published = self.object.status.plan.as_ref().map(|published| {
            let entries = published.workloads.iter().map(Str::as_str);
            let nodes = published.nodes.iter().cloned();
            let scope = PlanScope::new(nodes, plan.manner.clone()).with_entries(entries);
            (published.digest.clone(), scope)
        });
        // What does no more than the published plan is covered by it.
        let covering = published.filter(|(digest, published)| {
            published.digest() == **digest && scope.beyond(published).is_empty()
        });
        let (digest, published) = match covering {
            Some(covering) if required => covering,
            _ => {
                let mut status = self.object.status.clone();
                let entries: Vec<Str> = scope.entries().map(Str::from).collect();
                if required && entries.len() > MAX_WORKLOADS {
                    let text = format!(
                        "the plan removes pods of {} workloads; one of more than {MAX_WORKLOADS} \
                         cannot be approved: make several maintenances",
                        entries.len()
                    );
                    self.block("PlanTooLarge", &text).await?;
                    return Ok(Some(Next::Changed(REPLAN)));
                }
                status.plan = Some(PlanStatus {
                    digest: plan.digest.as_str().into(),
                    pods: u32::try_from(pods).unwrap_or(u32::MAX),
                    nodes: if required {
                        plan.nodes.clone()
                    } else {
                        Vec::new()
                    },
                    workloads: if required { entries } else { Vec::new() },
                });
                let now = self.cluster.clock().now();
                let made = ("PlanMade", "");
                set_condition(&mut status, (condition::PLANNED, true), made, now);
                self.write(status).await?;
                (Str::from(plan.digest.as_str()), scope)
            }
        };
        if !required {
            self.set(condition::APPROVED, true, ("NotRequired", ""))
                .await?;
            return Ok(None);
        }
        if self.object.spec.approved_plan.as_ref() == Some(&digest) {
            drain.bind(Arc::new(published));
            self.set(condition::APPROVED, true, ("Approved", ""))
                .await?;
            return Ok(None);
        }
        let text = if self.object.spec.approved_plan.is_some() {
            format!("the plan has changed: set spec.approvedPlan to {digest} to approve it")
        } else {
            format!("set spec.approvedPlan to {digest} to approve the plan")
        };
        let why = ("WaitsForApproval", text.as_str());
        self.set(condition::APPROVED, false, why).await?;
        self.wait("WaitsForApproval", &text).await?;
        Ok(Some(Next::Changed(REPLAN)))
    }
}
