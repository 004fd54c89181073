//! `ConditionGate` and `AuditGate`: wait for a condition of the node that was drained, or until the audit has
//! no error about it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nodelife_audit::{Selection, all, audit};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::snapshot::collect;
use nodelife_cluster::watch::Update;
use nodelife_cluster::{Cluster, Configz, listing};
use nodelife_core::format;
use nodelife_core::node_maintenance::GateCondition;
use nodelife_core::object::Node;
use nodelife_core::snapshot::Source;
use nodelife_core::text::Str;
use nodelife_drain::{Gate, GateDecision, GateLines};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::audit::{LastAudit, node_errors};

/// When the drain of each node began, and when it ended, if that was written yet.
pub(super) type Begun = Arc<Mutex<BTreeMap<Str, (Timestamp, Option<Timestamp>)>>>;

/// However long another process has asked, a gate is asked for so long, if its timeout allows it.
const AT_LEAST: Duration = Duration::from_secs(30);

pub(super) struct GateTime {
    pub(super) timeout: Duration,
    pub(super) soak: Duration,
    pub(super) begun: Begun,
}

impl GateTime {
    fn times(&self, node: &Str) -> Option<(Timestamp, Option<Timestamp>)> {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.get(node).copied()
    }

    /// How much is left. It counts from the end of the soak, also after a change of the leader.
    pub(super) fn left(&self, node: &Str, now: Timestamp) -> Duration {
        let done = self.times(node).and_then(|(_, done)| done);
        let spent = done.and_then(|done| Duration::try_from(now.duration_since(done)).ok());
        let spent = spent.unwrap_or_default().saturating_sub(self.soak);
        let left = self.timeout.saturating_sub(spent);
        left.max(AT_LEAST.min(self.timeout))
    }
}

pub(super) struct ConditionGate {
    pub(super) cluster: Cluster,
    pub(super) condition: GateCondition,
    pub(super) time: GateTime,
}

impl Gate for ConditionGate {
    fn check(&self, node: Str, _drained: bool, lines: GateLines) -> GateDecision {
        let (cluster, wanted) = (self.cluster.clone(), self.condition.clone());
        let end = Instant::now() + self.time.left(&node, cluster.clock().now());
        let begun = self.time.times(&node).map(|(begun, _)| begun);
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

/// Between two looks: an audit of the gate's own lists the cluster.
const PAUSE: Duration = Duration::from_secs(15);

/// How many findings a sentence has.
const SHOWN: usize = 3;

/// Where the errors of `gate.audit` come from.
#[derive(Clone, Debug)]
pub(crate) enum GateAudit {
    /// The audit part, which runs in this process.
    Running(watch::Receiver<LastAudit>),
    /// None runs: by these rules the gate audits the cluster itself.
    Own(Arc<Selection>),
}

impl GateAudit {
    /// The errors of an audit that begins from now on, about the node and its pods, as a sentence; empty if
    /// there are none. Or why the audit failed.
    async fn errors(&mut self, cluster: &Cluster, node: &Str) -> Result<String, String> {
        let errors = match self {
            Self::Running(last) => {
                let asked = Instant::now();
                let is_new = |last: &LastAudit| last.as_ref().is_some_and(|(at, _)| *at >= asked);
                let last = last.wait_for(is_new).await;
                let last = last.map_err(|_| "the audit has ended".to_owned())?;
                last.as_ref().map(|(_, errors)| errors.clone())
            }
            Self::Own(selection) => {
                let sources: BTreeSet<Source> = all()
                    .filter(|rule| selection.wants(rule.id))
                    .flat_map(|rule| rule.sources.iter().copied())
                    .filter(|source| !source.is_asked_for_apart())
                    .collect();
                let snapshot = collect(cluster, &sources, Configz::Proxy, |_| {}).await;
                let snapshot = snapshot.map_err(|error| format!("the audit failed: {error}"))?;
                let audit = audit(&snapshot, selection, cluster.clock().now());
                Some(node_errors(&audit.findings, &snapshot))
            }
        };
        let errors = errors.transpose()?.unwrap_or_default();
        let errors = errors.get(node).into_iter().flatten();
        Ok(format::first(SHOWN, errors))
    }
}

pub(super) struct AuditGate {
    pub(super) cluster: Cluster,
    pub(super) audit: GateAudit,
    pub(super) time: GateTime,
}

impl Gate for AuditGate {
    fn check(&self, node: Str, _drained: bool, lines: GateLines) -> GateDecision {
        let cluster = self.cluster.clone();
        let end = Instant::now() + self.time.left(&node, cluster.clock().now());
        let mut audit = self.audit.clone();
        Box::pin(async move {
            let mut told = String::new();
            loop {
                let look = audit.errors(&cluster, &node);
                let Ok(found) = tokio::time::timeout_at(end, look).await else {
                    return Err(format!(
                        "the audit has not ended within the timeout: {told}"
                    ));
                };
                if found.as_ref().is_ok_and(String::is_empty) {
                    return Ok(());
                }
                let found = found.unwrap_or_else(|error| error);
                if found != told {
                    lines.tell(format!("waits: {found}")).await;
                    told = found;
                }
                if Instant::now() + PAUSE >= end {
                    return Err(format!("the audit still has errors about it: {told}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_gate_goes_on_under_another_leader() {
        let done = Timestamp::UNIX_EPOCH;
        let begun = [("a".into(), (done, Some(done))), ("b".into(), (done, None))];
        let time = GateTime {
            timeout: Duration::from_mins(10),
            soak: Duration::from_mins(5),
            begun: Arc::new(Mutex::new(begun.into())),
        };
        let left = |node: &str, minutes: i64| {
            let now = done + jiff::SignedDuration::from_mins(minutes);
            time.left(&node.into(), now)
        };
        assert_eq!(left("a", 5), Duration::from_mins(10));
        assert_eq!(left("a", 11), Duration::from_mins(4));
        // What came true without a leader is seen.
        assert_eq!(left("a", 60), AT_LEAST);
        assert_eq!(left("b", 60), Duration::from_mins(10));
    }
}
