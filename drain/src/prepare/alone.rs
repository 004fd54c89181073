//! Whether each node can be drained, by the plan of a drain of it alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_core::object::{Node, Pod};
use nodelife_core::operator;
use nodelife_core::snapshot::Snapshot;
use nodelife_drain_plan::NodeAnswer;

use crate::settings::DrainRequest;
use crate::view::{ClusterView, operators};

/// Answers for each of these nodes of the snapshot whether a drain of it alone, without any flag, would
/// end. Operators that guard pods are asked for in the cluster, if there is one.
pub async fn drainable(
    snapshot: Snapshot,
    nodes: Vec<Node>,
    cluster: Option<&Cluster>,
    now: Timestamp,
) -> Vec<NodeAnswer> {
    let mut view = ClusterView::of(snapshot, Vec::new());
    let objects = view.objects.clone().unwrap_or_default();
    let mut on_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in objects.pods.iter() {
        on_node.entry(&pod.spec.node_name).or_default().push(pod);
    }
    if let Some(cluster) = cluster {
        let sources = operator::sources(&*objects.pods);
        let known = (!sources.is_empty()).then_some((&objects.pods[..], &objects.nodes[..]));
        view.store.operators = operators::read(cluster, &sources, known).await;
    }
    let context = objects.plan_context();
    let mut request = DrainRequest::default();
    request.settings.force = true;
    request.settings.delete_emptydir_data = true;
    let mut answers = Vec::with_capacity(nodes.len());
    for node in nodes {
        let name = node.metadata.name.clone();
        let pods = on_node.remove(&*name).unwrap_or_default();
        view.turn_to(node, pods.into_iter().cloned().collect());
        let plan = request.plan_in(&view, Some(&context), now);
        answers.push(NodeAnswer::new(name, &plan));
    }
    answers
}
