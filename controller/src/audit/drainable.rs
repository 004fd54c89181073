//! How many nodes can be drained: the answers of `kubectl nodelife drainable`, as a metric.

use jiff::Timestamp;
use nodelife_core::metric::Metric;
use nodelife_core::snapshot::Snapshot;
use nodelife_drain_plan::Answer;

use super::store::Store;

/// None while a list has not arrived, and where an answer would be a guess.
pub(super) async fn metric(store: &mut Store, now: Timestamp) -> Option<Metric> {
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
    Some(Metric {
        name: "drainable_nodes",
        help: "Nodes by whether each alone can be drained now",
        series: series.into(),
    })
}
