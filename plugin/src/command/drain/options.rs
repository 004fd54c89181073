//! From the flags of `drain` to the options of the plan and the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::drain::{Bypass, DrainOptions, DrainPlan, Permissions, PlanOptions};
use nodelife_core::text::Str;
use tokio::time::Instant;

use crate::cli::drain::{DrainArgs, DryRun, OnImpossible};
use crate::drain::{ClusterView, ExecutorOptions, GateCommand, Refusals, RemovalMethod, Surges};
use crate::exit::UsageError;

pub(super) fn drain_options(
    args: &DrainArgs,
    permissions: Permissions,
    plan: &DrainPlan,
    view: &ClusterView,
    claims: BTreeMap<Str, (Str, Str)>,
    (cluster, end): (&Cluster, Option<Instant>),
) -> DrainOptions {
    let signed = |limit: Option<Duration>| limit.and_then(|l| SignedDuration::try_from(l).ok());
    let after = |wait: Duration| {
        let now = cluster.clock().now();
        now.saturating_add(SignedDuration::try_from(wait).ok()?)
            .ok()
    };
    let concurrency = usize::from(args.concurrency);
    DrainOptions {
        given_up: match args.on_impossible {
            OnImpossible::Wait => BTreeMap::new(),
            _ => plan.impossible.clone(),
        },
        permissions,
        deadline: end.and_then(|end| after(end.saturating_duration_since(Instant::now()))),
        concurrency,
        order: args.order.into(),
        implicit: args.implicit_budget.0.clone(),
        grace_period_seconds: removal_method(args).grace_period_seconds,
        node_timeout: signed(args.node_timeout),
        pod_timeout: signed(args.pod_timeout),
        blocked_timeout: signed(args.blocked_timeout),
        wait_for_impossible: args.on_impossible == OnImpossible::Wait,
        once: args.once,
        max_per_zone: args.max_per_zone.map(usize::from),
        cordon_each: cordons_each(args, view),
        max_unavailable: args
            .max_unavailable
            .map(|most| most.of(view.nodes.len() + view.excluded.len())),
        soak: signed(Some(args.soak)).unwrap_or_default(),
        gate: args.gate.is_some(),
        zones: view.zones(),
        wait_ready: args.wait_ready,
        claims,
        wait_volumes: args.wait_volumes,
        force: signed(args.force_after).map(|wait| Bypass {
            wait,
            budgets: args.bypass_pdb.iter().cloned().collect(),
        }),
    }
}

/// Whether each node is cordoned when its turn comes. Where none waits for its turn they are all
/// cordoned first: what leaves one would only go to the next.
pub(super) fn cordons_each(args: &DrainArgs, view: &ClusterView) -> bool {
    view.nodes.len() > usize::from(args.concurrency)
        || view.nodes.len() > 1 && (args.max_per_zone.is_some() || args.max_unavailable.is_some())
}

pub(super) fn make_plan(
    args: &DrainArgs,
    permissions: &Permissions,
    view: &ClusterView,
    now: Timestamp,
) -> DrainPlan {
    let method = removal_method(args);
    let options = PlanOptions {
        deletes: method.delete,
        order: args.order.into(),
        concurrency: usize::from(args.concurrency),
        grace_period_seconds: method.grace_period_seconds,
        now,
    };
    view.plan(permissions, args.implicit_budget.0.as_ref(), &options)
}

fn gate_command(args: &DrainArgs) -> Option<GateCommand> {
    args.gate.clone().map(|text| GateCommand {
        text,
        timeout: (!args.gate_timeout.is_zero()).then_some(args.gate_timeout),
    })
}

pub(super) fn removal_method(args: &DrainArgs) -> RemovalMethod {
    RemovalMethod {
        delete: args.safety.disable_eviction,
        grace_period_seconds: u32::try_from(args.grace_period).ok(),
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

pub(super) fn permissions(args: &DrainArgs) -> Permissions {
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
    }
}

pub(super) fn executor_options(args: &DrainArgs, end: Option<Instant>) -> ExecutorOptions {
    ExecutorOptions {
        method: removal_method(args),
        end,
        undo_on_failure: args.undo_on_failure,
        node_conditions: args.node_conditions,
        gate: gate_command(args),
        surges: Surges::default(),
        quarantine: Vec::new(),
        refusals: Refusals::default(),
        print_events: args.events.is_some(),
        report: args.output,
    }
}
