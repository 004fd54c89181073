//! `config`, and the configuration file of an audit.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use nodelife_audit::config::{self, AuditConfig, FailOn};
use nodelife_audit::{Exclude, Selection, Severities};
use nodelife_core::format::{self, count};

use super::audit::check_outputs;
use crate::cli::{
    AuditArgs, AuditOutput, ConfigArgs, ConfigCommand, ConfigFileArgs, DEFAULT_CONFIG, format_name,
};
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::Printer;

pub(crate) fn run(args: &ConfigArgs, printer: &mut Printer) -> Exit {
    let ConfigCommand::Check { file: path } = &args.command;
    let read = fs::read_to_string(path);
    let text = read.map_err(|error| wrong(path, &error.to_string()))?;
    let file = ConfigFile::parse(path, &text)?;
    // The place that an audit reads by itself.
    if path == Path::new(DEFAULT_CONFIG) {
        file.check_places()?;
    }
    file.describe(printer)?;
    Ok(ExitStatus::Done)
}

/// The content of a configuration file; the default is that of no file.
#[derive(Debug, Default)]
pub(super) struct ConfigFile {
    path: PathBuf,
    pub(super) excludes: Vec<Exclude>,
    pub(super) severities: Severities,
    severity: Option<nodelife_audit::Severity>,
    fail_on: Option<FailOn>,
    outputs: Vec<AuditOutput>,
}

impl ConfigFile {
    /// Reads the file that the flags name, else the one of the current folder, if there is one.
    pub(super) fn find(args: &ConfigFileArgs, printer: &mut Printer) -> Result<Self, UsageError> {
        let path = match &args.config {
            Some(path) => path.as_path(),
            None if args.no_config => return Ok(Self::default()),
            None => Path::new(DEFAULT_CONFIG),
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if args.config.is_none() && error.kind() == ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(wrong(path, &error.to_string())),
        };
        let file = Self::parse(path, &text)?;
        if args.config.is_none() {
            file.check_places()?;
            printer.faint(file.summary());
        }
        Ok(file)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, UsageError> {
        let config: AuditConfig = serde_saphyr::from_str(text).map_err(|error| {
            let error = format::parse_error(&error.to_string());
            wrong(path, &in_words(&error))
        })?;
        let outputs: Vec<_> = config.outputs.iter().map(output).collect();
        check_outputs(&outputs).map_err(|error| wrong(path, &error.to_string()))?;
        let name = path.display().to_string();
        let excludes = config.excludes(&name);
        Ok(Self {
            path: path.to_owned(),
            excludes: excludes.map_err(|error| wrong(path, &error))?,
            severities: config.severities(),
            severity: config.severity,
            fail_on: config.fail_on,
            outputs,
        })
    }

    /// A file that was found, not named, must not make the audit write elsewhere: others may own it.
    fn check_places(&self) -> Result<(), UsageError> {
        let is_below = |path: &Path| {
            let mut components = path.components();
            components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        };
        let files = self.outputs.iter().filter_map(|o| o.file.as_deref());
        match files.into_iter().find(|path| !is_below(path)) {
            None => Ok(()),
            Some(path) => Err(wrong(
                &self.path,
                &format!(
                    "the output {} is outside of this folder; only a file that --config names may \
                     do that",
                    path.display()
                ),
            )),
        }
    }

    pub(super) fn fill(&self, args: &mut AuditArgs) {
        args.fail_on = args.fail_on.or(self.fail_on);
        args.severity = args.severity.or(self.severity);
        if args.outputs.is_empty() {
            args.outputs.clone_from(&self.outputs);
        }
        if args.outputs.is_empty() {
            args.outputs.push(AuditOutput::default());
        }
    }

    /// Warns of the excludes that no longer hold at the time of an audit.
    pub(super) fn warn_ended(&self, now: Timestamp, printer: &mut Printer) {
        for exclude in self.excludes.iter().filter(|one| !one.holds(now)) {
            let until = exclude.by.until.map(|date| date.to_string());
            printer.warn(format_args!(
                "{}: the exclude of {exclude} ended after {}: {}",
                self.path.display(),
                until.unwrap_or_default(),
                exclude.by.reason
            ));
        }
    }

    fn summary(&self) -> String {
        let mut parts = vec![count(self.excludes.len(), "exclude")];
        match self.severities.len() {
            0 => {}
            1 => parts.push("1 severity".to_owned()),
            many => parts.push(format!("{many} severities")),
        }
        if let Some(severity) = self.severity {
            parts.push(format!("--severity {}", severity.as_str()));
        }
        if let Some(fail_on) = self.fail_on {
            parts.push(format!("--fail-on {}", format_name(&fail_on)));
        }
        parts.extend(self.outputs.iter().map(|output| format!("-o {output}")));
        format!("{}: {}", self.path.display(), parts.join(", "))
    }

    fn describe(&self, printer: &mut Printer) -> anyhow::Result<()> {
        printer.paragraph(self.summary())?;
        let selection = Selection {
            excludes: self.excludes.clone(),
            severities: self.severities.clone(),
            ..Selection::default()
        };
        for removed in nodelife_audit::removed_in(&selection) {
            printer.warn(removed);
        }
        // The audit goes by the API server's time; a day is coarse enough for this machine's.
        self.warn_ended(Timestamp::now(), printer);
        Ok(())
    }
}

/// The parser's error, in the words of somebody who writes YAML.
fn in_words(error: &str) -> String {
    let own = error.split(", set DuplicateKeyPolicy").next();
    let own = own.unwrap_or(error);
    own.replace("expected sequence start", "expected a list")
        .replace("expected mapping start", "expected fields")
}

fn wrong(path: &Path, why: &str) -> UsageError {
    UsageError(format!("{}: {why}", path.display()))
}

fn output(output: &config::Output) -> AuditOutput {
    AuditOutput {
        template: None,
        format: output.format,
        file: output.file.as_ref().map(PathBuf::from),
    }
}
