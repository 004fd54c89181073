//! `drain`

mod offline;
mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use nodelife_cluster::{ApiError, Cluster, ConnectError};
use nodelife_core::drain::{Action, Bypass, DrainOptions, DrainPlan, Permissions};
use nodelife_core::text::Str;
use tokio::time::Instant;

use crate::cli::ClusterArgs;
use crate::cli::drain::{DrainArgs, DryRun, OnImpossible, SurgeArg};
use crate::command::connect;
use crate::drain::{
    ClusterView, Executor, ExecutorOptions, OutputOptions, PlanOptions, RemovalMethod,
    SurgeStrategy, Surges, Watches, list_all_pods, unique_names, warn_budgets_unreadable,
};
use crate::exit::{ExitStatus, UsageError};
use crate::output::Printer;

/// Runs `drain`.
pub(crate) async fn run(
    args: DrainArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    check(&args)?;
    if !args.input.files.is_empty() {
        return offline::plan(&args, printer);
    }
    let end = (!args.timeout.is_zero()).then(|| Instant::now() + args.timeout);
    let begin = prepare(&args, cluster, end, printer);
    let prepared = match end {
        Some(end) => tokio::time::timeout_at(end, begin)
            .await
            .map_err(|_elapsed| anyhow::anyhow!(READ_TIMED_OUT))?,
        None => begin.await,
    };
    let prepared = match prepared {
        Err(error) if is_forbidden(&error) => {
            printer.error(&error);
            return Ok(ExitStatus::Impossible);
        }
        prepared => prepared?,
    };
    match prepared {
        Prepared::Ended(status) => Ok(status),
        Prepared::Drain(drain) => {
            let Drain {
                cluster,
                settings,
                view,
                watches,
                beside,
            } = *drain;
            let output = OutputOptions {
                report: args.output.is_some(),
                events: args.events.is_some(),
            };
            let method = removal_method(&args);
            let executor = Executor::new(cluster, settings, method, view, beside, output, printer);
            executor.run(watches).await
        }
    }
}

const READ_TIMED_OUT: &str = "the time of --timeout is over: the cluster was not read in that time, \
     and nothing was evicted";

/// What a drain begins with.
struct Drain {
    cluster: Cluster,
    settings: DrainOptions,
    view: ClusterView,
    watches: Watches,
    beside: ExecutorOptions,
}

/// What comes before anything is changed.
enum Prepared {
    /// A plan, a refusal, or `--undo`.
    Ended(ExitStatus),
    Drain(Box<Drain>),
}

async fn prepare(
    args: &DrainArgs,
    cluster: &ClusterArgs,
    end: Option<Instant>,
    printer: &mut Printer,
) -> anyhow::Result<Prepared> {
    let cluster = connect::prepare(cluster, printer).await?;
    let permissions = permissions(args);
    let selected = crate::drain::select_nodes(&cluster, &args.nodes, args.selector.as_ref());
    if args.undo {
        let selected = selected
            .await
            .map_err(|error| connect_error_of(&cluster, error))?;
        let dry = args.dry_run != DryRun::None;
        let status = crate::drain::undo_cordons(&cluster, &selected.nodes, dry, printer).await?;
        return Ok(Prepared::Ended(status));
    }
    let drains = args.dry_run == DryRun::None;
    // Where the nodes are named nothing has to wait for their list.
    let mut watches = (drains && args.selector.is_none())
        .then(|| Watches::open(&cluster, &unique_names(&args.nodes)));
    let list_all_pods = async { Ok(list_all_pods(&cluster).await?) };
    let met = tokio::try_join!(selected, list_all_pods);
    let (selected, list_all_pods) = met.map_err(|error| connect_error_of(&cluster, error))?;
    if drains && watches.is_none() {
        let nodes = selected.nodes.iter();
        let names: Vec<_> = nodes.map(|n| n.metadata.name.clone()).collect();
        watches = Some(Watches::open(&cluster, &names));
    }
    let mut view =
        ClusterView::load(&cluster, selected, list_all_pods, watches.as_mut(), printer).await?;
    if let Some(why) = &view.budgets_unreadable
        && !permissions.disable_eviction
    {
        warn_budgets_unreadable(why, printer);
    }
    let mut plan = view.plan(
        &permissions,
        args.implicit_budget.0.as_ref(),
        plan_options(args),
        cluster.clock().now(),
    );
    let surges = match args.surge {
        Some(how) => {
            let how = (how.into(), removal_method(args));
            Surges::select(&cluster, &view, &mut plan, how, printer).await?
        }
        None => Surges::default(),
    };
    if let Some(status) = plan::refusal(&plan, args.on_impossible, printer) {
        if args.dry_run != DryRun::None {
            plan::print(&plan, args.output, printer)?;
        }
        return Ok(Prepared::Ended(status));
    }
    let Some(mut watches) = watches else {
        if args.dry_run == DryRun::Server {
            crate::drain::check_evictions(&cluster, &plan, removal_method(args), printer).await;
        }
        plan::print(&plan, args.output, printer)?;
        return Ok(Prepared::Ended(ExitStatus::Done));
    };
    let quarantine = if args.on_impossible == OnImpossible::Quarantine {
        view.exclude_nodes(&plan)
    } else {
        Vec::new()
    };
    let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    for pod in leaving.filter(|pod| !quarantine.contains(&pod.node)) {
        plan::warn(pod, printer);
    }
    if args.wait_volumes {
        watches.follow_attachments(&cluster);
    }
    let claims = if args.wait_volumes {
        view.claims(&cluster).await?
    } else {
        BTreeMap::new()
    };
    Ok(Prepared::Drain(Box::new(Drain {
        settings: settings(args, permissions, &plan, &view, claims, (&cluster, end)),
        view,
        watches,
        beside: ExecutorOptions {
            end,
            undo_on_failure: args.undo_on_failure,
            surges,
            quarantine,
        },
        cluster,
    })))
}

/// Whether a right is missing that a drain cannot do without.
fn is_forbidden(error: &anyhow::Error) -> bool {
    let api = match error.downcast_ref::<ConnectError>() {
        Some(ConnectError::Api(error)) => Some(error),
        _ => error.downcast_ref::<ApiError>(),
    };
    matches!(api, Some(ApiError::Forbidden(_)))
}

/// The error of one of the first requests.
fn connect_error_of(cluster: &Cluster, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ApiError>() {
        Ok(error) => cluster.connect_error(error).into(),
        Err(error) => error,
    }
}

fn settings(
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
        pod_timeout: signed(args.pod_timeout),
        blocked_timeout: signed(args.blocked_timeout),
        wait_for_impossible: args.on_impossible == OnImpossible::Wait,
        once: args.once,
        max_per_zone: args.max_per_zone.map(usize::from),
        // Where none waits for its turn they are all cordoned first: what leaves one would
        // only go to the next.
        cordon_each: view.nodes.len() > concurrency
            || view.nodes.len() > 1 && args.max_per_zone.is_some(),
        zones: view.zones(),
        wait_ready: args.wait_ready,
        claims,
        wait_volumes: args.wait_volumes,
        force: args.force_after.and_then(|wait| {
            Some(Bypass {
                at: after(wait)?,
                budgets: args.bypass_pdb.iter().cloned().collect(),
            })
        }),
    }
}

fn removal_method(args: &DrainArgs) -> RemovalMethod {
    RemovalMethod {
        delete: args.safety.disable_eviction,
        grace_period_seconds: plan_options(args).grace_period_seconds,
    }
}

impl From<SurgeArg> for SurgeStrategy {
    fn from(surge: SurgeArg) -> Self {
        match surge {
            SurgeArg::Restart => Self::Restart,
            SurgeArg::Scale => Self::Scale,
        }
    }
}

/// Combinations that clap cannot know to be wrong.
fn check(args: &DrainArgs) -> Result<(), UsageError> {
    let wrong = |text: &str| Err(UsageError(text.to_owned()));
    match (args.nodes.is_empty(), &args.selector) {
        (true, None) => return wrong("name the nodes to drain, or choose them with --selector"),
        (false, Some(_)) => return wrong("give either nodes or --selector, not both"),
        _ => {}
    }
    if !args.input.files.is_empty() && (args.dry_run == DryRun::Server || args.events.is_some()) {
        return wrong("-f plans from files: there is no server to ask, and nothing happens");
    }
    if args.safety.disable_eviction && !args.safety.force {
        return wrong("--disable-eviction bypasses every budget: it needs --force as well");
    }
    if args.grace_period == 0 && !args.safety.force {
        return wrong("--grace-period=0 kills pods at once: it needs --force as well");
    }
    if args.grace_period > i64::from(u32::MAX) {
        return wrong("--grace-period is too long");
    }
    Ok(())
}

fn plan_options(args: &DrainArgs) -> PlanOptions {
    PlanOptions {
        concurrency: usize::from(args.concurrency),
        grace_period_seconds: u32::try_from(args.grace_period).ok(),
    }
}

fn permissions(args: &DrainArgs) -> Permissions {
    let overdue = i64::from(args.skip_wait_for_delete_timeout);
    Permissions {
        force: args.safety.force,
        delete_emptydir_data: args.safety.delete_emptydir_data,
        disable_eviction: args.safety.disable_eviction,
        respect_annotations: args.safety.respect_annotations,
        bypass: args.bypass_pdb.iter().cloned().collect(),
        pod_selector: args.pod_selector.clone(),
        rules: args.pod_rule.clone(),
        skip_overdue: (overdue > 0).then(|| SignedDuration::from_secs(overdue)),
    }
}
