//! `version`

use std::io::Write as _;

use serde::Serialize;

use crate::cli::{VERSION, VersionArgs, VersionFormat};
use crate::exit::ExitStatus;
use crate::output::Printer;

/// The document of `version -o json`.
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

pub(crate) fn run(args: &VersionArgs, printer: &mut Printer) -> anyhow::Result<ExitStatus> {
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
