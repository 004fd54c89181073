//! `audit`

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use nodelife_audit::kubelet_start::Target;
use nodelife_audit::{Input, Rule, Selection, Severity, Tool};
use nodelife_cluster::write_whole;
use nodelife_core::disruption::AT_PRESENT_SCALE;
use nodelife_core::format::{count, join, list};
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

use crate::cli::{AuditArgs, AuditOutput, ClusterArgs};
use crate::command::config::ConfigFile;
use crate::command::input::{self, Wanted};
use crate::command::{kubelet_files, rules};
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::Printer;
use crate::report::{AuditReport, Baseline, Report, command_line, unchecked};
use nodelife_audit::config::{AuditFormat, FailOn};

pub(crate) async fn run(mut args: AuditArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let config = ConfigFile::find(&args.config, printer)?;
    config.fill(&mut args);
    check_outputs(&args.outputs)?;
    if cluster.namespace.is_some() {
        let message = "audit has no use of -n (--namespace): it audits nodes, with the pods and \
                       budgets of all namespaces; name nodes, or select them with -l";
        return Err(UsageError(message.to_owned()).into());
    }
    let selection = selection(&args, &config)?;
    for removed in nodelife_audit::removed_in(&selection) {
        printer.warn(removed);
    }
    let run = AuditRun {
        selection,
        baseline: baseline(&args)?,
        input: describe_input(&args, cluster),
        args,
        config,
    };
    match run.args.watch {
        None => run.once(cluster, printer).await,
        Some(interval) => run.watch(interval, cluster, printer).await,
    }
}

struct AuditRun {
    args: AuditArgs,
    config: ConfigFile,
    selection: Selection,
    baseline: Baseline,
    input: Input,
}

impl AuditRun {
    async fn once(&self, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
        let (snapshot, audit) = self.audit(cluster, printer).await?;
        self.report(&snapshot, &audit, cluster, printer)?;
        let status = self.status(&audit);
        // The report is on stdout all the same, but an audit of nothing is an error, not a pass.
        let Err(unknown) = self.has_judged(&snapshot, &audit) else {
            return Ok(status);
        };
        Ok(status.and(ExitStatus::of_error(&unknown, printer)))
    }

    fn status(&self, audit: &AuditReport) -> ExitStatus {
        let fail_on = self.args.fail_on.unwrap_or_default();
        ExitStatus::of_findings(audit.worst().is_some_and(|worst| fail_on.includes(worst)))
    }

    /// Fails if no node was judged, or by no rule: then the state of the nodes is not known.
    fn has_judged(&self, snapshot: &Snapshot, audit: &AuditReport) -> anyhow::Result<()> {
        if audit.summary.nodes > 0 || snapshot.is_declared() {
            let skipped = audit.skipped.first();
            if let Some(skipped) = skipped.filter(|_| audit.summary.checked == 0) {
                anyhow::bail!("no rule was checked: {}: {}", skipped.rule, skipped.reason)
            }
            return self.has_read(snapshot);
        }
        if let Some(reason) = snapshot.missing.get(&Source::Nodes) {
            anyhow::bail!("no node was audited: {reason}");
        }
        if !snapshot.nodes.is_empty() {
            let all = count(snapshot.nodes.len(), "node");
            anyhow::bail!("no node was audited: none of {all} matches --selector");
        }
        let place = if self.args.input.files.is_empty() {
            "the cluster has no nodes"
        } else {
            "the files of -f have no nodes"
        };
        anyhow::bail!("no node was audited: {place}")
    }

    /// Fails if the API server did not give some kinds of objects: without findings about them, the
    /// cluster is not known to be without faults.
    fn has_read(&self, snapshot: &Snapshot) -> anyhow::Result<()> {
        let is_live = self.args.input.files.is_empty();
        if !is_live || self.args.fail_on == Some(FailOn::Never) {
            return Ok(());
        }
        let wanted = wanted(&self.args, &self.rules());
        // Without these each rule is checked all the same, at the present scale.
        let mut needed = wanted.sources;
        needed.remove(&Source::Autoscalers);
        let unread = snapshot.unread(&needed).into_iter().map(Source::noun);
        let unread = join(unread, ", ");
        if unread.is_empty() {
            return Ok(());
        }
        anyhow::bail!(
            "could not read {unread}: the rules that need them were not checked; if that is intended, \
             exclude these rules with --skip-rule, or use --fail-on never"
        )
    }

    /// Reports at first, and then whenever other rules fail on other objects than before.
    /// Lasts until it is interrupted or nobody reads it any more.
    async fn watch(
        &self,
        interval: Duration,
        cluster: &ClusterArgs,
        printer: &mut Printer,
    ) -> Exit {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut known = None;
        loop {
            ticks.tick().await;
            let (snapshot, audit) = match self.audit(cluster, printer).await {
                Ok(audited) => audited,
                // What was wrong at first is for the user; what goes wrong later may pass.
                Err(error) if known.is_none() => return Err(error),
                Err(error) => {
                    printer.warn(format_args!("{error:#}; retrying in {interval:?}"));
                    continue;
                }
            };
            let now = Baseline::of(&audit);
            if known.as_ref() != Some(&now) {
                self.report(&snapshot, &audit, cluster, printer)?;
                printer.flush()?;
                known = Some(now);
            }
            if printer.is_unread() {
                return Ok(self.status(&audit));
            }
        }
    }

    async fn audit(
        &self,
        cluster: &ClusterArgs,
        printer: &mut Printer,
    ) -> anyhow::Result<(Snapshot, AuditReport)> {
        let wanted = wanted(&self.args, &self.rules());
        let (kubelet_files, input) = kubelet_files::of_input(&self.args)?;
        let mut snapshot = if input.files.is_empty() && !kubelet_files.is_empty() {
            Snapshot::default()
        } else {
            input::read(&input, &wanted, cluster, printer).await?
        };
        snapshot.kubelet_files = kubelet_files;
        input::check_nodes(&snapshot, &self.selection.nodes, &self.args.input)?;
        let is_asked =
            self.args.input.files.is_empty() && wanted.sources.contains(&Source::Autoscalers);
        let why = snapshot.missing.get(&Source::Autoscalers);
        if let Some(why) = why.filter(|_| is_asked && !snapshot.budgets.is_empty()) {
            printer.note(format_args!("{AT_PRESENT_SCALE}: {why}"));
        }
        warn_unknown_label(&self.args, &snapshot, printer);
        let audit = self.judge(&snapshot);
        Ok((snapshot, audit))
    }

    fn judge(&self, snapshot: &Snapshot) -> AuditReport {
        let selection = &self.selection;
        let audit = nodelife_audit::audit(snapshot, selection, Timestamp::now());
        let nodes = snapshot.nodes.iter().filter(|n| selection.wants_node(n));
        let rules = self.rules();
        let fixed = self.baseline.fixed(&rules, selection, &audit, snapshot);
        let mut audit = AuditReport::new(snapshot, nodes.count(), audit, |finding| {
            self.baseline.knows(finding)
        });
        audit.summary.fixed = fixed.len();
        audit.fixed = fixed;
        audit.input = self.input.clone();
        audit.tool = Tool {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
        };
        audit
    }

    fn report(
        &self,
        snapshot: &Snapshot,
        audit: &AuditReport,
        cluster: &ClusterArgs,
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        let rules = self.rules();
        let command = command_line(std::env::args_os().map(|w| w.to_string_lossy().into_owned()));
        let report = |format| Report {
            audit,
            snapshot,
            rules: &rules,
            args: &self.args,
            format,
            command: &command,
        };
        for output in &self.args.outputs {
            let report = report(output.format);
            match (&output.template, &output.file) {
                (Some(template), _) => printer.template(template, &report.document())?,
                (None, None) => report.print(printer)?,
                (None, Some(path)) => write_whole(path, |file| report.write(file))?,
            }
        }
        let now = snapshot.taken_at.unwrap_or_else(Timestamp::now);
        self.config.warn_ended(now, printer);
        summarise(audit, snapshot, self.args.target, printer);
        let report = report(AuditFormat::Table);
        report.note_rules(printer);
        totals(audit, snapshot, printer);
        report.note_next(cluster, printer);
        Ok(())
    }

    fn rules(&self) -> Vec<&'static Rule> {
        let selection = &self.selection;
        let wanted = |rule: &&'static Rule| selection.wants(rule.id) && rule.can_check(selection);
        nodelife_audit::all().filter(wanted).collect()
    }
}

pub(super) fn check_outputs(outputs: &[AuditOutput]) -> Result<(), UsageError> {
    for (i, output) in outputs.iter().enumerate() {
        let mut earlier = outputs.iter().take(i);
        if !earlier.any(|other| other.file == output.file) {
            continue;
        }
        return Err(UsageError(match &output.file {
            Some(file) => format!(
                "two reports for {}: give each -o its own file",
                file.display()
            ),
            None => "two reports for stdout: give all but one of the -o a file, as in -o \
                     sarif=FILE"
                .to_owned(),
        }));
    }
    Ok(())
}

/// The sources of these rules and of the report. Only --configz asks the kubelets, but then always:
/// some rules check more with configurations that they do not need.
fn wanted(args: &AuditArgs, rules: &[&Rule]) -> Wanted {
    let sources = rules.iter().flat_map(|rule| rule.sources);
    let mut sources: BTreeSet<Source> = sources.copied().collect();
    sources.insert(Source::Nodes);
    if sources.contains(&Source::Budgets) {
        // By these NL-PDB-001 knows what a budget can allow; without them it goes by the status.
        sources.extend([Source::Pods, Source::Workloads, Source::Autoscalers]);
    }
    if args.outputs.iter().any(|o| o.format == AuditFormat::Html) {
        sources.insert(Source::Pods);
    }
    if !args.probe {
        sources.remove(&Source::NodeRestriction);
    }
    Wanted::new(sources, args.configz)
}

/// Tells of a label of --group-by that would make one group of all nodes.
fn warn_unknown_label(args: &AuditArgs, snapshot: &Snapshot, printer: &mut Printer) {
    let Some(label) = &args.group_by else { return };
    let mut nodes = snapshot.nodes.iter();
    if !nodes.any(|node| node.metadata.labels.contains_key(label.as_str())) {
        printer.warn(format_args!("no node has the label {label} (--group-by)"));
    }
}

/// The report's description of its input. The connection to the cluster reports errors.
fn describe_input(args: &AuditArgs, cluster: &ClusterArgs) -> Input {
    if !args.input.files.is_empty() {
        let files = args.input.files.iter();
        return Input {
            files: files
                .map(|file| file.to_string_lossy().as_ref().into())
                .collect(),
            ..Input::default()
        };
    }
    let identity = cluster.identity().unwrap_or_default();
    Input {
        context: identity.context.map(Str::from),
        cluster: identity.cluster.map(Str::from),
        server: identity.server.map(Str::from),
        files: Vec::new(),
    }
}

fn selection(args: &AuditArgs, config: &ConfigFile) -> anyhow::Result<Selection> {
    let mut rules = args.rules.clone();
    if args.target.is_some() && rules.is_empty() {
        rules.extend(nodelife_audit::UPGRADE.map(str::to_owned));
    }
    let selection = Selection {
        rules,
        skip: args.skip_rules.clone(),
        excludes: config.excludes.clone(),
        severities: config.severities.clone(),
        severity: args.severity.unwrap_or(Severity::Info),
        nodes: input::node_names(&args.node.nodes),
        selector: args.node.selector.clone(),
        target: args.target,
    };
    if let Some(unknown) = nodelife_audit::unknown(&selection).next() {
        return Err(rules::unknown(unknown, &[]).into());
    }
    check_rules(&selection)?;
    Ok(selection)
}

/// Fails if no rule is left: an audit of nothing must not look like a pass.
fn check_rules(selection: &Selection) -> Result<(), UsageError> {
    let wanted: Vec<&Rule> = nodelife_audit::all()
        .filter(|rule| selection.wants(rule.id))
        .collect();
    let mut named = selection.rules.iter();
    let is_removed = named.any(|name| nodelife_audit::removed(name).is_some());
    let can_check = wanted.iter().any(|rule| rule.can_check(selection));
    if can_check || wanted.is_empty() && is_removed {
        return Ok(());
    }
    let reason = match wanted.first() {
        Some(rule) => format!("{} is checked only with --target VERSION", rule.id),
        None => "--skip-rule excludes all rules that were asked for".to_owned(),
    };
    Err(UsageError(format!("no rule is left to check: {reason}")))
}

fn baseline(args: &AuditArgs) -> anyhow::Result<Baseline> {
    let Some(path) = &args.baseline else {
        return Ok(Baseline::default());
    };
    let failed = || format!("failed to read the baseline {}", path.display());
    let text = std::fs::read(path).with_context(failed)?;
    let baseline = Baseline::parse(&String::from_utf8_lossy(&text)).map_err(anyhow::Error::msg);
    baseline.with_context(failed)
}

fn summarise(
    audit: &AuditReport,
    snapshot: &Snapshot,
    target: Option<Target>,
    printer: &mut Printer,
) {
    let summary = audit.summary;
    let verb = if summary.fixed == 1 { "is" } else { "are" };
    let fixed = audit.fixed.iter();
    let fixed = fixed.map(|f| format!("{} {}", f.rule, f.subject.path()));
    let gone = format!("of the baseline {verb} gone: {}", list(fixed));
    for (number, what) in [
        (summary.hidden, "below --severity not shown"),
        (summary.known, "of the baseline omitted"),
        (summary.fixed, gone.as_str()),
        (
            summary.suppressed,
            "suppressed by annotations of their objects or by the configuration",
        ),
    ] {
        if number > 0 {
            printer.note(format_args!("{} {what}", count(number, "finding")));
        }
    }
    let has_nodes = !snapshot.is_declared();
    unchecked::note(&audit.skipped, target.is_some() && has_nodes, printer);
    if let Some(target) = target.filter(|_| has_nodes) {
        printer.note(format_args!(
            "an upgrade to {target} also needs budgets that let nodes drain (audit without \
             --target), and no objects of APIs that it removes (pluto and kubent find them)"
        ));
    }
    if has_nodes {
        input::note_clock(snapshot, printer);
    }
}

fn totals(audit: &AuditReport, snapshot: &Snapshot, printer: &mut Printer) {
    let summary = audit.summary;
    let (is_declared, checked) = (snapshot.is_declared(), count(summary.checked, "rule"));
    let on = if !snapshot.kubelet_files.is_empty() && is_declared {
        "in the kubelet configurations".to_owned()
    } else if is_declared {
        "in the manifests".to_owned()
    } else {
        format!("on {}", count(summary.nodes, "node"))
    };
    let findings = audit.findings.len() + summary.hidden;
    if findings == 0 && (summary.nodes == 0 && !is_declared || summary.checked == 0) {
        // No reason to be glad: the reason follows as an error.
    } else if findings == 0 {
        printer.success("no findings", format_args!("{on}, {checked} checked"));
    } else {
        printer.note(format_args!(
            "{} {on}, {checked} checked: {}, {}, {}",
            count(findings, "finding"),
            count(summary.errors, "error"),
            count(summary.warnings, "warning"),
            count(summary.infos, "note")
        ));
    }
}
