//! `ConditionGate`: waits for a condition of the node that was drained.

use std::time::Duration;

use futures::future::BoxFuture;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::watch::Update;
use nodelife_cluster::{Cluster, listing};
use nodelife_core::node_maintenance::GateCondition;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain::{Gate, GateLines};

pub(super) struct ConditionGate {
    pub(super) cluster: Cluster,
    pub(super) condition: GateCondition,
    pub(super) timeout: Duration,
}

impl Gate for ConditionGate {
    fn name(&self) -> &'static str {
        "the gate"
    }

    fn check(
        &self,
        node: Str,
        _drained: bool,
        _lines: GateLines,
    ) -> BoxFuture<'static, Result<(), String>> {
        let (cluster, condition) = (self.cluster.clone(), self.condition.clone());
        let timeout = self.timeout;
        Box::pin(async move {
            let holds = |one: &Node| {
                let found = one.condition(&condition.kind);
                one.metadata.name == node && found.is_some_and(|c| c.status == condition.status)
            };
            let mut watch = cluster.watch(&listing::NODES, ListFilter::named(&node));
            let wait = async {
                while let Some(update) = watch.next().await {
                    match update {
                        Update::Listed(all) if all.iter().any(holds) => return,
                        Update::Applied(one) if holds(&one) => return,
                        _ => {}
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::time::timeout(timeout, wait)
                .await
                .map_err(|_elapsed| {
                    let GateCondition { kind, status } = &condition;
                    format!("its condition {kind} was not {status} within the timeout")
                })
        })
    }
}
