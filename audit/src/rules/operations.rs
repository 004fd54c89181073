//! OPS: unfinished operations, cordons and drift.

use serde_json::Value;
use std::collections::BTreeMap;

use crate::context::belongs_to_node;
use crate::pools::{self, most_common};
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use nodelife_core::snapshot::Source;
use nodelife_core::taint::{NO_SCHEDULE, UNSCHEDULABLE, find};

const HOUR: i64 = 3600;

pub(super) const RULES: &[Rule] = rules! {
    "NL-OPS-001" Warning [Nodes, Pods, AllPods] Node(forgotten),
    "NL-OPS-002" Warning [Nodes, AllPods] Node(drain_unfinished),
    "NL-OPS-004" Warning [Nodes, KubeletConfigs] All(config_drift),
};

/// Seconds since the node was cordoned, where it is and the taint says so.
fn cordoned_for(context: &Context<'_>, node: &Node) -> Option<i64> {
    let taint = find(node, UNSCHEDULABLE, NO_SCHEDULE).filter(|_| node.spec.unschedulable)?;
    taint.time_added.map(|then| context.seconds_since(then))
}

fn drain_unfinished<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let seconds = cordoned_for(context, node).filter(|seconds| *seconds > HOUR)?;
    let left = context.names_on(&node.metadata.name, |pod| !belongs_to_node(pod));
    let says = match (left.is_empty(), context.snapshot.has(Source::Pods)) {
        (false, _) => "cordoned for {secondsCordoned}, but {pods} still there: {names}",
        (true, false) => "cordoned for {secondsCordoned}; pods not read",
        (true, true) => return None,
    };
    Some(
        FindingBuilder::node(node, says)
            .with("secondsCordoned", Fact::seconds(seconds))
            .with("pods", Fact::count(left.len(), "workload pod"))
            .with("names", Fact::names(left)),
    )
}

fn forgotten<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    const DAY: i64 = 86_400;
    let seconds = cordoned_for(context, node).filter(|seconds| *seconds > DAY)?;
    let mut pods = context.active_pods_on(&node.metadata.name);
    if pods.any(|pod| !belongs_to_node(pod)) {
        return None;
    }
    let found = FindingBuilder::node(node, "cordoned for {secondsCordoned}, and empty")
        .with("secondsCordoned", Fact::seconds(seconds));
    Some(found.severity_if(seconds > 7 * DAY, Severity::Error))
}

fn fields(config: &KubeletConfiguration) -> BTreeMap<String, String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(config) else {
        return BTreeMap::new();
    };
    fields
        .into_iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect()
}

fn config_drift(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (pool, nodes) in pools::pools(context) {
        let all: Vec<_> = nodes
            .iter()
            .filter_map(|node| Some((*node, fields(context.config(&node.metadata.name)?))))
            .collect();
        let Some(usual) = most_common(all.iter().map(|(_, fields)| fields.clone())) else {
            continue;
        };
        for (node, own) in all {
            let odd: Vec<_> = own
                .iter()
                .filter(|(name, value)| usual.get(*name) != Some(value))
                .map(|(name, value)| {
                    let usual = usual.get(name).map_or("absent", String::as_str);
                    format!("{name}: {value}, not {usual}")
                })
                .collect();
            if !odd.is_empty() {
                let fields = Fact::from(odd.join("; ")).valued(odd);
                let found =
                    FindingBuilder::node(node, "differs from most nodes of {pool}: {fields}")
                        .with("pool", pool.to_string())
                        .with("fields", fields);
                findings.push(found);
            }
        }
    }
}
