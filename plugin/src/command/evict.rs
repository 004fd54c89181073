//! `evict`: a drain of single pods, without a node and its cordon.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use anyhow::bail;
use jiff::SignedDuration;
use nodelife_cluster::Cluster;
use nodelife_core::disruption::ImplicitBudget;
use nodelife_core::drain::{
    Action, DrainOptions, DrainPlan, EvictionOrder, Permissions, PlanOptions,
};
use nodelife_core::text::Str;
use tokio::time::Instant;

use super::connect;
use super::drain::{READ_TIMED_OUT, is_forbidden, print_plan};
use crate::cli::drain::DryRun;
use crate::cli::{ClusterArgs, EvictArgs};
use crate::drain::{
    ClusterView, Executor, ExecutorOptions, Refusals, RemovalMethod, Surges, Watches,
    warn_budgets_unreadable,
};
use crate::exit::ExitStatus;
use crate::output::Printer;

/// The pods as they were read.
struct Eviction {
    cluster: Cluster,
    view: ClusterView,
    watches: Watches,
    permissions: Permissions,
}

pub(crate) async fn run(
    args: EvictArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let end = (!args.timeout.is_zero()).then(|| Instant::now() + args.timeout);
    let method = RemovalMethod {
        delete: false,
        grace_period_seconds: u32::try_from(args.grace_period).ok(),
    };
    let implicit = ImplicitBudget::default();
    let begin = prepare(&args, cluster, (method, &implicit), printer);
    let prepared = match end {
        Some(end) => tokio::time::timeout_at(end, begin)
            .await
            .map_err(|_elapsed| anyhow::anyhow!(READ_TIMED_OUT))?,
        None => begin.await,
    };
    let eviction = match prepared {
        Err(error) if is_forbidden(&error) => {
            printer.error(&error);
            return Ok(ExitStatus::Impossible);
        }
        prepared => match prepared? {
            ControlFlow::Break(status) => return Ok(status),
            ControlFlow::Continue(eviction) => *eviction,
        },
    };
    let Eviction {
        cluster,
        view,
        watches,
        permissions,
    } = eviction;
    let now = cluster.clock().now();
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    let deadline = left.and_then(|left| {
        now.saturating_add(SignedDuration::try_from(left).ok()?)
            .ok()
    });
    let machine = DrainOptions {
        permissions,
        deadline,
        concurrency: usize::MAX,
        implicit: Some(implicit),
        grace_period_seconds: method.grace_period_seconds,
        ..DrainOptions::default()
    };
    let options = ExecutorOptions {
        method,
        end,
        undo_on_failure: false,
        node_conditions: false,
        gate: None,
        surges: Surges::default(),
        quarantine: Vec::new(),
        refusals: Refusals::default(),
        print_events: false,
        report: args.output,
    };
    printer.detach();
    let executor = Executor::new(cluster, machine, view, options, printer);
    executor.run(watches).await
}

/// Reads the pods, plans and refuses; nothing is changed yet.
async fn prepare(
    args: &EvictArgs,
    cluster: &ClusterArgs,
    (method, implicit): (RemovalMethod, &ImplicitBudget),
    printer: &mut Printer,
) -> anyhow::Result<ControlFlow<ExitStatus, Box<Eviction>>> {
    let cluster = connect::prepare(cluster, printer).await?;
    let words = args.pods.iter();
    let names: BTreeSet<&str> = words
        .map(|word| word.strip_prefix("pod/").unwrap_or(word))
        .collect();
    let names: Vec<Str> = names.into_iter().map(Str::from).collect();
    let namespace = cluster.namespace().to_owned();
    let mut watches = Watches::open_in(&cluster, &names, Some(&namespace));
    let which = (namespace.as_str(), names.len());
    let view = ClusterView::load_named(&cluster, which, &mut watches, printer).await?;
    for name in &names {
        if view.pods.get(name).is_none_or(Vec::is_empty) {
            bail!("pods \"{name}\" not found in namespace {namespace}");
        }
    }
    if let Some(why) = &view.budgets_unreadable {
        warn_budgets_unreadable(why, printer);
    }
    // Who names a pod means it: what drain asks a flag for is only told.
    let permissions = Permissions {
        named: true,
        force: true,
        delete_emptydir_data: true,
        ..Permissions::default()
    };
    let options = PlanOptions {
        deletes: method.delete,
        order: EvictionOrder::default(),
        concurrency: 1,
        grace_period_seconds: method.grace_period_seconds,
        now: cluster.clock().now(),
    };
    let plan = view.plan(&permissions, Some(implicit), &options);
    let status = refuse(&plan, printer);
    if args.dry_run != DryRun::None {
        if args.dry_run == DryRun::Server {
            crate::drain::check_evictions(&cluster, &plan, method, printer).await;
        }
        print_plan(&plan, args.output, status != ExitStatus::Done, printer)?;
        return Ok(ControlFlow::Break(status));
    }
    if status != ExitStatus::Done {
        return Ok(ControlFlow::Break(status));
    }
    for pod in plan.with(Action::Evict) {
        for warning in &pod.warnings {
            printer.warn(format_args!("{}/{}: {warning}", pod.namespace, pod.name));
        }
    }
    Ok(ControlFlow::Continue(Box::new(Eviction {
        cluster,
        view,
        watches,
        permissions,
    })))
}

/// Says which pods cannot be evicted, and the status to end with.
fn refuse(plan: &DrainPlan, printer: &mut Printer) -> ExitStatus {
    let goes = |action| matches!(action, Action::Evict | Action::Wait);
    let mut status = ExitStatus::Done;
    for pod in plan.pods.iter().filter(|pod| !goes(pod.action)) {
        let (namespace, name, reason) = (&pod.namespace, &pod.name, &pod.reason);
        printer.note(format_args!("{namespace}/{name}: {reason}"));
        status = ExitStatus::Impossible;
    }
    if status != ExitStatus::Done {
        printer.note("refused: nothing was changed");
    }
    status
}
