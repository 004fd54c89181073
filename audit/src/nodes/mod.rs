//! Report on the nodes: state, requests beside Allocatable and the worst finding of each, in groups
//! and in sum.
//!
//! It reads nodes and pods alone, and adds up what [`crate::Context`] adds up for the rules:
//! report and findings have the same figures.

mod order;
mod report;
mod usage;

use std::collections::HashMap;

use jiff::Timestamp;

pub use order::{GroupBy, SortBy};
pub use report::{Group, NodeRow, NodesReport, ReadyState, Totals, WorstFinding};
pub use usage::{PodCount, Usage};

use crate::maintenance::Maintenance;
use crate::{Context, Finding, NodeOf, Rule, Selection, allocatable, pool_of};
use nodelife_core::object::{LabelSelector, Node, Pod};
use nodelife_core::request::Amounts;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use nodelife_core::zone::ZoneKey;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Names of the nodes; empty: all.
    pub nodes: Vec<Str>,
    pub selector: Option<LabelSelector>,
    pub sort_by: SortBy,
    /// None: no groups.
    pub group_by: Option<GroupBy>,
}

pub const SOURCES: [Source; 2] = [Source::Nodes, Source::Pods];

/// Whether each of them is there in full.
const PARTS: [Source; 2] = [Source::AllNodes, Source::AllPods];

/// The rules that need nothing else. Their findings are the same live and from any file.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let is_read = |source: &Source| {
        SOURCES.contains(source) || PARTS.contains(source) || *source == Source::Clock
    };
    crate::without_target().filter(move |rule| rule.sources.iter().all(is_read))
}

#[must_use]
pub fn narrowed(mut snapshot: Snapshot) -> Snapshot {
    snapshot
        .missing
        .retain(|source, _| SOURCES.contains(source) || PARTS.contains(source));
    let others = Source::ALL.into_iter().filter(|source| {
        !SOURCES.contains(source) && !source.is_asked_for_apart() && *source != Source::Clock
    });
    let mut missing = std::mem::take(&mut snapshot.missing);
    missing.extend(others.map(|source| (source, Str::from("not requested"))));
    Snapshot {
        taken_at: snapshot.taken_at,
        clock: snapshot.clock,
        server_version: snapshot.server_version,
        missing,
        nodes: snapshot.nodes,
        pods: snapshot.pods,
        ..Snapshot::default()
    }
}

impl NodesReport {
    /// The report on a [`narrowed`] snapshot. Ages refer to its time, or to `now` if that is unknown.
    pub fn new(snapshot: &Snapshot, options: &Options, now: Timestamp) -> Self {
        let now = snapshot.taken_at.unwrap_or(now);
        let context = Context::new(snapshot, None, now);
        let selection = Selection {
            rules: rules().map(|rule| rule.id.to_owned()).collect(),
            nodes: options.nodes.clone(),
            selector: options.selector.clone(),
            ..Selection::default()
        };
        let audit = crate::check(&context, &selection);
        let mut findings = by_node(&audit.findings, &snapshot.pods);
        let pods_missing = snapshot.why_pods_missing().map(Str::from);
        let wanted = context.nodes().filter(|node| selection.wants_node(node));
        let mut nodes: Vec<NodeRow> = wanted
            .map(|node| {
                let group = options.group_by.as_ref().and_then(|by| by.group_of(node));
                NodeRow {
                    finding: findings.remove(node.metadata.name.as_str()),
                    group,
                    ..row(&context, node, pods_missing.is_none())
                }
            })
            .collect();
        order::sort(&mut nodes, options.sort_by);
        let groups = options.group_by.as_ref().map(|_| groups(&mut nodes));
        Self {
            taken_at: snapshot.taken_at,
            clock: snapshot.clock,
            server_version: snapshot.server_version.clone(),
            group_by: options.group_by.as_ref().map(ToString::to_string),
            total: Totals::of(&nodes),
            nodes,
            groups: groups.unwrap_or_default(),
            checked: audit.checked,
            skipped: audit.skipped,
            pods_missing,
        }
    }
}

fn row(context: &Context<'_>, node: &Node, pods_read: bool) -> NodeRow {
    let name = node.metadata.name.as_str();
    let usage = |resource: &str| {
        let sum = |sums: Option<&Amounts>| {
            let sum = sums.and_then(|sums| sums.get(resource)).copied();
            pods_read.then(|| sum.unwrap_or_default())
        };
        Usage::new(
            allocatable(node, resource),
            sum(context.requests_on(name)),
            sum(context.limits_on(name)),
        )
    };
    let limit = allocatable(node, "pods").and_then(nodelife_core::quantity::Quantity::value);
    NodeRow {
        name: node.metadata.name.clone(),
        state: ReadyState::of(node),
        cordoned: node.spec.unschedulable,
        maintenance: Maintenance::of(node),
        version: node.status.node_info.kubelet_version.clone(),
        created_at: node.metadata.creation_timestamp,
        zone: ZoneKey::of(&node.metadata.labels),
        pool: pool_of(&node.metadata.labels).unwrap_or_default().into(),
        group: None,
        cpu: usage("cpu"),
        memory: usage("memory"),
        pods: PodCount {
            allocatable: limit,
            count: pods_read.then(|| context.active_pods_on(name).count()),
        },
        finding: None,
    }
}

/// Parts the sorted nodes: those of a group stand together, in their order.
fn groups(nodes: &mut [NodeRow]) -> Vec<Group> {
    nodes.sort_by(|a, b| order::by_name_or_last(a.group.as_deref(), b.group.as_deref()));
    let parts = nodes.chunk_by(|a, b| a.group == b.group);
    parts
        .map(|part| Group {
            name: part.first().and_then(|row| row.group.clone()),
            totals: Totals::of(part),
        })
        .collect()
}

fn by_node(findings: &[Finding], pods: &[Pod]) -> HashMap<String, WorstFinding> {
    let nodes = NodeOf::new(findings, pods);
    let mut worst: HashMap<String, WorstFinding> = HashMap::new();
    for finding in findings {
        if let Some(node) = nodes.get(&finding.subject) {
            // The worst one comes first.
            let known = worst.entry(node.to_owned());
            let known = known.or_insert_with(|| WorstFinding::from(finding));
            known.findings += 1;
        }
    }
    worst
}

#[cfg(test)]
mod tests;
