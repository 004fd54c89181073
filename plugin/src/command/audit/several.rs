//! `audit --context a,b`: several clusters side by side.

use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use nodelife_audit::clusters::{AuditReportList, ClusterResult, Profile, differences};
use nodelife_audit::{AuditReport, Rule, Skipped};
use nodelife_cluster::write_whole;
use nodelife_core::format::count;
use nodelife_core::text::Str;

use super::audit_run::{AuditRun, by_severity, describe_input, wanted};
use crate::cli::{AuditArgs, ClusterArgs};
use crate::command::contexts::Contexts;
use crate::command::input;
use crate::exit::{ExitStatus, UsageError};
use crate::output::Printer;
use crate::report::{ClusterTables, ClustersReport, Part, Report, unchecked};
use nodelife_audit::config::AuditFormat;

/// The part of a cluster's audit that outlives its snapshot.
struct ClusterAudit {
    report: AuditReport,
    profile: Profile,
    narrow: Vec<Part>,
    wide: Vec<Part>,
    warnings: Vec<String>,
    /// Why it says nothing of the nodes.
    failure: Option<anyhow::Error>,
}

/// # Errors
///
/// A flag or a format that has a meaning for one cluster alone.
pub(super) fn check(args: &AuditArgs) -> Result<(), UsageError> {
    let of_one = |what: &str, instead: &str| {
        let message = format!("{what} is for one cluster; with several contexts, {instead}");
        Err(UsageError(message))
    };
    if !args.node.nodes.is_empty() {
        return of_one("a node's name", "select nodes with -l");
    }
    if args.watch.is_some() {
        return of_one("--watch", "run one command for each context");
    }
    if args.baseline.is_some() {
        return of_one("--baseline", "run one command for each context");
    }
    let unfit = args
        .outputs
        .iter()
        .find(|output| !is_for_several(output.format));
    match unfit {
        Some(output) => of_one(
            &format!("-o {output}"),
            "use table, wide, csv, json, yaml or jsonpath",
        ),
        None => Ok(()),
    }
}

fn is_for_several(format: AuditFormat) -> bool {
    matches!(
        format,
        AuditFormat::Table
            | AuditFormat::Wide
            | AuditFormat::Csv
            | AuditFormat::Json
            | AuditFormat::Yaml
    )
}

pub(super) async fn run(
    run: AuditRun,
    contexts: Contexts,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let run = Arc::new(run);
    let audits = contexts.each(printer, |cluster| {
        let run = Arc::clone(&run);
        async move { run.audit_beside_others(&cluster).await }
    });
    let audits = audits.await?;
    let mut status = ExitStatus::Done;
    let (mut clusters, mut tables, mut profiles) = (Vec::new(), Vec::new(), Vec::new());
    for (context, audit) in audits {
        let failed = || format!("context {context}");
        let (report, failure) = match audit {
            Err(error) => (None, Some(error)),
            Ok(audit) => {
                for warning in &audit.warnings {
                    printer.warn(format_args!("{context}: {warning}"));
                }
                profiles.push((context.clone(), audit.profile));
                tables.push(ClusterTables {
                    context: context.clone(),
                    narrow: audit.narrow,
                    wide: audit.wide,
                });
                (Some(audit.report), audit.failure)
            }
        };
        let error = failure.as_ref().map(|error| format!("{error:#}"));
        if let Some(failure) = failure {
            status = ExitStatus::Failed;
            printer.error(&failure.context(failed()));
        }
        clusters.push(ClusterResult {
            context,
            report,
            error,
        });
    }
    let now = Timestamp::now();
    let differences = differences(&profiles, &run.selection, now);
    let list = AuditReportList::new(clusters, differences, run.selection.severity);
    run.report_all(&list, &tables, printer)?;
    run.config.warn_ended(now, printer);
    summarise(&list, printer);
    let fail_on = run.args.fail_on.unwrap_or_default();
    let found = list.worst().is_some_and(|worst| fail_on.includes(worst));
    Ok(status.and(ExitStatus::of_findings(found)))
}

impl AuditRun {
    async fn audit_beside_others(&self, cluster: &ClusterArgs) -> anyhow::Result<ClusterAudit> {
        let mut rules = self.rules();
        rules.extend(self.comparing());
        let wanted = wanted(&self.args, &rules);
        let (snapshot, warnings) = input::read_beside_others(&wanted, cluster).await?;
        let report = self.judge(&snapshot, describe_input(&self.args, cluster));
        let tables = |format: AuditFormat| {
            let mut outputs = self.args.outputs.iter();
            let is_wanted = outputs.any(|output| output.format == format);
            let report = Report {
                audit: &report,
                snapshot: &snapshot,
                rules: &[],
                args: &self.args,
                format,
                command: "",
            };
            if is_wanted {
                report.tables()
            } else {
                Vec::new()
            }
        };
        let is_compared_alone = self.rules().is_empty();
        Ok(ClusterAudit {
            profile: Profile::of(&snapshot),
            narrow: tables(AuditFormat::Table),
            wide: tables(AuditFormat::Wide),
            warnings,
            failure: self
                .has_judged(&snapshot, &report)
                .err()
                .filter(|_| !is_compared_alone),
            report,
        })
    }

    /// The rules that compare clusters.
    fn comparing(&self) -> impl Iterator<Item = &'static Rule> {
        let rules = nodelife_audit::BETWEEN_CLUSTERS.rules.iter();
        rules.filter(|rule| self.selection.wants(rule.id))
    }

    fn report_all(
        &self,
        list: &AuditReportList,
        tables: &[ClusterTables],
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        let report = ClustersReport {
            list,
            tables,
            args: &self.args,
        };
        for output in &self.args.outputs {
            let format = output.format;
            match (&output.template, &output.file) {
                (Some(template), _) => printer.template(template, &report.document())?,
                (None, None) => report.print(format, printer)?,
                (None, Some(path)) => write_whole(path, |file| report.write(format, file))
                    .with_context(|| format!("failed to write {}", path.display()))?,
            }
        }
        Ok(())
    }
}

/// Prints the notes on stderr: the rules that were not checked, and the totals.
fn summarise(list: &AuditReportList, printer: &mut Printer) {
    let reports: Vec<(&Str, &AuditReport)> = list
        .clusters
        .iter()
        .filter_map(|cluster| Some((&cluster.context, cluster.report.as_ref()?)))
        .collect();
    let is_everywhere = |skipped: &Skipped| {
        let mut reports = reports.iter();
        reports.all(|(_, report)| report.skipped.contains(skipped))
    };
    let mut everywhere: Vec<Skipped> = Vec::new();
    for (place, (context, report)) in reports.iter().enumerate() {
        let skipped = report.skipped.iter().cloned();
        let (common, own): (Vec<_>, Vec<_>) = skipped.partition(|skipped| is_everywhere(skipped));
        unchecked::note_of(context, &own, printer);
        if place == 0 {
            everywhere = common;
        }
    }
    unchecked::note(&everywhere, printer);
    let summary = list.summary;
    if summary.hidden > 0 {
        let hidden = count(summary.hidden, "finding");
        printer.note(format_args!("{hidden} below --severity not shown"));
    }
    let suppressed: usize = reports
        .iter()
        .map(|(_, report)| report.summary.suppressed)
        .sum();
    if suppressed > 0 {
        let suppressed = count(suppressed, "finding");
        printer.note(format_args!(
            "{suppressed} suppressed by annotations of their objects, by --skip-rule-on or by the \
             configuration"
        ));
    }
    let findings = summary.errors + summary.warnings + summary.infos;
    let place = format!(
        "on {} of {}",
        count(summary.nodes, "node"),
        count(summary.clusters - summary.failed, "cluster")
    );
    if findings == 0 && summary.failed == 0 {
        printer.success("no findings", place);
    } else if !reports.is_empty() {
        printer.note(format_args!(
            "{} {place}: {}",
            count(findings, "finding"),
            by_severity(summary.errors, summary.warnings, summary.infos)
        ));
    }
    if summary.failed > 0 {
        let clusters = count(summary.clusters, "cluster");
        printer.note(format_args!("{} of {clusters} not audited", summary.failed));
    }
}
