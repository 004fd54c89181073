//! `man`: manual pages, generated from the command line definition.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command, CommandFactory as _, ValueHint};
use clap_mangen::Man;

use crate::cli::{Cli, EXIT_STATUS};
use crate::exit::ExitStatus;

/// Writes the manual pages of all commands, for packagers.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  kubectl nodelife man ./man && man ./man/kubectl-nodelife-drain.1
")]
pub(crate) struct ManArgs {
    /// Directory for the pages; created if missing
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<ExitStatus> {
    fs::create_dir_all(&args.folder)
        .with_context(|| format!("failed to make {}", args.folder.display()))?;
    // Global flags belong to each page, and so do examples.
    let mut command = Cli::command();
    command.build();
    pages(&command, &args.folder)?;
    Ok(ExitStatus::Done)
}

/// The page of this command, `kubectl-nodelife-explain-zones.1`, and those below it.
fn pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        pages(below, folder)?;
    }
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let path = folder.join(format!("{name}.1"));
    let examples = command.get_before_help().map(ToString::to_string);
    // The build's version, not `commit …` of it, which belongs to no manual.
    let command = command.clone().version(env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    let man = Man::new(command);
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if let Some(examples) = examples {
        page.extend_from_slice(verbatim("EXAMPLES", &examples).as_bytes());
    }
    man.render_options_section(&mut page)?;
    man.render_subcommands_section(&mut page)?;
    page.extend_from_slice(verbatim("EXIT STATUS", EXIT_STATUS).as_bytes());
    man.render_version_section(&mut page)?;
    fs::write(&path, page).with_context(|| format!("failed to write {}", path.display()))
}

/// A section of lines as they stand, in roff.
fn verbatim(title: &str, text: &str) -> String {
    let mut section = format!(".SH \"{title}\"\n.nf\n");
    for line in text.lines().filter(|line| *line != "Examples:") {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        section.push_str("\\&");
        section.push_str(&line);
        section.push('\n');
    }
    section.push_str(".fi\n");
    section
}
