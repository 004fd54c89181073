//! `drain --plan FILE`: the plan that may be carried out, and what the present one does beyond it.

use std::fs;
use std::path::Path;

use nodelife_core::format;
use nodelife_drain_plan::{DrainPlan, PlanScope, SavedPlan};

use crate::exit::UsageError;
use crate::output::Printer;

pub(super) fn read(file: &Path) -> Result<PlanScope, UsageError> {
    let wrong = |why: &str| UsageError(format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let saved: SavedPlan = serde_saphyr::from_str(&text)
        .map_err(|error| wrong(&format::parse_error(&error.to_string())))?;
    saved.scope().map_err(|why| wrong(&why))
}

/// Says what this plan does beyond the approved one, in a line each; whether there is any of it.
pub(super) fn refuse(
    plan: &DrainPlan,
    approved: &PlanScope,
    file: &Path,
    printer: &mut Printer,
) -> bool {
    let beyond = plan.scope().beyond(approved);
    for line in &beyond {
        printer.note(line);
    }
    if !beyond.is_empty() {
        printer.note(format_args!(
            "refused: the present plan does more than that of {}; nothing was changed",
            file.display()
        ));
    }
    !beyond.is_empty()
}
