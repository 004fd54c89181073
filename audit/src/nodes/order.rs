//! Order and groups of the nodes.

use std::cmp::{Ordering, Reverse};
use std::fmt;

use super::report::NodeRow;
use crate::pool_of;
use nodelife_core::natural;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_core::zone::ZoneKey;

/// The order of the nodes; equal ones are in the natural order of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum SortBy {
    /// By name: node-2 before node-10.
    #[default]
    Name,
    /// CPU requests in percent of Allocatable, the fullest first.
    Cpu,
    /// Memory requests in percent of Allocatable, the fullest first.
    Memory,
    /// Pods in percent of those allowed, the fullest first.
    Pods,
    /// The oldest first.
    Age,
    /// By region and zone.
    Zone,
    /// By pool.
    Pool,
    /// The worst finding first.
    Finding,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    Zone,
    Pool,
    Label(Str),
}

impl GroupBy {
    pub fn group_of(&self, node: &Node) -> Option<Str> {
        let labels = &node.metadata.labels;
        match self {
            Self::Zone => {
                let zone = ZoneKey::of(labels);
                (!zone.is_empty()).then(|| Str::from(zone.to_string()))
            }
            Self::Pool => pool_of(labels).map(Str::from),
            Self::Label(key) => labels.get(key).cloned(),
        }
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zone => "zone",
            Self::Pool => "pool",
            Self::Label(key) => key,
        })
    }
}

pub(super) fn sort(rows: &mut [NodeRow], by: SortBy) {
    rows.sort_by(|a, b| {
        let first = match by {
            SortBy::Name => Ordering::Equal,
            SortBy::Cpu => fullest(a.cpu.requests_percent, b.cpu.requests_percent),
            SortBy::Memory => fullest(a.memory.requests_percent, b.memory.requests_percent),
            SortBy::Pods => fullest(a.pods.percent(), b.pods.percent()),
            SortBy::Age => {
                let age = |row: &NodeRow| (row.created_at.is_none(), row.created_at);
                age(a).cmp(&age(b))
            }
            SortBy::Zone => {
                let zone = |row: &NodeRow| (!row.zone.is_empty()).then(|| row.zone.to_string());
                by_name_or_last(zone(a).as_deref(), zone(b).as_deref())
            }
            SortBy::Pool => {
                let pool = |row: &NodeRow| Some(row.pool.clone()).filter(|pool| !pool.is_empty());
                by_name_or_last(pool(a).as_deref(), pool(b).as_deref())
            }
            SortBy::Finding => {
                let worst = |row: &NodeRow| {
                    let finding = row.finding.as_ref();
                    finding.map(|finding| (finding.severity, Reverse(finding.rule.clone())))
                };
                worst(b).cmp(&worst(a))
            }
        };
        first.then_with(|| natural::compare(&a.name, &b.name))
    });
}

/// Unknown values come last.
fn fullest(a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |percent: Option<f64>| percent.unwrap_or(f64::NEG_INFINITY);
    known(b).total_cmp(&known(a))
}

/// Natural order; what has no name comes last.
pub(super) fn by_name_or_last(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => natural::compare(a, b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}
