//! `Page`: what the sections of the page show.

use std::collections::{BTreeMap, HashMap};

use nodelife_audit::{AuditReport, Finding, FindingGroup, NodeOf, NodePools, Rule, Severity};
use nodelife_core::snapshot::Snapshot;

use super::super::node_rows::{NodeRows, Row, State, domain};

/// A report, and what is computed of it once.
pub(crate) struct Page<'a> {
    pub(super) report: &'a AuditReport,
    pub(super) node_rows: &'a NodeRows<'a>,
    pub(super) rules: &'a [&'static Rule],
    pub(super) command: &'a str,
    pub(super) groups: Vec<FindingGroup<'a>>,
    /// The suffix of all names of nodes, if there are several; short names leave it out.
    pub(super) end: &'a str,
    /// The rules with findings on each node, the worst first.
    faults: HashMap<&'a str, Vec<(Severity, &'a str)>>,
}

/// Of more nodes than these, Ready ones without findings are only counted.
const EACH: usize = 1000;

impl<'a> Page<'a> {
    pub(crate) fn new(
        report: &'a AuditReport,
        snapshot: &'a Snapshot,
        node_rows: &'a NodeRows<'a>,
        rules: &'a [&'static Rule],
        command: &'a str,
    ) -> Self {
        let names = node_rows.rows.iter().map(|row| row.name);
        let several = node_rows.rows.len() > 1;
        Self {
            report,
            node_rows,
            rules,
            command,
            groups: NodePools::of(snapshot).group(&report.findings),
            end: if several { domain(names) } else { "" },
            faults: faults(report, snapshot),
        }
    }

    pub(super) fn title(&self) -> String {
        match self.report.input.name() {
            Some(name) => format!("Node audit of {name}"),
            None => "Node audit".to_owned(),
        }
    }

    pub(super) fn faults(&self, node: &str) -> &[(Severity, &'a str)] {
        self.faults.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, &Row<'a>)> {
        let all = self.node_rows.rows.len() <= EACH;
        let rows = self.node_rows.rows.iter().enumerate();
        rows.filter(move |(_, row)| {
            all || row.state != State::Ready || !self.faults(row.name).is_empty()
        })
    }

    /// A node's name without what all names end with.
    pub(super) fn short<'n>(&self, name: &'n str) -> &'n str {
        name.strip_suffix(self.end).unwrap_or(name)
    }
}

/// A node's faults are the findings about it, about its pods, and those that name it.
fn faults<'a>(
    report: &'a AuditReport,
    snapshot: &'a Snapshot,
) -> HashMap<&'a str, Vec<(Severity, &'a str)>> {
    let node_of = NodeOf::new(&report.findings, &snapshot.pods);
    let mut worst: BTreeMap<(&str, &str), Severity> = BTreeMap::new();
    for finding in &report.findings {
        let own = node_of.get(&finding.subject);
        for node in own.into_iter().chain(named(finding)) {
            let known = worst.entry((node, &finding.rule)).or_default();
            *known = (*known).max(finding.severity);
        }
    }
    let mut faults: HashMap<&str, Vec<(Severity, &str)>> = HashMap::new();
    for ((node, rule), severity) in worst {
        faults.entry(node).or_default().push((severity, rule));
    }
    for rules in faults.values_mut() {
        rules.sort_by_key(|(severity, _)| std::cmp::Reverse(*severity));
    }
    faults
}

fn named(finding: &Finding) -> impl Iterator<Item = &str> {
    let nodes = finding.evidence.get("nodes");
    let nodes = nodes.and_then(|nodes| nodes.value().as_array());
    nodes.into_iter().flatten().filter_map(|name| name.as_str())
}
