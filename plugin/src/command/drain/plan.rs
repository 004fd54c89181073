//! Prints the plan of `--dry-run`, as a table or JSON.

use std::collections::BTreeMap;

use nodelife_core::drain::{Action, DrainPlan, Estimate, PlannedPod};
use nodelife_core::format::{self, count};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use super::together;
use crate::cli::drain::{DrainArgs, DrainFormat, OnImpossible, OnRefused};
use crate::drain::{ClusterView, Refusals};
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table};

/// Says which pods are in the way, and leaves their nodes out of the drain and its plan: all nodes
/// if none would be left, or with `--on-refused=all`.
pub(super) fn refuse(
    args: &DrainArgs,
    plan: DrainPlan,
    view: &mut ClusterView,
    replan: impl FnOnce(&ClusterView) -> DrainPlan,
    printer: &mut Printer,
) -> (DrainPlan, Refusals) {
    let mut status = ExitStatus::Done;
    let mut reasons: BTreeMap<Str, Vec<String>> = BTreeMap::new();
    let mut told = Vec::new();
    for (action, with) in [
        (Action::Refuse, ExitStatus::Refused),
        (Action::Impossible, ExitStatus::Impossible),
    ] {
        for pod in plan.with(action) {
            let (namespace, name, reason) = (&pod.namespace, &pod.name, &pod.reason);
            told.push((
                format!("{namespace}/{name} on {}", pod.node),
                reason.as_str(),
            ));
            if action == Action::Refuse || args.on_impossible == OnImpossible::Refuse {
                status = status.and(with);
                let reasons = reasons.entry(pod.node.clone()).or_default();
                reasons.push(format!("{namespace}/{name}: {reason}"));
            }
        }
    }
    for sentence in together::sentences(told) {
        printer.note(sentence);
    }
    if reasons.is_empty() {
        return (plan, Refusals::default());
    }
    let (refused, rest): (Vec<Str>, Vec<Str>) = plan
        .nodes
        .iter()
        .cloned()
        .partition(|node| reasons.contains_key(node));
    let all = rest.is_empty() || args.on_refused == OnRefused::All;
    printer.note(if all {
        let nodes = first_nodes(&plan.nodes);
        format!("refused to drain {nodes}: nothing was changed")
    } else {
        format!("refused to drain {}: left as it is", first_nodes(&refused))
    });
    let reasons = reasons.into_iter();
    let refusals = Refusals {
        status,
        all,
        nodes: reasons
            .map(|(node, reasons)| (node, reasons.join("; ")))
            .collect(),
    };
    if all {
        return (plan, refusals);
    }
    view.exclude(&refused);
    let rest = replan(view);
    (plan.refuse(&refused, rest), refusals)
}

/// Prints the plan; one that is `refused` says nothing of what it would do.
pub(in crate::command) fn print(
    plan: &DrainPlan,
    format: Option<DrainFormat>,
    refused: bool,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    if let Some(format) = format {
        return printer.drain_document(plan, format);
    }
    let pods = plan.pods.iter();
    warn(pods, printer);
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
    for why in together::first(plan.no_estimate.clone()) {
        printer.note(format_args!("no estimate: {why}"));
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
    let mut table = Table::new(
        columns
            .into_iter()
            .filter(|name| several || *name != "NODE"),
    );
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

/// Says what the user should know of the pods that go: those of `quarantined` nodes stay.
pub(super) fn warn_leaving(plan: &DrainPlan, quarantined: &[Node], printer: &mut Printer) {
    let stays = |pod: &PlannedPod| {
        let mut nodes = quarantined.iter();
        nodes.any(|node| node.metadata.name == pod.node)
    };
    for warning in &plan.warnings {
        printer.warn(warning);
    }
    let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    warn(leaving.filter(|pod| !stays(pod)), printer);
}

/// Says what the user should know of pods before they go.
fn warn<'a>(pods: impl Iterator<Item = &'a PlannedPod>, printer: &mut Printer) {
    let warnings = pods.flat_map(|pod| {
        let warnings = pod.warnings.iter().chain(&pod.unschedulable);
        warnings.map(move |warning| (format!("{}/{}", pod.namespace, pod.name), warning.as_str()))
    });
    for warning in together::sentences(warnings) {
        printer.warn(warning);
    }
}

/// Names of nodes, the first ones of many.
fn first_nodes(nodes: &[Str]) -> String {
    const SHOWN: usize = 10;
    format::first(SHOWN, nodes.iter().map(Str::as_str))
}

/// How long it will take, and how that is known.
fn print_estimate(estimate: &Estimate, printer: &mut Printer) {
    let (min, max) = (estimate.min_seconds, estimate.max_seconds);
    if min.rounded() == max.rounded() {
        printer.note(format_args!("estimated: about {min} s"));
    } else {
        printer.note(format_args!(
            "estimated: {min} s (pods stop at once) to {max} s (full grace period)"
        ));
    }
    for basis in together::first(estimate.basis.clone()) {
        printer.note(format_args!("  {basis}"));
    }
}
