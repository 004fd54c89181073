//! `webhook replay`

use std::collections::BTreeMap;
use std::io::BufRead as _;

use anyhow::Context as _;
use nodelife_admission::{Objection, Patched, Replay, Replayed};
use serde::Serialize;

use super::engine;
use super::test::print_diff;
use crate::cli::ReplayArgs;
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table};

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Completed writes in the log.
    requests: u64,
    /// Requests that pass every rule.
    allowed: u64,
    /// Requests that a rule would deny.
    denied: u64,
    /// Requests of which the log records too little to decide.
    unknown: u64,
    /// Violations, equal ones counted once, by the time of the first.
    violations: Vec<Counted>,
    /// Objects that the webhook would patch, equal differences counted once.
    patched: Vec<CountedPatch>,
    /// What the log does not contain, and how often it was needed.
    missing: BTreeMap<String, u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CountedPatch {
    count: u64,
    first: String,
    last: String,
    /// Of the first object.
    namespace: String,
    name: String,
    diff: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    count: u64,
    first: String,
    last: String,
    user: String,
    operation: &'static str,
    resource: String,
    namespace: String,
    name: String,
    rule: &'static str,
    mode: &'static str,
    message: String,
}

pub(super) fn run(args: &ReplayArgs, printer: &mut Printer) -> anyhow::Result<ExitStatus> {
    let (policies, objects) = engine::read(&args.engine)?;
    let file = args.log.display();
    let mut input = engine::open(&args.log)?;
    let mut replay = Replay::new();
    let mut report = Report::default();
    let mut places: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let place = || format!("failed to read {file}: line {number}");
        if input.read_until(b'\n', &mut line).with_context(place)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let find = |lookup: &_| objects.as_ref().map(|objects| objects.answer(lookup));
        match replay.next(&line, &policies, find).with_context(place)? {
            Replayed::Skipped => continue,
            Replayed::Allowed => report.allowed += 1,
            Replayed::Patched(patched) => {
                report.allowed += 1;
                count_patch(*patched, &mut report.patched);
            }
            Replayed::Unknown(missing) => {
                report.unknown += 1;
                *report.missing.entry(missing).or_default() += 1;
            }
            Replayed::Refused(objection) => {
                report.denied += 1;
                count(*objection, &mut report.violations, &mut places);
            }
        }
        report.requests += 1;
    }
    if !printer.document("WebhookReplay", &report, &args.engine.output)? {
        print(&report, printer)?;
    }
    Ok(ExitStatus::of_findings(report.denied > 0))
}

fn count_patch(patched: Patched, known: &mut Vec<CountedPatch>) {
    let Patched {
        time,
        namespace,
        name,
        diff,
    } = patched;
    if let Some(known) = known.iter_mut().find(|known| known.diff == diff) {
        known.count += 1;
        known.last = time;
        return;
    }
    known.push(CountedPatch {
        count: 1,
        first: time.clone(),
        last: time,
        namespace,
        name,
        diff,
    });
}

fn count(
    objection: Objection,
    violations: &mut Vec<Counted>,
    places: &mut BTreeMap<(String, String, String), usize>,
) {
    let Objection {
        refusal,
        time,
        user,
        operation,
        resource,
        namespace,
        name,
    } = objection;
    let object = format!("{operation} {resource} {namespace}/{name}");
    let key = (user.clone(), object, refusal.message.clone());
    let known = places
        .get(&key)
        .and_then(|index| violations.get_mut(*index));
    if let Some(known) = known {
        known.count += 1;
        known.last = time;
        return;
    }
    places.insert(key, violations.len());
    violations.push(Counted {
        count: 1,
        first: time.clone(),
        last: time,
        user,
        operation,
        resource,
        namespace,
        name,
        rule: refusal.rule.as_str(),
        mode: refusal.mode.as_str(),
        message: refusal.message,
    });
}

fn print(report: &Report, printer: &mut Printer) -> anyhow::Result<()> {
    let mut table = Table::new([
        "COUNT",
        "RULE",
        "USER",
        "OPERATION",
        "RESOURCE",
        "NAME",
        "MESSAGE",
    ]);
    for one in &report.violations {
        let name = if one.namespace.is_empty() {
            one.name.clone()
        } else {
            format!("{}/{}", one.namespace, one.name)
        };
        table.row([
            Cell::from(one.count.to_string()),
            Cell::from(one.rule),
            Cell::from(one.user.as_str()),
            Cell::from(one.operation),
            Cell::from(one.resource.as_str()),
            Cell::from(name),
            Cell::from(one.message.as_str()),
        ]);
    }
    if !report.violations.is_empty() {
        printer.table(&table)?;
    }
    printer.note(format_args!(
        "{} writes: {} would be denied, {} pass, {} cannot be told",
        report.requests, report.denied, report.allowed, report.unknown
    ));
    for one in &report.patched {
        let title = format!(
            "{} patched, first {}/{}:",
            one.count, one.namespace, one.name
        );
        print_diff(&title, &one.diff, printer)?;
    }
    for (missing, count) in &report.missing {
        printer.note(format_args!("{count} times {missing}"));
    }
    Ok(())
}
