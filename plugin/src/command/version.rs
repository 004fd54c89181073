use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;

/// `0.1.0 (commit 0123456789ab)`
pub(crate) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("NODELIFE_COMMIT"),
    ")"
);

/// Prints the version of nodelife.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # As text, as JSON
  kubectl nodelife version
  kubectl nodelife version -o json
")]
pub(crate) struct VersionArgs {
    /// Format
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) output: VersionFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum VersionFormat {
    /// One line
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    client_version: Build,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    version: &'static str,
    git_commit: &'static str,
    platform: String,
}

pub(crate) fn run(args: &VersionArgs, printer: &mut Printer) -> Exit {
    let document = Version {
        client_version: Build {
            version: env!("CARGO_PKG_VERSION"),
            git_commit: env!("NODELIFE_COMMIT"),
            platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        },
    };
    match args.output {
        VersionFormat::Text => writeln!(printer.data(), "kubectl-nodelife {VERSION}")?,
        VersionFormat::Json => printer.json(&document)?,
        VersionFormat::Yaml => printer.yaml(&document)?,
    }
    Ok(ExitStatus::Done)
}
