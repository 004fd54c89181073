//! `explain shutdown`

use std::cmp::Reverse;
use std::io::Write as _;

use clap::Args;
use nodelife_core::format::count;
use nodelife_core::shutdown::{
    GroupShutdown, NodeShutdown, PodShutdown, PriorityGroup, ShutdownReport,
};
use nodelife_core::snapshot::Source;
use nodelife_core::{format, shutdown};

use super::{alike, configuration};
use crate::cli::{
    ClusterArgs, ExplainFormat, InputArgs, KubeletArgs, NodeArgs, Output, OutputParser,
};
use crate::command::input::{self, Wanted};
use crate::exit::{Exit, ExitStatus};
use crate::output::{Cell, Printer, Table, style};

/// Shows which pods a graceful shutdown of a node would cut short.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # With the configuration of each kubelet
  kubectl nodelife explain shutdown --configz

  # With a configuration that is not rolled out yet
  kubectl nodelife explain shutdown worker-1 --kubelet-config kubelet.yaml
")]
pub(crate) struct ShutdownArgs {
    #[command(flatten)]
    pub(crate) node: NodeArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) kubelet: KubeletArgs,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}

pub(super) async fn run(args: ShutdownArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let from_files = configuration::of_files(&args.kubelet)?;
    let wanted = Wanted::new([Source::Nodes, Source::Pods], args.kubelet.configz);
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    input::need_nodes(&snapshot)?;
    if let Some(reason) = snapshot.why_missing(Source::Pods) {
        anyhow::bail!("cannot predict what happens to the pods: pods not read: {reason}");
    }
    input::warn_of_parts(&snapshot, printer);
    let nodes = input::select_nodes(&snapshot, &args.node, &args.input)?;
    let mut report = ShutdownReport::default();
    let mut unknown = Vec::new();
    for node in nodes {
        let name = &node.metadata.name;
        let own = snapshot.kubelet_configs.get(name);
        let Some(known) = from_files.as_ref().or(own) else {
            unknown.push(name.as_str());
            continue;
        };
        let pods = snapshot.pods.iter();
        let pods = pods.filter(|pod| pod.spec.node_name == *name && !pod.is_terminal());
        report.items.push(shutdown::of_node(node, known, pods));
    }
    if report.items.is_empty() && !unknown.is_empty() {
        anyhow::bail!(
            "cannot predict a shutdown: no kubelet configuration was read; use --configz or \
             --kubelet-config FILE"
        );
    }
    if !printer.document("ShutdownReport", &report, &args.output)? {
        print(&report, printer)?;
    }
    if !unknown.is_empty() {
        printer.warn(format_args!(
            "not shown, because their kubelet configuration is unknown: {}",
            format::list(unknown)
        ));
    }
    Ok(ExitStatus::Done)
}

/// More pods than these of several nodes are counted, and not listed.
const MANY: usize = 40;

fn print(report: &ShutdownReport, printer: &mut Printer) -> anyhow::Result<()> {
    let groups = report.items.iter().flat_map(|item| &item.groups);
    let number: usize = groups.map(|group| group.pods.len()).sum();
    let counted = report.items.len() > 1 && number > MANY;
    let items = report.items.iter().map(|item| {
        let mut same = item.clone();
        let node = std::mem::take(&mut same.node);
        if counted {
            // The nodes of a configuration are told together, whatever pods they have.
            same.max_seconds = 0;
            for group in &mut same.groups {
                group.max_seconds = 0;
                group.pods.clear();
            }
        }
        (item, node, format!("{same:?}"))
    });
    for (i, (items, nodes)) in alike(items).into_iter().enumerate() {
        let Some(first) = items.first() else { continue };
        if i > 0 {
            writeln!(printer.data())?;
        }
        if !first.graceful {
            printer.paragraph(format_args!(
                "{nodes}: no graceful shutdown is configured: all pods are killed at once"
            ))?;
            continue;
        }
        let seconds = items.iter().map(|item| item.max_seconds).max();
        printer.paragraph(format_args!(
            "{nodes}: the kubelet delays the shutdown by {}s (InhibitDelayMaxSec of \
             systemd-logind must allow it); its pods stop within {}s, and the rest of each \
             group's time is for unmounting volumes",
            first.requested_seconds,
            seconds.unwrap_or_default()
        ))?;
        writeln!(printer.data())?;
        let table = if counted { counts(&items) } else { pods(first) };
        printer.table(&table)?;
    }
    Ok(())
}

fn pods(item: &NodeShutdown) -> Table {
    let mut table = Table::new(["PRIORITY", "GRACE", "POD", "WANTS", "CUT BY"]);
    for group in &item.groups {
        if group.pods.is_empty() {
            table.row(head(group).into_iter().chain(no_pods()));
        }
        for pod in &group.pods {
            let name = format!("pod/{}/{}", pod.namespace, pod.name);
            let cells = [name.into(), wants(pod), cut(pod)];
            table.row(head(group).into_iter().chain(cells));
        }
    }
    table
}

/// A row for the pods of all nodes that are cut by the same time; those that are cut most first.
fn counts(items: &[&NodeShutdown]) -> Table {
    const NAMES: usize = 3;
    let mut table = Table::new(["PRIORITY", "GRACE", "PODS", "WANTS", "CUT BY"]);
    let groups = items.first().map(|item| item.groups.as_slice());
    for (i, group) in groups.unwrap_or_default().iter().enumerate() {
        let of_nodes = items.iter().filter_map(|item| item.groups.get(i));
        let mut pods: Vec<&PodShutdown> = of_nodes.flat_map(|group| &group.pods).collect();
        let kind = |pod: &PodShutdown| (Reverse(pod.short_by_seconds), pod.grace_period_seconds);
        pods.sort_by_key(|pod| kind(pod));
        if pods.is_empty() {
            table.row(head(group).into_iter().chain(no_pods()));
        }
        for same in pods.chunk_by(|a, b| kind(a) == kind(b)) {
            let Some(pod) = same.first() else { continue };
            let cells = [count(same.len(), "pod").into(), wants(pod), cut(pod)];
            table.row(head(group).into_iter().chain(cells));
            let names = same.iter();
            let names = names.map(|pod| format!("{}/{}", pod.namespace, pod.name));
            table.note(format::first(NAMES, names).into());
        }
    }
    table
}

fn head(group: &GroupShutdown) -> [Cell; 2] {
    let PriorityGroup { priority, seconds } = group.group;
    [
        format!("from {priority}").into(),
        format!("{seconds}s").into(),
    ]
}

fn no_pods() -> [Cell; 3] {
    ["-", "-", "-"].map(Cell::from)
}

fn wants(pod: &PodShutdown) -> Cell {
    format!("{}s", pod.grace_period_seconds).into()
}

fn cut(pod: &PodShutdown) -> Cell {
    match pod.short_by_seconds {
        0 => Cell::styled("not cut", style::GOOD),
        seconds => Cell::styled(format!("{seconds}s"), style::WARNING),
    }
}
