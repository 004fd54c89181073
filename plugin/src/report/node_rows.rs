//! Capacity, Allocatable and requests of each node, for the reports.

use nodelife_audit::Context;
use nodelife_core::allocatable::{self, Allocatable, Line};
use nodelife_core::object::{Node, ResourceList};
use nodelife_core::quantity::Quantity;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::zone::{ZoneKey, ZoneReport};
use nodelife_core::{format, natural};

const RESOURCES: [(&str, Unit); 3] = [
    ("cpu", Unit::Cores),
    ("memory", Unit::Gibibytes),
    ("pods", Unit::Count),
];

const MACHINE_LABELS: [&str; 2] = [
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Cores,
    /// 2³⁰ bytes.
    Gibibytes,
    Count,
}

impl Unit {
    /// An amount in this unit, with the unit only where it is not plain.
    pub(super) fn show(self, amount: f64) -> String {
        match self {
            Self::Cores => format!("{amount:.2}"),
            Self::Gibibytes => {
                let gibibytes = amount / f64::from(1_u32 << 30);
                if gibibytes < 1024.0 {
                    format!("{gibibytes:.1}Gi")
                } else {
                    format!("{:.1}Ti", gibibytes / 1024.0)
                }
            }
            Self::Count => format!("{amount:.0}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Share {
    /// `cpu`, `memory` or `pods`.
    pub(super) resource: &'static str,
    pub(super) unit: Unit,
    pub(super) capacity: f64,
    pub(super) allocatable: f64,
    pub(super) requested: f64,
    /// The reserved amounts by purpose; empty where the kubelet's configuration is unknown, or does
    /// not give the Allocatable that the node publishes.
    pub(super) held: Vec<(Purpose, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Eviction,
    System,
    Kube,
    /// Huge pages, which are no other memory's.
    HugePages,
}

impl Purpose {
    /// All of them, in the order in which they are drawn.
    pub(super) const ALL: [Self; 4] = [Self::Eviction, Self::System, Self::Kube, Self::HugePages];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Eviction => "eviction threshold",
            Self::System => "system reserved",
            Self::Kube => "kube reserved",
            Self::HugePages => "huge pages",
        }
    }

    fn of(self, line: &Line) -> f64 {
        let amount = match self {
            Self::Eviction => line.eviction_hard,
            Self::System => line.system_reserved,
            Self::Kube => line.kube_reserved,
            Self::HugePages => line.hugepages,
        };
        amount.approximate().max(0.0)
    }
}

impl Share {
    /// Capacity that is held back for the system, the kubelet and the eviction threshold.
    pub(super) fn reserved(&self) -> f64 {
        (self.capacity - self.allocatable).max(0.0)
    }

    pub(super) fn free(&self) -> f64 {
        (self.allocatable - self.requested).max(0.0)
    }

    /// Requested of Allocatable, in percent; none where there is no Allocatable.
    pub(super) fn percent(&self) -> Option<f64> {
        (self.allocatable > 0.0).then(|| 100.0 * self.requested / self.allocatable)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Ready is `False`, `Unknown` or absent.
    NotReady,
    Cordoned,
    Ready,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::NotReady => "not ready",
            Self::Cordoned => "cordoned",
            Self::Ready => "ready",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    /// The pool by a provider's label; empty where there is none.
    pub(super) pool: &'a str,
    pub(super) version: &'a str,
    /// The type of its machine by its label; empty where there is none.
    pub(super) machine: &'a str,
    /// How long it is registered, in words; empty where that is not known.
    pub(super) age: String,
    pub(super) zone: ZoneKey,
    pub(super) state: State,
    pub(super) shares: Vec<Share>,
}

#[derive(Debug)]
pub(super) struct NodeRows<'a> {
    /// No node is left out.
    pub(super) rows: Vec<Row<'a>>,
    pub(super) zones: ZoneReport,
}

impl<'a> NodeRows<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, zones: ZoneReport) -> Self {
        // No age decides over what is requested.
        let context = Context::new(snapshot, None, snapshot.taken_at.unwrap_or_default());
        let mut rows: Vec<Row<'_>> = snapshot
            .nodes
            .iter()
            .map(|node| {
                let configuration = snapshot.kubelet_configs.get(&node.metadata.name);
                let computed = configuration.map(|known| allocatable::of_node(node, known));
                let mut row = row(node, &context, computed.as_ref());
                let created = node.metadata.creation_timestamp;
                if let (Some(now), Some(created)) = (snapshot.taken_at, created) {
                    row.age = format::duration(now.duration_since(created).as_secs());
                }
                row
            })
            .collect();
        rows.sort_by(|a, b| natural::compare(a.name, b.name));
        Self { rows, zones }
    }
}

fn row<'a>(node: &'a Node, context: &Context<'_>, computed: Option<&Allocatable>) -> Row<'a> {
    let name = &node.metadata.name;
    let requests = context.requests_on(name);
    let pods = context.active_pods_on(name).fold(0_u32, |sum, _| sum + 1);
    let status = &node.status;
    let shares = RESOURCES.into_iter().map(|(resource, unit)| {
        let requested = requests.and_then(|requests| requests.get(resource));
        let computed = computed.and_then(|computed| computed.resources.get(resource));
        Share {
            resource,
            unit,
            capacity: amount(&status.capacity, resource),
            allocatable: amount(&status.allocatable, resource),
            requested: match unit {
                Unit::Count => pods.into(),
                _ => requested.map_or(0.0, |sum| sum.approximate()),
            },
            held: computed.map(held).unwrap_or_default(),
        }
    });
    let labels = &node.metadata.labels;
    let machine = MACHINE_LABELS.iter().find_map(|label| labels.get(*label));
    Row {
        name: &node.metadata.name,
        pool: nodelife_audit::pool_of(labels).unwrap_or_default(),
        version: &node.status.node_info.kubelet_version,
        machine: machine.map_or("", |machine| machine.as_str()),
        age: String::new(),
        zone: ZoneKey::of(labels),
        state: match (node.is_ready(), node.spec.unschedulable) {
            (false, _) => State::NotReady,
            (true, true) => State::Cordoned,
            (true, false) => State::Ready,
        },
        shares: shares.collect(),
    }
}

/// The reservations by the arithmetic, where the node publishes its result.
fn held(line: &Line) -> Vec<(Purpose, f64)> {
    if line.published.map(Quantity::nano) != Some(line.allocatable.nano()) {
        return Vec::new();
    }
    let all = Purpose::ALL.map(|purpose| (purpose, purpose.of(line)));
    let held = all.into_iter().filter(|(_, amount)| *amount > 0.0);
    held.collect()
}

/// The amount of a resource; 0 where it is absent, invalid or negative.
fn amount(list: &ResourceList, resource: &str) -> f64 {
    list.get(resource)
        .and_then(|text| Quantity::parse(text).ok())
        .map_or(0.0, |quantity| quantity.approximate().max(0.0))
}

/// The domain that all names end with, with its leading dot; empty if there is none.
pub(super) fn domain<'a>(names: impl IntoIterator<Item = &'a str>) -> &'a str {
    let domain = |name: &'a str| name.find('.').and_then(|at| name.get(at..));
    let mut domains = names.into_iter().map(|name| domain(name).unwrap_or(""));
    let first = domains.next().unwrap_or("");
    if domains.all(|other| other == first) {
        first
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_of_all_names_goes_without_saying() {
        for (names, end) in [
            (vec!["a.eu.internal", "b.eu.internal"], ".eu.internal"),
            (vec!["a.eu.internal", "b.us.internal"], ""),
            (vec!["a.eu.internal", "b"], ""),
            (vec!["a", "b"], ""),
            (vec!["a.eu.internal"], ".eu.internal"),
            (vec![], ""),
        ] {
            assert_eq!(domain(names), end);
        }
    }
}
