use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use nodelife_cluster::snapshot;
use nodelife_core::format::count;
use nodelife_core::snapshot::Source;

use super::input::{self, Wanted};
use crate::cli::{ClusterArgs, ConfigzArgs, InputArgs};
use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;

/// Saves what audit, explain and drain plans need to a file.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Save the state of the cluster, and audit it later or elsewhere
  kubectl nodelife snapshot -o snapshot.json.gz
  kubectl nodelife audit -f snapshot.json.gz
")]
pub(crate) struct SnapshotArgs {
    /// File to write, gzipped if it ends in .gz; `-` is stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) configz: ConfigzArgs,
    /// Test whether NodeRestriction is on, as an impersonated node and in dry runs
    #[arg(long)]
    pub(crate) probe: bool,
    /// Replace all names, keys and texts with pseudonyms, but for words that Kubernetes and known
    /// programs define; numbers, times, versions and relations stay
    #[arg(long)]
    pub(crate) redact: bool,
}

pub(crate) async fn run(args: SnapshotArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let mut sources = input::lists();
    if args.probe {
        sources.insert(Source::NodeRestriction);
    }
    let wanted = Wanted::new(sources, args.configz);
    let snapshot = input::read(&InputArgs::default(), &wanted, cluster, printer).await?;
    let mut written = snapshot.clone();
    if args.redact {
        snapshot::redact(&mut written)?;
    }
    let is_stdout = args.output == Path::new("-");
    if is_stdout {
        snapshot::write_to(&written, printer.data())?;
    } else {
        snapshot::write(&written, &args.output)?;
    }
    for (source, reason) in &snapshot.missing {
        if wanted.sources.contains(source) {
            printer.warn(format_args!("{} not read: {reason}", source.noun()));
        }
    }
    if !is_stdout {
        printer.note(format_args!(
            "wrote {} and {} to {}",
            count(snapshot.nodes.len(), "node"),
            count(snapshot.pods.len(), "pod"),
            args.output.display()
        ));
    }
    let is_whole = snapshot.unread(&wanted.sources).is_empty();
    // The file is there all the same.
    Ok(ExitStatus::of_reading(is_whole))
}
