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
    Beside, Executor, How, Manner, Pace, Scene, Surges, Telling, Watches, distinct, everywhere,
    say_unseen,
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
            .map_err(|_elapsed| anyhow::anyhow!(TOO_LATE))?,
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
                scene,
                watches,
                beside,
            } = *drain;
            let telling = Telling {
                report: args.output.is_some(),
                events: args.events.is_some(),
            };
            let manner = manner(&args);
            let executor =
                Executor::new(cluster, settings, manner, scene, beside, telling, printer);
            executor.run(watches).await
        }
    }
}

const TOO_LATE: &str = "the time of --timeout is over: the cluster was not read in that time, \
     and nothing was evicted";

/// What a drain begins with.
struct Drain {
    cluster: Cluster,
    settings: DrainOptions,
    scene: Scene,
    watches: Watches,
    beside: Beside,
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
    let choice = crate::drain::choose(&cluster, &args.nodes, args.selector.as_ref());
    if args.undo {
        let choice = choice.await.map_err(|error| met_with(&cluster, error))?;
        let dry = args.dry_run != DryRun::None;
        let status = crate::drain::take_back(&cluster, &choice.nodes, dry, printer).await?;
        return Ok(Prepared::Ended(status));
    }
    let drains = args.dry_run == DryRun::None;
    // Where the nodes are named nothing has to wait for their list.
    let mut watches = (drains && args.selector.is_none())
        .then(|| Watches::open(&cluster, &distinct(&args.nodes)));
    let everywhere = async { Ok(everywhere(&cluster).await?) };
    let met = tokio::try_join!(choice, everywhere);
    let (choice, everywhere) = met.map_err(|error| met_with(&cluster, error))?;
    if drains && watches.is_none() {
        let nodes = choice.nodes.iter();
        let names: Vec<_> = nodes.map(|n| n.metadata.name.clone()).collect();
        watches = Some(Watches::open(&cluster, &names));
    }
    let mut scene = Scene::load(&cluster, choice, everywhere, watches.as_mut(), printer).await?;
    if let Some(why) = &scene.unseen
        && !permissions.disable_eviction
    {
        say_unseen(why, printer);
    }
    let mut plan = scene.plan(
        &permissions,
        args.implicit_budget.0.as_ref(),
        pace(args),
        cluster.clock().now(),
    );
    let surges = match args.surge {
        Some(how) => {
            let how = (how.into(), manner(args));
            Surges::choose(&cluster, &scene, &mut plan, how, printer).await?
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
            crate::drain::ask(&cluster, &plan, manner(args), printer).await;
        }
        plan::print(&plan, args.output, printer)?;
        return Ok(Prepared::Ended(ExitStatus::Done));
    };
    let quarantine = if args.on_impossible == OnImpossible::Quarantine {
        scene.leave_out(&plan)
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
        scene.claims(&cluster).await?
    } else {
        BTreeMap::new()
    };
    Ok(Prepared::Drain(Box::new(Drain {
        settings: settings(args, permissions, &plan, &scene, claims, (&cluster, end)),
        scene,
        watches,
        beside: Beside {
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
fn met_with(cluster: &Cluster, error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ApiError>() {
        Ok(error) => cluster.unmet(error).into(),
        Err(error) => error,
    }
}

fn settings(
    args: &DrainArgs,
    permissions: Permissions,
    plan: &DrainPlan,
    scene: &Scene,
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
        cordon_each: scene.nodes.len() > concurrency
            || scene.nodes.len() > 1 && args.max_per_zone.is_some(),
        zones: scene.zones(),
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

fn manner(args: &DrainArgs) -> Manner {
    Manner {
        delete: args.consents.disable_eviction,
        grace_period_seconds: pace(args).grace_period_seconds,
    }
}

impl From<SurgeArg> for How {
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
    if args.consents.disable_eviction && !args.consents.force {
        return wrong("--disable-eviction bypasses every budget: it needs --force as well");
    }
    if args.grace_period == 0 && !args.consents.force {
        return wrong("--grace-period=0 kills pods at once: it needs --force as well");
    }
    if args.grace_period > i64::from(u32::MAX) {
        return wrong("--grace-period is too long");
    }
    Ok(())
}

fn pace(args: &DrainArgs) -> Pace {
    Pace {
        concurrency: usize::from(args.concurrency),
        grace_period_seconds: u32::try_from(args.grace_period).ok(),
    }
}

fn permissions(args: &DrainArgs) -> Permissions {
    let overdue = i64::from(args.skip_wait_for_delete_timeout);
    Permissions {
        force: args.consents.force,
        delete_emptydir_data: args.consents.delete_emptydir_data,
        disable_eviction: args.consents.disable_eviction,
        respect_annotations: args.consents.respect_annotations,
        bypass: args.bypass_pdb.iter().cloned().collect(),
        pod_selector: args.pod_selector.clone(),
        rules: args.pod_rule.clone(),
        skip_overdue: (overdue > 0).then(|| SignedDuration::from_secs(overdue)),
    }
}
