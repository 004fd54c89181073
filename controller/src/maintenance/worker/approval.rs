//! The plan in the status, and its approval.

use std::sync::Arc;

use nodelife_core::format;
use nodelife_core::node_maintenance::{MAX_WORKLOADS, MaintenanceStatus, PlanStatus, condition};
use nodelife_core::text::Str;
use nodelife_drain::Drain;
use nodelife_drain_plan::PlanScope;

use super::super::status::set_condition;
use super::Worker;

impl Worker {
    /// Notes the plan and its approval. Returns why the plan has to wait, if it has to: the reason and
    /// the sentence, and whether something is in the way.
    pub(super) fn approve(
        &self,
        drain: &mut Drain,
        status: &mut MaintenanceStatus,
    ) -> Option<(&'static str, String, bool)> {
        const SHOWN: usize = 3;
        let now = self.cluster.clock().now();
        let plan = drain.plan();
        let scope = plan.scope();
        let required = self.object.spec.needs_approval();
        let pods = plan.pods.iter().filter(|pod| pod.removed).count();
        let published = status.plan.as_ref().map(|published| {
            let entries = published.workloads.iter().map(Str::as_str);
            let nodes = published.nodes.iter().cloned();
            let scope = PlanScope::new(nodes, plan.eviction.clone()).with_entries(entries);
            (published.digest.clone(), scope)
        });
        // What does no more than the published plan is covered by it.
        let covering = published.filter(|(digest, published)| {
            published.digest() == **digest && scope.beyond(published).is_empty()
        });
        let (digest, published) = match covering {
            Some(covering) if required => covering,
            _ => {
                let entries: Vec<Str> = scope.entries().map(Str::from).collect();
                if required && entries.len() > MAX_WORKLOADS {
                    let text = format!(
                        "the plan removes pods of {} workloads; one of more than {MAX_WORKLOADS} \
                         cannot be approved: make several maintenances",
                        entries.len()
                    );
                    return Some(("PlanTooLarge", text, true));
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
                let made = ("PlanMade", "");
                set_condition(status, (condition::PLANNED, true), made, now);
                (Str::from(plan.digest.as_str()), scope)
            }
        };
        let approved = (condition::APPROVED, true);
        if !required {
            set_condition(status, approved, ("NotRequired", ""), now);
            return None;
        }
        if self.object.spec.approved_plan.as_ref() == Some(&digest) {
            drain.bind(Arc::new(published));
            set_condition(status, approved, ("Approved", ""), now);
            return None;
        }
        let text = if self.object.spec.approved_plan.is_some() {
            format!("the plan has changed: set spec.approvedPlan to {digest} to approve it")
        } else {
            format!("set spec.approvedPlan to {digest} to approve the plan")
        };
        let refused = format::first(SHOWN, drain.refusals().nodes.keys());
        let text = match refused.as_str() {
            "" => text,
            refused => format!("{text}; it leaves out {refused}"),
        };
        let why = ("WaitsForApproval", text.as_str());
        set_condition(status, (condition::APPROVED, false), why, now);
        Some(("WaitsForApproval", text, false))
    }
}
