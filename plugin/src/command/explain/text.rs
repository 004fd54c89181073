//! `explain RULE` and `explain --list`: the texts of the rules.

use std::io::{self, Write};

use nodelife_audit::{Rule, SKIP_ANNOTATION};
use serde::Serialize;

use super::RuleFormat;
use crate::command::rules;
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::{Cell, Printer, Table, style};

pub(crate) const TOPICS: [&str; 4] = ["allocatable", "zones", "failure", "shutdown"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleText {
    id: &'static str,
    group: &'static str,
    severity: &'static str,
    title: &'static str,
    why: &'static str,
    confirm: &'static str,
    commands: Vec<&'static str>,
    fix: &'static str,
    link: &'static str,
    needs: Vec<&'static str>,
}

impl From<&Rule> for RuleText {
    fn from(rule: &Rule) -> Self {
        Self {
            id: rule.id,
            group: rule.group(),
            severity: rule.severity.as_str(),
            title: rule.title(),
            why: rule.why(),
            confirm: rule.confirm(),
            commands: rule.commands().collect(),
            fix: rule.fix(),
            link: rule.link(),
            needs: rule.sources.iter().map(|source| source.noun()).collect(),
        }
    }
}

pub(super) fn rule(id: &str, format: RuleFormat, no_headers: bool, printer: &mut Printer) -> Exit {
    let Some(rule) = nodelife_audit::find(id) else {
        if let Some(removed) = nodelife_audit::removed(id) {
            if format != RuleFormat::Text {
                return Err(UsageError(removed).into());
            }
            printer.paragraph(removed)?;
            return Ok(ExitStatus::Done);
        }
        let group = nodelife_audit::find_group(id).ok_or_else(|| rules::unknown(id, &TOPICS))?;
        return list(group.rules.iter(), format, no_headers, printer);
    };
    match format {
        RuleFormat::Text => write(rule, printer)?,
        RuleFormat::Name => writeln!(printer.data(), "{}", rule.id)?,
        RuleFormat::Json => printer.json(&RuleText::from(rule))?,
        RuleFormat::Yaml => printer.yaml(&RuleText::from(rule))?,
    }
    Ok(ExitStatus::Done)
}

fn write(rule: &Rule, printer: &mut Printer) -> io::Result<()> {
    let (severity, colour) = (rule.severity.as_str(), style::severity(rule.severity));
    writeln!(
        printer.data(),
        "{} ({colour}{severity}{colour:#}): {}\n",
        rule.id,
        rule.title()
    )?;
    let text = RuleText::from(rule);
    let mut table = Table::new([]).with_header(false);
    table.row(["why".into(), text.why.into()]);
    table.row(["confirm".into(), text.confirm.into()]);
    table.row(["fix".into(), text.fix.into()]);
    table.row(["reads".into(), text.needs.join(", ").into()]);
    table.row(["more".into(), text.link.into()]);
    let leave_out = format!(
        "--skip-rule {}, or on one workload or budget the annotation {SKIP_ANNOTATION}={}",
        rule.id, rule.id
    );
    table.row(["suppress".into(), leave_out.into()]);
    printer.table(&table)?;
    if !text.commands.is_empty() {
        writeln!(printer.data(), "\nTo confirm it:")?;
    }
    for command in text.commands {
        writeln!(printer.data(), "  {command}")?;
    }
    Ok(())
}

pub(super) fn list(
    rules: impl Iterator<Item = &'static Rule>,
    format: RuleFormat,
    no_headers: bool,
    printer: &mut Printer,
) -> Exit {
    match format {
        RuleFormat::Text => {
            let table = Table::new(["RULE", "SEVERITY", "TITLE"]);
            let mut table = table.with_header(!no_headers);
            for rule in rules {
                let severity = Cell::styled(rule.severity.as_str(), style::severity(rule.severity));
                table.row([rule.id.into(), severity, rule.title().into()]);
            }
            printer.table(&table)?;
        }
        RuleFormat::Name => {
            for rule in rules {
                writeln!(printer.data(), "{}", rule.id)?;
            }
        }
        RuleFormat::Json => printer.json(&documents(rules))?,
        RuleFormat::Yaml => printer.yaml(&documents(rules))?,
    }
    Ok(ExitStatus::Done)
}

fn documents(rules: impl Iterator<Item = &'static Rule>) -> Vec<RuleText> {
    rules.map(RuleText::from).collect()
}
