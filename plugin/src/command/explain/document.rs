//! Documents of `explain`, as JSON or YAML.

use crate::cli::ExplainFormat;
use crate::output::{Document, Printer};

/// Prints a document as JSON or YAML; says `false` where a table is wanted instead.
pub(super) fn print_document<T: serde::Serialize>(
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
