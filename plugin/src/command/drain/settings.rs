//! From the flags of `drain` to the settings of a drain.

use std::sync::Arc;

use jiff::SignedDuration;
use nodelife_drain::{DrainSettings, Gate, NodeSelection};
use nodelife_drain_plan::Permissions;
use tokio::time::Instant;

use crate::cli::drain::{DrainArgs, DryRun};
use crate::command::input;
use crate::drain::ShellGate;
use crate::exit::UsageError;

/// The settings of these flags; `end`: when `--timeout` is over.
pub(super) fn settings(args: &DrainArgs, end: Option<Instant>) -> DrainSettings {
    DrainSettings {
        nodes: match &args.selector {
            Some(selector) => NodeSelection::Matching(selector.clone()),
            None => NodeSelection::named(input::node_names(&args.nodes)),
        },
        permissions: permissions(args),
        grace_period_seconds: u32::try_from(args.grace_period).ok(),
        dry_run: args.dry_run != DryRun::None,
        end,
        concurrency: usize::from(args.concurrency),
        max_per_zone: args.max_per_zone.map(usize::from),
        max_unavailable: args.max_unavailable,
        shared: None,
        soak: args.soak,
        gate: gate(args),
        wait_ready: args.wait_ready,
        wait_volumes: args.wait_volumes,
        once: args.once,
        force_after: args.force_after,
        order: args.order.into(),
        surge: args.surge.map(Into::into),
        on_impossible: args.on_impossible.into(),
        on_refused: args.on_refused.into(),
        implicit_budget: args.implicit_budget.0.clone(),
        node_timeout: args.node_timeout,
        pod_timeout: args.pod_timeout,
        blocked_timeout: args.blocked_timeout,
        undo_on_failure: args.undo_on_failure,
        node_conditions: args.node_conditions,
    }
}

fn gate(args: &DrainArgs) -> Option<Arc<dyn Gate>> {
    let text = args.gate.clone()?;
    Some(Arc::new(ShellGate {
        text,
        timeout: (!args.gate_timeout.is_zero()).then_some(args.gate_timeout),
    }))
}

fn permissions(args: &DrainArgs) -> Permissions {
    let overdue = i64::from(args.skip_wait_for_delete_timeout);
    Permissions {
        named: false,
        force: args.safety.force,
        delete_emptydir_data: args.safety.delete_emptydir_data,
        disable_eviction: args.safety.disable_eviction,
        evict_daemon_sets: args.safety.evict_daemonsets,
        respect_annotations: args.safety.respect_annotations,
        bypass: args.bypass_pdb.iter().cloned().collect(),
        pod_selector: args.pod_selector.clone(),
        rules: args.pod_rule.clone(),
        skip_overdue: (overdue > 0).then(|| SignedDuration::from_secs(overdue)),
        approved: None,
    }
}

/// Combinations that clap cannot know to be wrong.
pub(super) fn check(args: &DrainArgs) -> Result<(), UsageError> {
    let wrong = |text: &str| Err(UsageError(text.to_owned()));
    match (args.nodes.is_empty(), &args.selector) {
        (true, None) => return wrong("name the nodes to drain, or select them with --selector"),
        (false, Some(_)) => return wrong("give either nodes or --selector, not both"),
        _ => {}
    }
    if !args.input.files.is_empty() && (args.dry_run == DryRun::Server || args.events.is_some()) {
        return wrong("-f plans from files: it excludes --dry-run=server and --events");
    }
    if args.safety.disable_eviction && !args.safety.force {
        return wrong("--disable-eviction bypasses every budget: it requires --force");
    }
    if args.grace_period == 0 && !args.safety.force {
        return wrong("--grace-period=0 kills pods at once: it requires --force");
    }
    if args.grace_period > i64::from(u32::MAX) {
        return wrong("--grace-period is too long");
    }
    Ok(())
}
