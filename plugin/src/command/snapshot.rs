//! `snapshot`

use std::path::Path;

use nodelife_cluster::snapshot;
use nodelife_core::format::count;
use nodelife_core::snapshot::{Snapshot, Source};

use super::input::{self, Wanted};
use crate::cli::{ClusterArgs, InputArgs, SnapshotArgs};
use crate::exit::ExitStatus;
use crate::output::Printer;

pub(crate) async fn run(
    args: SnapshotArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
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
    if args.output == Path::new("-") {
        snapshot::write_to(&written, printer.data())?;
    } else {
        snapshot::write(&written, &args.output)?;
    }
    print_summary(&snapshot, wanted.sources(), &args.output, printer);
    let is_whole = snapshot.unread(wanted.sources()).is_empty();
    // The file is there all the same.
    Ok(if is_whole {
        ExitStatus::Done
    } else {
        ExitStatus::Failed
    })
}

/// Says what is in the file, and what is not.
fn print_summary(
    snapshot: &Snapshot,
    sources: &std::collections::BTreeSet<Source>,
    path: &Path,
    printer: &mut Printer,
) {
    for (source, reason) in &snapshot.missing {
        if sources.contains(source) {
            printer.warn(format_args!("{} not read: {reason}", source.noun()));
        }
    }
    if path != Path::new("-") {
        printer.note(format_args!(
            "wrote {} and {} to {}",
            count(snapshot.nodes.len(), "node"),
            count(snapshot.pods.len(), "pod"),
            path.display()
        ));
    }
}
