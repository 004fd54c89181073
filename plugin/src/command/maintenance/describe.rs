use jiff::Timestamp;
use nodelife_core::format;
use nodelife_core::node_maintenance::{Approval, NodeMaintenance, NodeState, condition};

use crate::output::{Cell, Printer, Table};

/// Prints what the object says.
pub(super) fn describe(
    one: &NodeMaintenance,
    now: Timestamp,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let status = &one.status;
    let since = |at: Option<Timestamp>| {
        at.map(|at| {
            let ago = format::duration(now.duration_since(at).as_secs());
            format!("{at:.0} ({ago} ago)")
        })
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
        (
            "Window",
            status
                .condition(condition::PROGRESSING)
                .filter(|progressing| progressing.reason == "WaitsForWindow")
                .map(|progressing| progressing.message.to_string()),
        ),
        (
            "Not cordoned any more",
            status
                .condition(condition::CORDONED)
                .filter(|cordoned| cordoned.status == "False")
                .map(|cordoned| cordoned.message.to_string()),
        ),
        ("Unreadable for this version", super::unreadable(one)),
    ];
    if let Some(plan) = &status.plan {
        lines.push(("Plan", Some(plan.digest.to_string())));
        lines.push(("Pods to leave", Some(plan.pods.to_string())));
        if one.spec.approval == Approval::Required {
            let approved = one.spec.approved_plan.as_ref() == Some(&plan.digest);
            let text = if approved {
                "yes".to_owned()
            } else {
                format!(
                    "no; approve with: kubectl patch nodemaintenances.nodelife.dev {} --type merge -p \
                     '{{\"spec\":{{\"approvedPlan\":\"{}\"}}}}'",
                    one.metadata.name, plan.digest
                )
            };
            lines.push(("Approved", Some(text)));
        }
    }
    for (name, value) in lines {
        if let Some(value) = value {
            printer.paragraph(format_args!("{name}: {value}"))?;
        }
    }
    for warning in &status.warnings {
        printer.paragraph(format_args!("Warning: {warning}"))?;
    }
    workloads(one, printer)?;
    if !status.nodes.is_empty() {
        printer.paragraph("")?;
        let columns = ["NODE", "STATE", "EVICTED", "LEFT", "REASON"];
        let mut table = Table::new(columns);
        for node in &status.nodes {
            let pods = node.pods;
            let left = pods.pending + pods.blocked + pods.stuck + pods.impossible;
            table.row([
                Cell::from(node.name.to_string()),
                Cell::from(state(node.state).to_owned()),
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
    Ok(())
}

/// Prints the scope of an approval.
fn workloads(one: &NodeMaintenance, printer: &mut Printer) -> anyhow::Result<()> {
    let Some(plan) = one.status.plan.as_ref().filter(|p| !p.workloads.is_empty()) else {
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

/// The words of a drain for the state of a node.
pub(super) fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Waiting => "waiting for its turn",
        NodeState::Draining => "draining",
        NodeState::Settling => "empty, waiting",
        NodeState::Drained => "drained",
        NodeState::NotDrained => "not drained",
        NodeState::Refused => "refused",
    }
}
