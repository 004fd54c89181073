//! `ConditionGate`: waits for a condition of the node that was drained.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::watch::Update;
use nodelife_cluster::{Cluster, listing};
use nodelife_core::node_maintenance::GateCondition;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain::{Gate, GateLines};
use tokio::time::Instant;

/// When the drain of each node began.
pub(super) type Begun = Arc<Mutex<BTreeMap<Str, Timestamp>>>;

pub(super) struct ConditionGate {
    pub(super) cluster: Cluster,
    pub(super) condition: GateCondition,
    pub(super) timeout: Duration,
    pub(super) begun: Begun,
}

impl Gate for ConditionGate {
    fn name(&self) -> &'static str {
        "the gate"
    }

    fn check(
        &self,
        node: Str,
        _drained: bool,
        lines: GateLines,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (cluster, wanted) = (self.cluster.clone(), self.condition.clone());
        let end = Instant::now() + self.timeout;
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = begun.get(&node).copied();
        Box::pin(async move {
            // What it was before its drain says nothing about what is done to it now.
            let holds = |one: &Node| {
                one.condition(&wanted.kind).is_some_and(|found| {
                    found.status == wanted.status && found.last_transition_time >= begun
                })
            };
            let mut watch = cluster.watch(&listing::NODES, ListFilter::named(&node));
            let mut is_gone = false;
            while let Ok(update) = tokio::time::timeout_at(end, watch.next()).await {
                let shown = match update {
                    Some(Update::Listed(all)) => {
                        all.into_iter().find(|one| one.metadata.name == node)
                    }
                    Some(Update::Applied(one)) => Some(one),
                    Some(Update::Deleted(_)) => None,
                    Some(Update::Unreadable(_) | Update::Failed { .. }) => continue,
                    None => std::future::pending().await,
                };
                if shown.as_ref().is_some_and(holds) {
                    return Ok(());
                }
                is_gone = shown.is_none();
            }
            let GateCondition { kind, status } = &wanted;
            if is_gone {
                // Its machine was replaced, and the other one has another name.
                let text = format!("{node} is gone and has not come back; others follow");
                lines.tell(text).await;
                return Ok(());
            }
            Err(format!(
                "its condition {kind} has not become {status} since its drain began, within the timeout"
            ))
        })
    }
}
