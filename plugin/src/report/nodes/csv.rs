//! The report on nodes as CSV: plain numbers, and no bars.

use nodelife_audit::nodes::{NodeRow, Usage};
use nodelife_core::quantity::Quantity;

use super::super::csv::{Csv, field};

pub(super) const NODES: Csv<NodeRow> = Csv {
    header: "name,state,cordoned,maintenance,version,created,region,zone,pool,group,\
             cpuAllocatable,cpuRequests,cpuLimits,memoryAllocatable,memoryRequests,memoryLimits,\
             podsAllocatable,pods,severity,rule,findings,message",
    fields,
};

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
            finding.severity.as_str().to_owned(),
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
