//! `drain`

mod offline;
mod options;
mod plan;
mod together;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jiff::Timestamp;
use nodelife_cluster::{ApiError, Cluster, ConnectError, Permission};
use nodelife_core::drain::{Action, DrainOptions, DrainPlan, DrainReport};
use tokio::time::Instant;

use crate::cli::ClusterArgs;
use crate::cli::drain::{DrainArgs, DryRun, OnImpossible};
use crate::command::connect;
use crate::drain::{
    ClusterView, Executor, ExecutorOptions, RemovalMethod, Surges, Watches, list_all_pods,
    unique_names, warn_budgets_unreadable,
};
use crate::exit::ExitStatus;
use crate::output::Printer;
use options::{
    check, cordons_each, drain_options, executor_options, make_plan, permissions, removal_method,
};
pub(super) use plan::print as print_plan;

pub(crate) async fn run(
    args: DrainArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    check(&args)?;
    if !args.input.files.is_empty() {
        return offline::plan(&args, printer);
    }
    let wanted = args
        .output
        .map(|format| (format, unique_names(&args.nodes)));
    let ended = Box::pin(drain(args, cluster, printer)).await;
    if let Some((format, nodes)) = wanted.filter(|_| !printer.has_document()) {
        let error = ended.as_ref().err().map(|error| format!("{error:#}"));
        let report = DrainReport::not_begun(nodes, error, Timestamp::now());
        printer.drain_document(&report, format)?;
    }
    ended
}

async fn drain(
    args: DrainArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
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
    let drain = match prepared {
        ControlFlow::Break(status) => return Ok(status),
        ControlFlow::Continue(drain) => *drain,
    };
    // What comes now has to go on whoever reads it, and however slowly.
    printer.detach();
    let executor = Executor::new(
        drain.cluster,
        drain.machine,
        drain.view,
        drain.executor,
        printer,
    );
    executor.run(drain.watches).await
}

pub(super) const READ_TIMED_OUT: &str =
    "timed out (--timeout) while reading the cluster; nothing was evicted";

struct Drain {
    cluster: Cluster,
    machine: DrainOptions,
    view: ClusterView,
    watches: Watches,
    executor: ExecutorOptions,
}

/// Reads the cluster, plans and refuses; nothing is changed yet. Ends here with a plan, a refusal
/// or `--undo`.
async fn prepare(
    args: &DrainArgs,
    cluster: &ClusterArgs,
    end: Option<Instant>,
    printer: &mut Printer,
) -> anyhow::Result<ControlFlow<ExitStatus, Box<Drain>>> {
    let cluster = connect::prepare(cluster, printer).await?;
    let (permissions, method) = (permissions(args), removal_method(args));
    let selected = crate::drain::select_nodes(&cluster, &args.nodes, args.selector.as_ref());
    if args.undo {
        let selected = selected
            .await
            .map_err(|error| connect_error_of(&cluster, error))?;
        let dry = args.dry_run != DryRun::None;
        let status = crate::drain::undo_cordons(&cluster, &selected.nodes, dry, printer).await?;
        return Ok(ControlFlow::Break(status));
    }
    let drains = args.dry_run == DryRun::None;
    // Where the nodes are named nothing has to wait for their list.
    let mut watches = (drains && args.selector.is_none())
        .then(|| Watches::open(&cluster, &unique_names(&args.nodes)));
    let (selected, all_pods, missing, evicts) = tokio::join!(
        selected,
        list_all_pods(&cluster),
        missing_permission(&cluster, args),
        async { !drains || may_remove_pods(&cluster, method, ("", "")).await },
    );
    let selected = selected.map_err(|error| connect_error_of(&cluster, error))?;
    if let Some(missing) = missing {
        printer.note(missing);
        return Ok(ControlFlow::Break(ExitStatus::Impossible));
    }
    if drains && watches.is_none() {
        let nodes = selected.nodes.iter();
        let names: Vec<_> = nodes.map(|n| n.metadata.name.clone()).collect();
        watches = Some(Watches::open(&cluster, &names));
    }
    let mut view =
        ClusterView::load(&cluster, selected, all_pods, watches.as_mut(), printer).await?;
    if let Some(why) = &view.budgets_unreadable
        && !permissions.disable_eviction
    {
        warn_budgets_unreadable(why, printer);
    }
    note_cordoned_together(args, &mut view);
    let make = |view: &ClusterView| make_plan(args, &permissions, view, cluster.clock().now());
    let mut plan = make(&view);
    let surges = if let Some(how) = args.surge {
        Surges::select(&cluster, &view, &mut plan, (how, method), printer).await?
    } else {
        Surges::default()
    };
    let (plan, refusals) = plan::refuse(args, plan, &mut view, make, printer);
    if refusals.all {
        if args.dry_run != DryRun::None || args.output.is_some() {
            plan::print(&plan, args.output, true, printer)?;
        }
        return Ok(ControlFlow::Break(refusals.status));
    }
    if drains {
        let mut missing = view.missing_for_wait_ready().filter(|_| args.wait_ready);
        if missing.is_none() && !evicts {
            missing = forbidden_namespace(&cluster, method, &plan).await;
        }
        if let Some(missing) = missing {
            printer.note(missing);
            return Ok(ControlFlow::Break(ExitStatus::Impossible));
        }
    }
    let Some(mut watches) = watches else {
        if args.dry_run == DryRun::Server {
            crate::drain::check_evictions(&cluster, &plan, method, printer).await;
        }
        plan::print(&plan, args.output, false, printer)?;
        return Ok(ControlFlow::Break(refusals.status));
    };
    let quarantine = if args.on_impossible == OnImpossible::Quarantine {
        view.exclude_nodes(&plan)
    } else {
        Vec::new()
    };
    plan::warn_leaving(&plan, &quarantine, printer);
    if args.wait_ready {
        warn_uncounted(&view, &plan, printer);
    }
    follow_nodes(args, &cluster, &view, &mut watches);
    let claims = if args.wait_volumes {
        watches.follow_attachments(&cluster);
        view.claims(&cluster).await?
    } else {
        BTreeMap::new()
    };
    Ok(ControlFlow::Continue(Box::new(Drain {
        machine: drain_options(args, permissions, &plan, &view, claims, (&cluster, end)),
        view,
        watches,
        executor: ExecutorOptions {
            surges,
            quarantine,
            refusals,
            ..executor_options(args, end)
        },
        cluster,
    })))
}

/// Has the plan know which nodes are cordoned at once: no pod moves from one of them to another.
fn note_cordoned_together(args: &DrainArgs, view: &mut ClusterView) {
    if !cordons_each(args, view) {
        let names = view.nodes.iter().map(|node| node.metadata.name.clone());
        view.store.operators.around.draining = names.collect();
    }
}

fn warn_uncounted(view: &ClusterView, plan: &DrainPlan, printer: &mut Printer) {
    for controller in view.uncounted_controllers(plan) {
        printer.warn(format_args!(
            "--wait-ready does not wait for the pods of {controller}: drain does not know how \
             many of them it wants"
        ));
    }
}

/// Watches the nodes, and those that only count as available or not.
fn follow_nodes(args: &DrainArgs, cluster: &Cluster, view: &ClusterView, watches: &mut Watches) {
    watches.follow_nodes(cluster, &view.nodes);
    if args.max_unavailable.is_some() {
        watches.follow_nodes(cluster, &view.excluded);
    }
}

/// What to tell who lacks a right that a drain would miss only after the cordon: it reads pods and
/// budgets by watches, and is refused there before. Where the API server does not answer, nothing is
/// missing.
async fn missing_permission(cluster: &Cluster, args: &DrainArgs) -> Option<String> {
    let attachments = ("storage.k8s.io", "volumeattachments");
    let mut needed = Vec::new();
    if args.dry_run == DryRun::None {
        if args.max_unavailable.is_some() {
            needed.push(("watch", ("", "nodes")));
        }
        if args.wait_volumes {
            needed.push(("list", attachments));
            needed.push(("watch", attachments));
        }
    }
    for (verb, (group, resource)) in needed {
        let permission = Permission {
            verb,
            group,
            resource,
            ..Permission::default()
        };
        if let Ok(false) = cluster.is_allowed(&permission).await {
            let dot = if group.is_empty() { "" } else { "." };
            let missing = format!("{verb} {resource}{dot}{group}");
            return Some(format!(
                "refused: not allowed to {missing} in all namespaces; nothing was changed; check \
                 with: kubectl auth can-i {missing} --all-namespaces"
            ));
        }
    }
    None
}

/// Whether the user may evict (or delete) this pod, all of a namespace, or all. Where the API server
/// does not answer, the evictions will show it.
async fn may_remove_pods(
    cluster: &Cluster,
    method: RemovalMethod,
    (namespace, name): (&str, &str),
) -> bool {
    let (verb, subresource) = if method.delete {
        ("delete", "")
    } else {
        ("create", "eviction")
    };
    let permission = Permission {
        verb,
        resource: "pods",
        subresource,
        namespace,
        name,
        ..Permission::default()
    };
    cluster.is_allowed(&permission).await.unwrap_or(true)
}

/// What to tell who may not evict any of the pods of one of their namespaces. A role may name some.
async fn forbidden_namespace(
    cluster: &Cluster,
    method: RemovalMethod,
    plan: &DrainPlan,
) -> Option<String> {
    let leaving = plan.with(Action::Evict).chain(plan.with(Action::Delete));
    let mut namespaces: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in leaving {
        let names = namespaces.entry(&pod.namespace).or_default();
        names.push(&pod.name);
    }
    for (namespace, names) in namespaces {
        let mut allowed = false;
        for name in [""].into_iter().chain(names) {
            allowed = allowed || may_remove_pods(cluster, method, (namespace, name)).await;
        }
        if !allowed {
            let (right, flags) = method.permission();
            return Some(format!(
                "refused: not allowed to {right} in namespace {namespace}; nothing was changed; \
                 check with: kubectl auth can-i {flags} -n {namespace}"
            ));
        }
    }
    None
}

/// Whether a right is missing that a drain cannot do without.
pub(super) fn is_forbidden(error: &anyhow::Error) -> bool {
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
