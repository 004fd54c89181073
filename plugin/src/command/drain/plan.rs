//! Prints the plan of `--dry-run`, as a table or JSON, and reads the approved one of `--plan FILE`.

use std::fs;
use std::path::Path;

use nodelife_core::format;
use nodelife_core::format::count;
use nodelife_drain::{sentences, warn_of_pods};
use nodelife_drain_plan::{Action, DrainPlan, Estimate, PlanScope, SavedPlan};

use super::together;
use crate::cli::drain::DrainFormat;
use crate::exit::UsageError;
use crate::output::{Cell, Printer, Table};

/// Prints the plan; one that is `refused` says nothing of what it would do.
pub(crate) fn print(
    plan: &DrainPlan,
    format: Option<DrainFormat>,
    refused: bool,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if let Some(format) = format {
        return printer.drain_document(plan, format);
    }
    let pods = plan.pods.iter();
    warn_of_pods(pods, printer);
    printer.table(&table(plan))?;
    for warning in &plan.warnings {
        printer.warn(warning);
    }
    if refused {
        return Ok(());
    }
    let evicted = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    let waves = plan.waves.map_or_else(
        || " in an unknown number of waves".to_owned(),
        |waves| {
            let waves = usize::try_from(waves).unwrap_or(usize::MAX);
            format!(" in {}", count(waves, "wave"))
        },
    );
    let evicted = count(evicted.count(), "pod");
    printer.note(format_args!(
        "{evicted} would be evicted{waves}; nothing was changed"
    ));
    if let Some(estimate) = &plan.estimate {
        print_estimate(estimate, printer);
    }
    for why in sentences::first(plan.no_estimate.clone()) {
        printer.note(format_args!("no estimate: {why}"));
    }
    if !plan.nodes.is_empty() {
        printer.note(format_args!("digest of this plan: {}", plan.digest));
    }
    Ok(())
}

/// A row for each pod, or for those that read alike if there are many.
fn table(plan: &DrainPlan) -> Table {
    if together::is_large(plan) {
        return together::table(plan);
    }
    // The node goes without saying if there is one.
    let several = plan.nodes.len() > 1;
    let columns = ["WAVE", "ACTION", "NODE", "POD", "REASON"];
    let is_shown = |name: &&str| several || *name != "NODE";
    let mut table = Table::new(columns.into_iter().filter(is_shown));
    let mut pods: Vec<_> = plan.pods.iter().collect();
    // Those that are evicted first, in the order of their waves.
    pods.sort_by_key(|pod| {
        let goes = matches!(pod.action, Action::Evict | Action::Delete);
        (pod.wave.unwrap_or(u32::MAX), !goes)
    });
    for pod in pods {
        let wave = pod.wave.map_or_else(|| "-".to_owned(), |w| w.to_string());
        let node = several.then(|| Cell::from(pod.node.to_string()));
        let cells = [Cell::from(wave), Cell::from(pod.action.to_string())];
        table.row(cells.into_iter().chain(node).chain([
            Cell::from(format!("{}/{}", pod.namespace, pod.name)),
            Cell::from(pod.reason.clone()),
        ]));
    }
    table
}

fn print_estimate(estimate: &Estimate, printer: &mut Printer) {
    let (min, max) = (estimate.min_seconds, estimate.max_seconds);
    if min.rounded() == max.rounded() {
        printer.note(format_args!("estimated: about {min} s"));
    } else {
        printer.note(format_args!(
            "estimated: {min} s (pods stop at once) to {max} s (full grace period)"
        ));
    }
    for basis in sentences::first(estimate.basis.clone()) {
        printer.note(format_args!("  {basis}"));
    }
}

pub(super) fn read_approved(file: &Path) -> Result<PlanScope, UsageError> {
    let wrong = |why: &str| UsageError(format!("{}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let saved: SavedPlan = serde_saphyr::from_str(&text)
        .map_err(|error| wrong(&format::parse_error(&error.to_string())))?;
    saved.scope().map_err(|why| wrong(&why))
}

/// Says what this plan does beyond the approved one, in a line each; whether there is any of it.
pub(super) fn refuse_beyond(
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
