//! `explain allocatable`

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use nodelife_core::allocatable::provider::{Machine, Provider};
use nodelife_core::allocatable::{self, Allocatable, Amounts, DEFAULT_MAX_PODS, Line};
use nodelife_core::object::Node;
use nodelife_core::quantity::{Format, Quantity};
use nodelife_core::rule::Selection;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use serde::Serialize;

use super::{configuration, print_document};
use crate::cli::{AllocatableArgs, ClusterArgs};
use crate::command::input;
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table, style};

/// The document: what could be computed, and what could not.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    items: Vec<Allocatable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unexplained: Vec<Unexplained>,
}

/// A node whose configuration is not known: what is held back shows, but not what for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Unexplained {
    node: Str,
    reason: String,
    held_back: BTreeMap<Str, Quantity>,
    #[serde(skip)]
    lines: Vec<(Str, Quantity, Quantity, Quantity)>,
    #[serde(skip)]
    formula: Option<String>,
}

/// Runs `explain allocatable`.
///
/// # Errors
///
/// A file or cluster that cannot be read; a node that is not there; those of stdout.
pub(super) async fn run(
    args: AllocatableArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let report = match &args.capacity {
        Some(capacity) => Report {
            items: vec![of_machine(&args, capacity.0.clone())?],
            unexplained: Vec::new(),
        },
        None => of_nodes(&args, cluster, printer).await?,
    };
    if !print_document("AllocatableReport", &report, args.output, printer)? {
        print(&report, printer)?;
    }
    Ok(if report.items.iter().all(|item| item.accepted) {
        ExitStatus::Done
    } else {
        ExitStatus::Findings
    })
}

/// A machine that is described on the command line.
fn of_machine(args: &AllocatableArgs, mut capacity: Amounts) -> anyhow::Result<Allocatable> {
    let stated = |name: &str| capacity.get(name).and_then(|amount| amount.value());
    let pods = args.max_pods.or_else(|| stated("pods"));
    let mut configuration = match args.provider {
        Some(provider) => {
            let milli = capacity.get("cpu").and_then(|cpu| cpu.milli_value());
            let machine = Machine {
                cpu: milli.unwrap_or_default(),
                memory: stated("memory").unwrap_or_default(),
                pods: pods.unwrap_or(DEFAULT_MAX_PODS),
            };
            let mut of_provider = configuration::of_provider(provider, machine)?;
            configuration::set_flags(&mut of_provider, &args.eviction)?;
            of_provider
        }
        None => match configuration::of_files(&args.kubelet, &args.eviction)? {
            Some(of_files) => of_files,
            None => configuration::of_defaults()?,
        },
    };
    if pods.is_some() {
        configuration.max_pods = pods;
    }
    let cores = stated("cpu").unwrap_or_default();
    let limit = Quantity::new(configuration.pod_limit(cores), Format::DecimalSi);
    capacity.insert("pods".into(), limit);
    Ok(allocatable::compute(&capacity, &configuration))
}

async fn of_nodes(
    args: &AllocatableArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<Report> {
    let from_files = configuration::of_files(&args.kubelet, &args.eviction)?;
    let mut sources = BTreeSet::from([Source::Nodes]);
    if args.kubelet.configz {
        sources.insert(Source::KubeletConfigs);
    }
    let snapshot = input::read(&args.input, &sources, cluster, printer).await?;
    let selection = Selection {
        nodes: input::node_names(&args.nodes),
        selector: args.selector.clone(),
        ..Selection::default()
    };
    input::check_nodes(&snapshot, &selection.nodes, &args.input)?;
    let mut nodes: Vec<&Node> = snapshot
        .nodes
        .iter()
        .filter(|node| selection.wants_node(node))
        .collect();
    nodes.sort_by_key(|node| &node.metadata.name);
    let mut report = Report {
        items: Vec::new(),
        unexplained: Vec::new(),
    };
    for node in nodes {
        let own = snapshot.kubelet_configs.get(&node.metadata.name);
        match from_files.as_ref().or(own) {
            Some(known) => report.items.push(allocatable::of_node(node, known)),
            None => report.unexplained.push(unexplained(node, &snapshot)),
        }
    }
    Ok(report)
}

fn unexplained(node: &Node, snapshot: &Snapshot) -> Unexplained {
    let allocatable = allocatable::amounts(&node.status.allocatable);
    let capacity = allocatable::amounts(&node.status.capacity);
    let lines: Vec<_> = capacity
        .into_iter()
        .filter_map(|(name, capacity)| {
            let published = *allocatable.get(&name)?;
            let mut held_back = capacity;
            held_back -= published;
            Some((name, capacity, held_back, published))
        })
        .collect();
    let why = snapshot.why_missing(Source::KubeletConfigs);
    Unexplained {
        node: node.metadata.name.clone(),
        reason: format!(
            "the kubelet's configuration is not at hand: {}",
            why.unwrap_or("it is not among those that were read")
        ),
        held_back: lines.iter().map(|l| (l.0.clone(), l.2)).collect(),
        formula: Provider::of(node)
            .map(|provider| format!("{provider} reserves by formula: {}", provider.describe())),
        lines,
    }
}

fn print(report: &Report, printer: &mut Printer) -> anyhow::Result<()> {
    let mut first = true;
    for item in &report.items {
        if !std::mem::take(&mut first) {
            writeln!(printer.data())?;
        }
        print_item(item, printer)?;
    }
    for item in &report.unexplained {
        if !std::mem::take(&mut first) {
            writeln!(printer.data())?;
        }
        print_unexplained(item, printer)?;
    }
    Ok(())
}

fn print_item(item: &Allocatable, printer: &mut Printer) -> anyhow::Result<()> {
    if !item.node.is_empty() {
        writeln!(printer.data(), "node/{}\n", item.node)?;
    }
    let published = item.resources.values().any(|line| line.published.is_some());
    let mut header = vec![
        "RESOURCE",
        "CAPACITY",
        "− KUBE",
        "− SYSTEM",
        "− EVICTION",
        "− HUGEPAGES",
        "= ALLOCATABLE",
    ];
    if published {
        header.push("PUBLISHED");
    }
    let mut table = Table::new(header);
    for (name, line) in &item.resources {
        table.row(row(name, line, published));
    }
    printer.table(&table)?;
    if let Some(limit) = item.kubepods_memory_limit {
        writeln!(printer.data())?;
        printer.paragraph(format_args!(
            "Memory limit of all pods together (cgroup kubepods): {limit}"
        ))?;
    }
    let bad = style::ERROR;
    for refusal in &item.refusals {
        writeln!(
            printer.data(),
            "{bad}The kubelet refuses to start:{bad:#} {refusal}"
        )?;
    }
    Ok(())
}

fn row(name: &str, line: &Line, published: bool) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![
        name.into(),
        line.capacity.to_string().into(),
        line.kube_reserved.to_string().into(),
        line.system_reserved.to_string().into(),
        line.eviction_hard.to_string().into(),
        line.hugepages.to_string().into(),
        line.allocatable.to_string().into(),
    ];
    if published {
        cells.push(match line.published {
            None => Cell::styled("absent", style::WARNING),
            Some(said) if said.nano() == line.allocatable.nano() => {
                Cell::styled(format!("{said} (equal)"), style::GOOD)
            }
            Some(said) => Cell::styled(format!("{said} (differs)"), style::ERROR),
        });
    }
    cells
}

fn print_unexplained(item: &Unexplained, printer: &mut Printer) -> anyhow::Result<()> {
    writeln!(printer.data(), "node/{}\n", item.node)?;
    let mut table = Table::new(["RESOURCE", "CAPACITY", "− HELD BACK", "= PUBLISHED"]);
    for (name, capacity, held_back, published) in &item.lines {
        let amounts = [capacity, held_back, published].map(|amount| amount.to_string().into());
        table.row(std::iter::once(name.as_str().into()).chain(amounts));
    }
    printer.table(&table)?;
    writeln!(printer.data())?;
    printer.paragraph(format_args!("What for is not known: {}.", item.reason))?;
    if let Some(formula) = &item.formula {
        printer.paragraph(format_args!("{formula}."))?;
    }
    Ok(())
}
