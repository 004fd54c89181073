//! Removes pods, by eviction or by DELETE.

use nodelife_cluster::Cluster;
use nodelife_cluster::evict::Removal;
use nodelife_core::text::Str;
use nodelife_drain_plan::{Action, DrainPlan, EvictionResult, PlannedPod, Throttle};

use crate::reporter::{DrainStatus, Reporter};

#[derive(Clone, Copy, Debug, Default)]
pub struct RemovalMethod {
    /// By DELETE, which no budget stops.
    pub delete: bool,
    /// Seconds between the signal and the kill; absent: the pod's own.
    pub grace_period_seconds: Option<u32>,
}

impl RemovalMethod {
    /// The right that it takes, and how `kubectl auth can-i` asks for it.
    pub fn permission(self) -> (&'static str, &'static str) {
        if self.delete {
            ("delete pods", "delete pods")
        } else {
            ("create pods/eviction", "create pods --subresource=eviction")
        }
    }

    /// By DELETE; with at least this many seconds to stop if the user gave fewer.
    pub(super) fn past_budgets(self, at_least: Option<u32>) -> Self {
        let given = self.grace_period_seconds.map(|given| given.max(1));
        Self {
            delete: true,
            grace_period_seconds: given.or(at_least),
        }
    }
}

pub(super) async fn remove(
    cluster: &Cluster,
    method: RemovalMethod,
    (namespace, name, uid): (&Str, &Str, &Str),
    dry_run: bool,
) -> EvictionResult {
    let removal = Removal {
        namespace: namespace.to_string(),
        name: name.to_string(),
        uid: uid.to_string(),
        grace_period_seconds: method.grace_period_seconds,
        dry_run,
    };
    let answer = if method.delete {
        cluster.delete_pod(&removal).await
    } else {
        cluster.evict(&removal).await
    };
    match answer {
        Ok(raw) => EvictionResult::of(&raw),
        Err(error) => EvictionResult::Uncertain {
            message: error.to_string(),
            retry_after: None,
        },
    }
}

/// Asks the API server about each eviction of the plan, once: webhooks and missing rights
/// show. A refusal of a budget is not repeated (kubectl v1.36 waits for ever), and what the
/// server says of budgets is not taken: a dry run does not count what the ones before took.
/// What it denies is impossible in the plan then.
pub async fn check_evictions(
    cluster: &Cluster,
    plan: &mut DrainPlan,
    method: RemovalMethod,
    reporter: &mut dyn Reporter,
) -> DrainStatus {
    let mut status = DrainStatus::Done;
    let goes = |pod: &&mut PlannedPod| matches!(pod.action, Action::Evict | Action::Delete);
    for pod in plan.pods.iter_mut().filter(goes) {
        let which = (&pod.namespace, &pod.name, &pod.uid);
        let reply = remove(cluster, method, which, true).await;
        let says = objection(&reply).map(|words| format!("the API server says: {words}"));
        if let Some(says) = &says {
            reporter.warn(format_args!("{}: {says}", pod.full_name()));
        }
        // What may pass is tried again by the drain.
        if matches!(
            reply,
            EvictionResult::Denied { later: false, .. }
                | EvictionResult::Forbidden(_)
                | EvictionResult::Invalid(_)
        ) {
            status = DrainStatus::Impossible;
            (pod.action, pod.wave) = (Action::Impossible, None);
            pod.reason = says.unwrap_or_default();
        }
    }
    status
}

/// The objection to an eviction in the reply to a dry run; none if only the budget has
/// something to say, since the plan knows that better.
fn objection(reply: &EvictionResult) -> Option<String> {
    match reply {
        EvictionResult::Accepted
        | EvictionResult::BudgetExhausted { .. }
        | EvictionResult::BudgetNotObserved { .. }
        | EvictionResult::NotFound
        | EvictionResult::Conflict => None,
        EvictionResult::BudgetBroken(message)
        | EvictionResult::Denied { message, .. }
        | EvictionResult::Forbidden(message)
        | EvictionResult::Unauthorized(message)
        | EvictionResult::Uncertain { message, .. }
        | EvictionResult::Invalid(message) => Some(message.clone()),
        EvictionResult::SeveralBudgets => Some("more than one budget selects it".to_owned()),
        EvictionResult::NamespaceTerminating => Some("its namespace is being deleted".to_owned()),
        EvictionResult::Throttled {
            by: Throttle::PriorityAndFairness,
            ..
        } => Some("the API server's priority and fairness rejected the dry run".to_owned()),
        EvictionResult::Throttled { .. } => {
            Some("the API server was too busy for the dry run".to_owned())
        }
    }
}
