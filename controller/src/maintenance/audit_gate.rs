//! `AuditGate`: waits until the audit has no error about the node that was drained.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use nodelife_audit::{Finding, Selection, Severity, all, audit};
use nodelife_cluster::snapshot::collect;
use nodelife_cluster::{Cluster, Configz};
use nodelife_core::format;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_drain::{Gate, GateLines};
use tokio::time::Instant;

use super::gate::GateTime;

/// Between two audits: each lists the cluster.
const PAUSE: Duration = Duration::from_secs(15);

/// How many findings a sentence has.
const SHOWN: usize = 3;

pub(super) struct AuditGate {
    pub(super) cluster: Cluster,
    pub(super) selection: Arc<Selection>,
    pub(super) time: GateTime,
}

impl Gate for AuditGate {
    fn name(&self) -> &'static str {
        "the gate"
    }

    fn check(
        &self,
        node: Str,
        _drained: bool,
        lines: GateLines,
    ) -> BoxFuture<'static, Result<(), String>> {
        let cluster = self.cluster.clone();
        let end = Instant::now() + self.time.left(&node, cluster.clock().now());
        let selection = Selection {
            nodes: vec![node.clone()],
            ..Selection::clone(&self.selection)
        };
        Box::pin(async move {
            let mut told = String::new();
            loop {
                let look = errors(&cluster, &selection, &node);
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

/// The errors about the node and its pods, as a sentence; empty if there are none. Or why the audit
/// failed.
async fn errors(cluster: &Cluster, selection: &Selection, node: &Str) -> Result<String, String> {
    let sources: BTreeSet<Source> = all()
        .filter(|rule| selection.wants(rule.id))
        .flat_map(|rule| rule.sources.iter().copied())
        .filter(|source| !source.is_asked_for_apart())
        .collect();
    let snapshot = collect(cluster, &sources, Configz::Proxy, |_| {}).await;
    let snapshot = snapshot.map_err(|error| format!("the audit failed: {error}"))?;
    if let Some(why) = snapshot.missing.get(&Source::Nodes) {
        return Err(format!("the audit could not read the nodes: {why}"));
    }
    let audit = audit(&snapshot, selection, cluster.clock().now());
    let errors = audit.findings.iter();
    let errors = errors.filter(|found| found.severity == Severity::Error);
    let errors = errors.filter(|found| is_about(found, &snapshot, node));
    let errors: Vec<String> = errors
        .map(|found| format!("{}: {}", found.rule, found.message))
        .collect();
    Ok(format::first(SHOWN, errors.iter().map(String::as_str)))
}

fn is_about(finding: &Finding, snapshot: &Snapshot, node: &Str) -> bool {
    let subject = &finding.subject;
    match subject.kind.as_str() {
        "Node" => subject.name == *node,
        "Pod" => snapshot.pods.iter().any(|pod| {
            let meta = &pod.metadata;
            pod.spec.node_name == *node
                && meta.name == subject.name
                && Some(&meta.namespace) == subject.namespace.as_ref()
        }),
        _ => false,
    }
}
