//! What is told when a budget has let nothing go for a while.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::list::Selection;
use nodelife_cluster::{ApiError, listing};
use nodelife_core::disruption::{BudgetKey, BudgetRefusal};
use nodelife_core::drain::{Block, State};
use nodelife_core::object::Pod;
use tokio::task::JoinSet;

use super::events::Happening;
use super::executor::Executor;

/// How long a budget lets nothing go before that is told: waves that follow each other are no
/// trouble.
const STALLED: SignedDuration = SignedDuration::from_secs(10);

/// How many of a budget's pods are named.
const NAMED: usize = 5;

/// The budgets that let nothing go, and the lists of their pods that are on their way; dropped,
/// and so cancelled, with the drain.
#[derive(Default)]
pub(super) struct Stalls {
    told: BTreeSet<BudgetKey>,
    asked: JoinSet<Asked>,
}

/// A budget, and the pods of its namespace.
pub(super) type Asked = (BudgetKey, Result<Vec<Pod>, ApiError>);

impl Stalls {
    /// The next list that came. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> Option<Asked> {
        loop {
            match self.asked.join_next().await? {
                Ok(asked) => return Some(asked),
                Err(error) => tracing::debug!(%error, "a list of pods was lost"),
            }
        }
    }
}

impl Executor<'_> {
    /// When the next budget has let nothing go for too long.
    pub(super) fn stalls_at(&self, now: Timestamp) -> Option<Timestamp> {
        let stalled = |tracked| self.machine.stalled_since(tracked);
        let ends = self.machine.pods().filter_map(stalled);
        ends.map(|since| since + STALLED)
            .filter(|at| *at > now)
            .min()
    }

    /// Has the node's events tell of budgets that let nothing go, and asks, once for each, which
    /// of its pods it lacks.
    pub(super) fn tell_stalls(&mut self, now: Timestamp) {
        for tracked in self.machine.pods() {
            let since = self.machine.stalled_since(tracked);
            if since.is_none_or(|since| now < since + STALLED) {
                continue;
            }
            let meta = &tracked.pod.metadata;
            let text = format!("{}/{}: {}", meta.namespace, meta.name, tracked.state);
            let about = tracked.budget().unwrap_or_default();
            let node = &tracked.pod.spec.node_name;
            self.events.record(node, Happening::Blocked, &about, &text);
            let State::Blocked(blocked) = &tracked.state else {
                continue;
            };
            let Block::Budget { budget, refusal } = &blocked.block else {
                continue;
            };
            if matches!(refusal, BudgetRefusal::Unseen(_)) {
                // Which pods it counts is not known.
                continue;
            }
            if self.stalls.told.insert(budget.clone()) {
                let (cluster, budget) = (self.cluster.clone(), budget.clone());
                self.stalls.asked.spawn(async move {
                    let selection = Selection {
                        namespace: Some(budget.namespace.to_string()),
                        ..Selection::default()
                    };
                    let listed = cluster.list(&listing::PODS, &selection, |_| {}).await;
                    (budget, listed.map(|listed| listed.items))
                });
            }
        }
    }

    /// Names the pods that a budget lacks.
    pub(super) fn tell_absentees(&mut self, (budget, pods): Asked) {
        let pods = match pods {
            Ok(pods) => pods,
            Err(error) => return tracing::debug!(%budget, %error, "failed to list its pods"),
        };
        let absentees = self.machine.absentees(&budget, &pods, self.now());
        if absentees.is_empty() {
            return;
        }
        let named: Vec<String> = absentees
            .iter()
            .take(NAMED)
            .map(ToString::to_string)
            .collect();
        let more = if absentees.len() > NAMED { "; …" } else { "" };
        self.narrator.printer().note(format_args!(
            "budget {budget} lacks {} of its pods: {}{more}",
            absentees.len(),
            named.join("; ")
        ));
    }
}
