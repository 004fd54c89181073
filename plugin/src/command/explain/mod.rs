//! `explain`

mod allocatable;
mod configuration;
mod failure;
mod shutdown;
mod text;
mod zones;

use crate::cli::{ClusterArgs, ExplainArgs, ExplainFormat, Topic};
use crate::exit::ExitStatus;
use crate::output::{Document, Printer};

/// Runs `explain`.
///
/// # Errors
///
/// An unknown rule; a file or cluster that cannot be read; those of stdout.
pub(crate) async fn run(
    args: ExplainArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    match (args.topic, &args.rule) {
        (Some(Topic::Allocatable(args)), _) => allocatable::run(args, cluster, printer).await,
        (Some(Topic::Zones(args)), _) => zones::run(args, cluster, printer).await,
        (Some(Topic::Failure(args)), _) => failure::run(args, cluster, printer).await,
        (Some(Topic::Shutdown(args)), _) => shutdown::run(args, cluster, printer).await,
        (None, Some(id)) => text::rule(id, args.output, printer),
        (None, None) => text::list(args.output, args.no_headers, printer),
    }
}

/// Prints a document as JSON or YAML; says `false` where a table is wanted instead.
fn print_document<T: serde::Serialize>(
    kind: &'static str,
    content: &T,
    format: ExplainFormat,
    printer: &mut Printer,
) -> anyhow::Result<bool> {
    let document = Document::new(kind, content);
    match format {
        ExplainFormat::Table => return Ok(false),
        ExplainFormat::Json => printer.json(&document)?,
        ExplainFormat::Yaml => printer.yaml(&document)?,
    }
    Ok(true)
}
