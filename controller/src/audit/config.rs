//! The configuration file of the audit, as `kubectl nodelife audit --config` takes it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nodelife_audit::Selection;
use nodelife_audit::config::AuditConfig;
use nodelife_core::format::parse_error;

/// The selection of the file; everything without one. Its outputs and its exit status do not concern
/// the controller.
pub(crate) fn selection(file: Option<&Path>) -> anyhow::Result<Selection> {
    let Some(path) = file else {
        return Ok(Selection::default());
    };
    let place = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {place}"))?;
    let config: AuditConfig = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow::anyhow!("{place}: {}", parse_error(&error.to_string())))?;
    let excludes = config.excludes(&place);
    let selection = Selection {
        excludes: excludes.map_err(|error| anyhow::anyhow!("{place}: {error}"))?,
        severities: config.severities(),
        severity: config.severity.unwrap_or_default(),
        ..Selection::default()
    };
    for removed in nodelife_audit::removed_in(&selection) {
        tracing::warn!("{place}: {removed}");
    }
    Ok(selection)
}
