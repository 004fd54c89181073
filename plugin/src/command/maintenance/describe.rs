use std::io;

use jiff::Timestamp;
use nodelife_core::format;
use nodelife_core::node_maintenance::{LastRun, NodeMaintenance, NodeState, NodeStatus, condition};

use crate::cli::{ClusterArgs, InputArgs};
use crate::output::{Cell, Printer, Table};
use crate::report::input_flags;

/// A row, unless it has no value.
type Line = (&'static str, Option<String>);

pub(super) fn describe(
    one: &NodeMaintenance,
    now: Timestamp,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let status = &one.status;
    let since = |at: Option<Timestamp>| {
        at.map(|at| {
            let ago = format::duration(now.duration_since(at).as_secs());
            format!("{at:.0} ({ago} ago)")
        })
    };
    let said = |kind: &str, reason: &str| {
        let found = status.condition(kind).filter(|one| one.reason == *reason);
        found.map(|one| one.message.to_string())
    };
    let mut lines = vec![
        ("Name", Some(one.metadata.name.to_string())),
        ("State", Some(one.state().to_owned())),
        ("Nodes drained", Some(super::object::progress(one))),
        ("Created", since(one.metadata.creation_timestamp)),
        ("Started", since(status.started_at)),
        ("Finished", since(status.finished_at)),
        (
            "Exit status",
            status.exit_status.map(|code| code.to_string()),
        ),
        ("Blocked", status.blocked().map(|b| b.message.to_string())),
        ("Window", said(condition::PROGRESSING, "WaitsForWindow")),
        ("Last window", status.last_run.as_ref().map(last_window)),
        (
            "Not cordoned any more",
            said(condition::CORDONED, "Uncordoned"),
        ),
        ("Unreadable for this version", super::unreadable(one)),
    ];
    let plan = status.plan.as_ref();
    let plan = plan.filter(|_| one.spec.needs_approval());
    let open = plan.filter(|plan| one.spec.approved_plan.as_ref() != Some(&plan.digest));
    let approved = plan.map(|_| if open.is_some() { "no" } else { "yes" }.to_owned());
    lines.push(("Approved", approved));
    print(lines, printer)?;
    self::plan(one, printer)?;
    if !status.nodes.is_empty() {
        printer.paragraph("")?;
        let columns = ["NODE", "STATE", "EVICTED", "LEFT", "REASON"];
        let mut table = Table::new(columns);
        for node in &status.nodes {
            let pods = node.pods;
            let left = pods.pending + pods.blocked + pods.stuck + pods.impossible;
            table.row([
                Cell::from(node.name.to_string()),
                Cell::from(state(node).to_owned()),
                Cell::from(pods.evicted.to_string()),
                Cell::from(left.to_string()),
                Cell::from(super::object::why(node)),
            ]);
        }
        printer.table(&table)?;
    }
    if !status.pods.is_empty() {
        printer.paragraph("")?;
        let mut table = Table::new(["POD", "NODE", "REASON"]);
        for pod in &status.pods {
            table.row([
                Cell::from(format!("{}/{}", pod.namespace, pod.name)),
                Cell::from(pod.node.to_string()),
                Cell::from(pod.reason.to_string()),
            ]);
        }
        printer.table(&table)?;
        if status.more_pods > 0 {
            printer.note(format_args!(
                "{} more pods are not settled",
                status.more_pods
            ));
        }
    }
    let open = open.filter(|_| status.finished_at.is_none() && !one.is_deleted());
    if let (Some(plan), Some(flags)) = (open, input_flags(&InputArgs::default(), cluster)) {
        let (name, digest) = (&one.metadata.name, &plan.digest);
        let command = format!("kubectl nodelife maintenance approve {name} --digest {digest}");
        printer.note_whole(format_args!("next: {command}{flags}"));
    }
    Ok(())
}

fn last_window(run: &LastRun) -> String {
    let from = run.started_at.map(|at| format!("{at:.0} to "));
    let (from, end) = (from.unwrap_or_default(), run.finished_at);
    format!(
        "{from}{end:.0}, status {}: {}",
        run.exit_status, run.message
    )
}

fn print(lines: Vec<Line>, printer: &mut Printer) -> io::Result<()> {
    for (name, value) in lines {
        if let Some(value) = value {
            printer.paragraph(format_args!("{name}: {value}"))?;
        }
    }
    Ok(())
}

pub(super) fn plan(one: &NodeMaintenance, printer: &mut Printer) -> anyhow::Result<()> {
    const SHOWN: usize = 10;
    let plan = one.status.plan.as_ref();
    let nodes = plan.map(|plan| format::first(SHOWN, &plan.nodes));
    let lines = vec![
        ("Plan", plan.map(|plan| plan.digest.to_string())),
        ("Nodes to drain", nodes.filter(|nodes| !nodes.is_empty())),
        ("Pods to leave", plan.map(|plan| plan.pods.to_string())),
    ];
    print(lines, printer)?;
    for warning in &one.status.warnings {
        printer.paragraph(format_args!("Warning: {warning}"))?;
    }
    let failed = one.status.notified.iter();
    for one in failed.filter(|one| !one.error.is_empty()) {
        let (channel, event, error) = (&one.channel, &one.event, &one.error);
        printer.paragraph(format_args!(
            "Warning: {channel} was not told of {event}: {error}"
        ))?;
    }
    let Some(plan) = plan.filter(|plan| !plan.workloads.is_empty()) else {
        return Ok(());
    };
    printer.paragraph("")?;
    let mut table = Table::new(["WORKLOAD", "LOSES"]);
    for workload in &plan.workloads {
        let (name, losses) = workload.split_once(' ').unwrap_or((workload, "-"));
        let name = name.split('@').next().unwrap_or(name);
        table.row([Cell::from(name.to_owned()), Cell::from(losses.to_owned())]);
    }
    Ok(printer.table(&table)?)
}

pub(super) fn state(node: &NodeStatus) -> &'static str {
    match node.state {
        NodeState::Waiting if !node.message.is_empty() => "refused for now",
        NodeState::Waiting => "waiting for its turn",
        NodeState::Draining => "draining",
        NodeState::Settling => "empty, waiting",
        NodeState::Drained => "drained",
        NodeState::NotDrained => "not drained",
        NodeState::Refused => "refused",
    }
}
