//! `explain shutdown`

use std::collections::BTreeSet;
use std::io::Write as _;

use nodelife_core::format;
use nodelife_core::shutdown::{self, NodeShutdown, ShutdownReport};
use nodelife_core::snapshot::Source;

use super::alike::alike;
use super::configuration;
use crate::cli::{ClusterArgs, EvictionArgs, ShutdownArgs};
use crate::command::input;
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table, style};

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
    if !printer.document("ShutdownReport", &report, args.output)? {
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

fn print(report: &ShutdownReport, printer: &mut Printer) -> anyhow::Result<()> {
    let items = report.items.iter().map(|item| {
        let mut same = item.clone();
        let node = std::mem::take(&mut same.node);
        (item, node, format!("{same:?}"))
    });
    for (i, (item, nodes)) in alike(items).into_iter().enumerate() {
        if i > 0 {
            writeln!(printer.data())?;
        }
        print_item(item, &nodes, printer)?;
    }
    Ok(())
}

fn print_item(item: &NodeShutdown, nodes: &str, printer: &mut Printer) -> anyhow::Result<()> {
    if !item.graceful {
        return Ok(printer.paragraph(format_args!(
            "{nodes}: no graceful shutdown is configured: all pods are killed at once"
        ))?);
    }
    printer.paragraph(format_args!(
        "{nodes}: the kubelet delays the shutdown by {}s (InhibitDelayMaxSec of systemd-logind \
         must allow it); its pods stop within {}s, and the rest of each group's time is for \
         unmounting volumes",
        item.requested_seconds, item.max_seconds
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
