//! Whether each node can be drained, by the plan of a drain of it alone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_core::drainer::{DrainBy, Fate};
use nodelife_core::object::{LabelSelector, Node, Pod};
use nodelife_core::operator;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::workload::Presence;
use nodelife_drain_plan::{Behavior, NodeAnswer, PodRule};

use crate::settings::{DrainRequest, ImplicitBudgetSetting};
use crate::view::{ClusterView, operators};

/// The data without which no answer is true.
const NEEDED: [Source; 4] = [
    Source::Nodes,
    Source::Pods,
    Source::AllPods,
    Source::Budgets,
];

/// The first data that is missing, without which an answer would be a guess, and why it is missing.
pub fn missing(snapshot: &Snapshot) -> Option<(Source, &str)> {
    let mut needed = NEEDED.into_iter();
    needed.find_map(|source| Some((source, snapshot.why_missing(source)?)))
}

/// Answers for each of these nodes of the snapshot whether a drain of it alone, without any flag, would
/// end; where `by` is given, a drain by that program. Operators that guard pods are asked for in the cluster, if
/// there is one.
pub async fn drainable(
    snapshot: Snapshot,
    nodes: Vec<Node>,
    cluster: Option<&Cluster>,
    by: Option<&DrainBy>,
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
    if by.is_some() {
        request.settings.implicit_budget = ImplicitBudgetSetting(None);
        // What asks nodelife to spare a pod asks no other.
        request.settings.pod_rule = vec![PodRule {
            selector: LabelSelector::default(),
            behavior: Behavior::Evict,
        }];
    }
    let mut answers = Vec::with_capacity(nodes.len());
    for node in nodes {
        let name = node.metadata.name.clone();
        let pods = on_node.remove(&*name).unwrap_or_default();
        let fates: Vec<(&Pod, Fate)> = pods
            .iter()
            .map(|pod| (*pod, view.fate(pod, by, now)))
            .collect();
        let evicted = fates
            .iter()
            .filter(|(_, fate)| matches!(fate, Fate::Evicts | Fate::Needs(_)));
        let evicted: Vec<Pod> = evicted.map(|(pod, _)| (*pod).clone()).collect();
        view.turn_to(node, evicted);
        let plan = request.plan_in(&view, Some(&context), now);
        answers.push(match by {
            Some(by) => NodeAnswer::by(name, &plan, by, &fates),
            None => NodeAnswer::new(name, &plan),
        });
    }
    answers
}

impl ClusterView {
    /// What a drain by this program does with the pod; nodelife's own plan decides that itself.
    fn fate(&self, pod: &Pod, by: Option<&DrainBy>, now: Timestamp) -> Fate {
        let Some(by) = by else {
            return Fate::Evicts;
        };
        let owner = pod.metadata.controller();
        let controller = owner.map_or(Presence::Unknown, |owner| {
            self.store.workloads.presence(owner)
        });
        let guarded = !self.store.budgets.matching(pod).is_empty();
        by.fate(pod, controller, guarded, now)
    }
}
