//! CSV report on nodes (RFC 4180) with a header line: plain numbers, and no bars.

use std::io::{self, Write};

use nodelife_audit::nodes::{NodeRow, NodesReport, Usage};
use nodelife_core::quantity::Quantity;

use super::super::csv::field;
use super::super::text::word;

const HEADER: &str = "name,state,cordoned,maintenance,version,created,region,zone,pool,group,\
    cpuAllocatable,cpuRequests,cpuLimits,memoryAllocatable,memoryRequests,memoryLimits,\
    podsAllocatable,pods,severity,rule,findings,message";

pub(super) fn write(report: &NodesReport, out: &mut impl Write) -> io::Result<()> {
    write!(out, "{HEADER}\r\n")?;
    for row in &report.nodes {
        write!(out, "{}\r\n", fields(row).join(","))?;
    }
    Ok(())
}

/// The nodes of several clusters, each behind its context.
pub(super) fn write_with_contexts<'a>(
    rows: impl Iterator<Item = (&'a str, &'a NodeRow)>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "context,{HEADER}\r\n")?;
    for (context, row) in rows {
        write!(out, "{},{}\r\n", field(context), fields(row).join(","))?;
    }
    Ok(())
}

fn fields(row: &NodeRow) -> Vec<String> {
    let created = row.created_at.map(|time| time.to_string());
    let mut fields: Vec<String> = [
        &*row.name,
        row.state.word(),
        if row.cordoned { "true" } else { "false" },
        row.maintenance.map_or("", |maintenance| maintenance.word()),
        &row.version,
        created.as_deref().unwrap_or_default(),
        &row.zone.region,
        &row.zone.zone,
        &row.pool,
        row.group.as_deref().unwrap_or_default(),
    ]
    .into_iter()
    .map(field)
    .collect();
    fields.extend(amounts(&row.cpu));
    fields.extend(amounts(&row.memory));
    let number = |number: Option<String>| number.unwrap_or_default();
    fields.push(number(row.pods.allocatable.map(|limit| limit.to_string())));
    fields.push(number(row.pods.count.map(|count| count.to_string())));
    match &row.finding {
        Some(finding) => fields.extend([
            word(finding.severity).to_owned(),
            field(&finding.rule),
            finding.findings.to_string(),
            field(&finding.message),
        ]),
        None => fields.extend(["", "", "0", ""].map(str::to_owned)),
    }
    fields
}

/// Cores or bytes; empty where they are not known.
fn amounts(usage: &Usage) -> [String; 3] {
    let number = |amount: Option<Quantity>| {
        amount.map_or_else(String::new, |amount| amount.approximate().to_string())
    };
    [usage.allocatable, usage.requests, usage.limits].map(number)
}
