//! `drain`

mod args;
mod offline;
mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use nodelife_cluster::Cluster;
use nodelife_core::drain::{Action, Force, Permissions, Settings};

pub(crate) use args::DrainArgs;
use args::{DryRun, OnImpossible};

use crate::cli::ClusterArgs;
use crate::command::connect::connect;
use crate::drain::{Executor, Manner, Pace, Scene, Telling, Watches};
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
    let cluster = connect(cluster, printer).await?;
    let permissions = permissions(&args);
    let choice = crate::drain::choose(&cluster, &args.nodes, args.selector.as_ref()).await?;
    if args.undo {
        let dry = args.dry_run != DryRun::None;
        return crate::drain::take_back(&cluster, &choice.nodes, dry, printer).await;
    }
    let nodes = choice.nodes.iter();
    let names: Vec<_> = nodes.map(|n| n.metadata.name.clone()).collect();
    let mut watches = match args.dry_run {
        DryRun::None => Some(Watches::open(&cluster, &names)),
        DryRun::Client | DryRun::Server => None,
    };
    let scene = Scene::load(&cluster, choice, watches.as_mut(), printer).await?;
    let plan = scene.plan(
        &permissions,
        args.implicit_budget.0.as_ref(),
        pace(&args),
        cluster.clock().now(),
    );
    if let Some(status) = plan::refusal(&plan, args.on_impossible, printer) {
        if args.dry_run != DryRun::None {
            plan::print(&plan, args.output, printer)?;
        }
        return Ok(status);
    }
    let manner = Manner {
        delete: args.consents.disable_eviction,
        grace_period_seconds: pace(&args).grace_period_seconds,
    };
    let Some(watches) = watches else {
        if args.dry_run == DryRun::Server {
            crate::drain::ask(&cluster, &plan, manner, printer).await;
        }
        plan::print(&plan, args.output, printer)?;
        return Ok(ExitStatus::Done);
    };
    for pod in plan.with(Action::Evict).chain(plan.with(Action::Delete)) {
        plan::warn(pod, printer);
    }
    let mut watches = watches;
    if args.wait_volumes {
        watches.follow_attachments(&cluster);
    }
    let signed = |limit: Option<Duration>| limit.and_then(|l| SignedDuration::try_from(l).ok());
    let settings = Settings {
        given_up: match args.on_impossible {
            OnImpossible::Refuse | OnImpossible::Partial => plan.impossible.clone(),
            OnImpossible::Wait => BTreeMap::new(),
        },
        permissions,
        deadline: deadline(args.timeout, &cluster),
        concurrency: usize::from(args.concurrency),
        order: args.order.into(),
        implicit: args.implicit_budget.0,
        pod_timeout: signed(args.pod_timeout),
        blocked_timeout: signed(args.blocked_timeout),
        wait_for_impossible: args.on_impossible == OnImpossible::Wait,
        once: args.once,
        max_per_zone: args.max_per_zone.map(usize::from),
        zones: scene.zones(),
        wait_ready: args.wait_ready,
        claims: if args.wait_volumes {
            scene.claims(&cluster).await?
        } else {
            BTreeMap::new()
        },
        wait_volumes: args.wait_volumes,
        force: args.force_after.and_then(|after| {
            Some(Force {
                at: cluster
                    .clock()
                    .now()
                    .saturating_add(SignedDuration::try_from(after).ok()?)
                    .ok()?,
                budgets: args.bypass_pdb.iter().cloned().collect(),
            })
        }),
    };
    let telling = Telling {
        report: args.output.is_some(),
        events: args.events.is_some(),
    };
    let executor = Executor::new(cluster, settings, manner, scene, telling, printer);
    executor.run(watches, args.undo_on_failure).await
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
        skip_overdue: (overdue > 0).then(|| SignedDuration::from_secs(overdue)),
    }
}

fn deadline(timeout: Duration, cluster: &Cluster) -> Option<jiff::Timestamp> {
    let timeout = SignedDuration::try_from(timeout).ok()?;
    (!timeout.is_zero())
        .then(|| cluster.clock().now().saturating_add(timeout).ok())
        .flatten()
}
