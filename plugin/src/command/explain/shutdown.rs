//! `explain shutdown`

use std::collections::BTreeSet;
use std::io::Write as _;

use nodelife_core::audit::Selection;
use nodelife_core::object::Node;
use nodelife_core::shutdown::{self, NodeShutdown, ShutdownReport};
use nodelife_core::snapshot::Source;

use super::configuration;
use super::document::print_document;
use crate::cli::{ClusterArgs, EvictionArgs, ShutdownArgs};
use crate::command::input;
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table, style};

/// Runs `explain shutdown`.
///
/// # Errors
///
/// A file or cluster that cannot be read; a node that is not there or whose
/// configuration is not known; those of stdout.
pub(super) async fn run(
    args: ShutdownArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let from_files = configuration::of_files(&args.kubelet, &EvictionArgs::default())?;
    let mut sources = BTreeSet::from([Source::Nodes, Source::Pods]);
    if args.kubelet.configz {
        sources.insert(Source::KubeletConfigs);
    }
    let snapshot = input::read(&args.input, &sources, cluster, printer).await?;
    if let Some(reason) = snapshot.why_missing(Source::Pods) {
        anyhow::bail!("cannot predict what happens to the pods: pods not read: {reason}");
    }
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
    let mut report = ShutdownReport::default();
    let mut unknown = Vec::new();
    for node in nodes {
        let name = &node.metadata.name;
        let own = snapshot.kubelet_configs.get(name);
        let Some(known) = from_files.as_ref().or(own) else {
            unknown.push(name.as_str());
            continue;
        };
        let on_it = |pod: &&_| pod_is_on(pod, name);
        let pods = snapshot.pods.iter().filter(on_it);
        report.items.push(shutdown::of_node(node, known, pods));
    }
    if report.items.is_empty() && !unknown.is_empty() {
        anyhow::bail!(
            "cannot predict a shutdown: no kubelet configuration was read; use --configz or \
             --kubelet-config FILE"
        );
    }
    if !print_document("ShutdownReport", &report, args.output, printer)? {
        print(&report, printer)?;
    }
    if !unknown.is_empty() {
        printer.warn(format_args!(
            "not shown, because their kubelet configuration is unknown: {}",
            unknown.join(", ")
        ));
    }
    Ok(ExitStatus::Done)
}

fn pod_is_on(pod: &nodelife_core::object::Pod, node: &str) -> bool {
    pod.spec.node_name == *node && !pod.is_terminal()
}

fn print(report: &ShutdownReport, printer: &mut Printer) -> anyhow::Result<()> {
    for (i, item) in report.items.iter().enumerate() {
        if i > 0 {
            writeln!(printer.data())?;
        }
        print_item(item, printer)?;
    }
    Ok(())
}

fn print_item(item: &NodeShutdown, printer: &mut Printer) -> anyhow::Result<()> {
    if !item.graceful {
        return Ok(printer.paragraph(format_args!(
            "node/{}: no graceful shutdown is configured: all pods are killed at once",
            item.node
        ))?);
    }
    printer.paragraph(format_args!(
        "node/{}: the kubelet delays the shutdown by {}s (InhibitDelayMaxSec of systemd-logind \
         must allow it); its pods stop within {}s, and the rest of each group's time is for \
         unmounting volumes",
        item.node, item.requested_seconds, item.max_seconds
    ))?;
    writeln!(printer.data())?;
    let mut table = Table::new(["PRIORITY", "GRACE", "POD", "WANTS", "CUT BY"]);
    for group in &item.groups {
        let (priority, grace) = (group.group.priority, group.group.seconds);
        let head = || {
            [
                format!("from {priority}").into(),
                format!("{grace}s").into(),
            ]
        };
        if group.pods.is_empty() {
            table.row(
                head()
                    .into_iter()
                    .chain(["-".into(), "-".into(), "-".into()]),
            );
        }
        for pod in &group.pods {
            let cut = match pod.short_by_seconds {
                0 => Cell::styled("not cut", style::GOOD),
                seconds => Cell::styled(format!("{seconds}s"), style::WARNING),
            };
            let name = format!("pod/{}/{}", pod.namespace, pod.name);
            let wants = format!("{}s", pod.grace_period_seconds);
            table.row(head().into_iter().chain([name.into(), wants.into(), cut]));
        }
    }
    Ok(printer.table(&table)?)
}
