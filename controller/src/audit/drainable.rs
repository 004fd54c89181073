//! Which nodes can be drained: the answers of `kubectl nodelife drainable`, as a metric and in the reports.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nodelife_audit::{Confidence, Finding, Severity, Subject};
use nodelife_core::format;
use nodelife_core::metric::Metric;
use nodelife_core::snapshot::Snapshot;
use nodelife_drain_plan::{Answer, NodeAnswer};

use super::store::Store;

/// The metric, and a result for each node whose drain would not end by itself. None while a list has not
/// arrived, and where an answer would be a guess.
pub(super) async fn look(store: &mut Store, now: Timestamp) -> Option<(Metric, Vec<Finding>)> {
    let snapshot = store.judge(now, Snapshot::clone)?;
    if nodelife_drain::missing(&snapshot).is_some() {
        return None;
    }
    let nodes = snapshot.nodes.clone();
    let answers = nodelife_drain::drainable(snapshot, nodes, None, None, now).await;
    let series = Answer::ALL.map(|answer| {
        let count = answers.iter().filter(|node| node.answer == answer).count();
        let labels = vec![("answer", answer.to_string())];
        (labels, i64::try_from(count).unwrap_or(i64::MAX))
    });
    let metric = Metric {
        name: "drainable_nodes",
        help: "Nodes by whether each alone can be drained now",
        series: series.into(),
    };
    let stays = |node: &&NodeAnswer| matches!(node.answer, Answer::Waits | Answer::Never);
    Some((metric, answers.iter().filter(stays).map(finding).collect()))
}

fn finding(node: &NodeAnswer) -> Finding {
    let reasons = node.reasons.iter();
    let worst = reasons.filter(|reason| reason.answer == node.answer);
    let worst = format::first(3, worst.map(|reason| &reason.reason));
    Finding {
        rule: "drainable".into(),
        title: "a drain would not end by itself".into(),
        severity: Severity::Info,
        subject: Subject {
            kind: "Node".into(),
            name: node.name.clone(),
            namespace: None,
        },
        message: format!("{}: {worst}", node.answer),
        template: "".into(),
        evidence: BTreeMap::new(),
        confidence: Confidence::Measured,
        fix: format!("kubectl nodelife drain {} --dry-run", node.name),
        link: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/".into(),
    }
}
