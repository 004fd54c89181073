mod detach;
mod offline;
mod plan;
mod settings;
mod together;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_cluster::resource::NODE_MAINTENANCES;
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain::{Drain, DrainRequest, Prepared, UndoSettings, check_evictions, is_forbidden};
use nodelife_drain_plan::DrainReport;
use tokio::time::Instant;

use crate::cli::ClusterArgs;
use crate::cli::drain::{DrainArgs, DrainFormat, DryRun};
use crate::command::connect;
use crate::drain::{Line, ProgressLog};
use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;
use crate::signals;
pub(super) use detach::NOT_INSTALLED;
pub(super) use offline::warn_missing;
pub(super) use plan::print as print_plan;
use settings::{check, request};

pub(crate) async fn run(args: DrainArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    check(&args)?;
    if let Some(name) = &args.detach {
        return detach::detach(&args, name, cluster, printer).await;
    }
    if !args.input.files.is_empty() {
        return offline::plan(&args, printer);
    }
    let request = request(&args, args.run.end());
    let begin = Box::pin(begin(&args, &request, cluster, printer));
    let ready = begun(begin, request.end).await;
    let ended = run_to_end(ready, args.events.is_some(), args.run.output, printer);
    let ended = Box::pin(ended).await;
    if let Some(format) = args.run.output.filter(|_| !printer.has_document) {
        let error = ended.as_ref().err().map(|error| format!("{error:#}"));
        let nodes = request.nodes.names().to_vec();
        let report = DrainReport::not_begun(nodes, error, Timestamp::now());
        printer.drain_document(&report, format)?;
    }
    if args.events.is_some() {
        Line::of_end(&ended, Timestamp::now()).print(printer)?;
    }
    ended
}

/// What is left to do, unless it ended already.
pub(super) type Begun = anyhow::Result<ControlFlow<ExitStatus, Box<Drain>>>;

pub(super) async fn begun(begin: impl Future<Output = Begun>, end: Option<Instant>) -> Begun {
    match end {
        Some(end) => tokio::time::timeout_at(end, begin)
            .await
            .map_err(|_elapsed| anyhow::anyhow!(READ_TIMED_OUT))?,
        None => begin.await,
    }
}

pub(super) async fn run_to_end(
    begun: Begun,
    print_events: bool,
    format: Option<DrainFormat>,
    printer: &mut Printer,
) -> Exit {
    let drain = match begun {
        Ok(ControlFlow::Continue(drain)) => drain,
        Ok(ControlFlow::Break(status)) => return Ok(status),
        Err(error) if is_forbidden(&error) => {
            printer.error(&error);
            return Ok(ExitStatus::Impossible);
        }
        Err(error) => return Err(error),
    };
    // The drain must not depend on who reads its output, or how slowly.
    printer.detach();
    let mut log = ProgressLog::new(printer, print_events, format);
    let mut interrupts = signals::listen()?;
    let identity = connect::identity(drain.cluster()).await;
    let status = drain.run(identity, &mut interrupts, &mut log).await?;
    Ok(status.into())
}

const READ_TIMED_OUT: &str = "timed out (--timeout) while reading the cluster; nothing was evicted";

/// Prepares the drain. Ends here with a plan, a refusal or `--undo`.
async fn begin(
    args: &DrainArgs,
    request: &DrainRequest,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Begun {
    let approved = match &args.plan {
        Some(file) => Some((file.as_path(), plan::read_approved(file)?)),
        None => None,
    };
    let cluster = connect::prepare(cluster, printer).await?;
    if args.undo {
        return undo(&cluster, request, printer)
            .await
            .map(ControlFlow::Break);
    }
    let prepared = nodelife_drain::prepare(&cluster, request, printer).await?;
    if args.events.is_some() {
        for (node, why) in prepared.refused_nodes().into_iter().flatten() {
            Line::of_refused(node, why, cluster.clock().now()).print(printer)?;
        }
    }
    let mut status = prepared.status();
    match prepared {
        Prepared::Ready(mut drain) => {
            if let Some((file, approved)) = approved {
                if plan::refuse_beyond(drain.plan(), &approved, file, printer) {
                    return Ok(ControlFlow::Break(ExitStatus::Refused));
                }
                drain.bind(Arc::new(approved));
            }
            return Ok(ControlFlow::Continue(drain));
        }
        Prepared::Refused { plan, .. } => {
            if let Some(plan) = plan
                && (request.dry_run || args.run.output.is_some())
            {
                plan::print(&plan, args.run.output, true, printer)?;
            }
        }
        Prepared::Planned { mut plan, .. } => {
            if let Some((file, approved)) = &approved
                && plan::refuse_beyond(&plan, approved, file, printer)
            {
                return Ok(ControlFlow::Break(ExitStatus::Refused));
            }
            if args.run.dry_run == DryRun::Server {
                let method = request.settings.method();
                let found = check_evictions(&cluster, &mut plan, method, printer).await;
                status = status.and(found);
            }
            plan::print(&plan, args.run.output, false, printer)?;
        }
    }
    Ok(ControlFlow::Break(status.into()))
}

/// The first of these nodes that a maintenance has cordoned which is still there, and its name.
async fn in_maintenance(cluster: &Cluster, nodes: &[Node]) -> anyhow::Result<Option<(Str, Str)>> {
    let mut read: BTreeMap<Str, Option<Str>> = BTreeMap::new();
    for node in nodes {
        let Some((name, uid)) = nodelife_drain::cordoned_by_maintenance(node) else {
            continue;
        };
        if !read.contains_key(&name) {
            let target = NODE_MAINTENANCES.all().named(&name);
            let found: Option<NodeMaintenance> = cluster.get(target).await?;
            read.insert(name.clone(), found.map(|found| found.metadata.uid));
        }
        if read.get(&name).is_some_and(|there| *there == Some(uid)) {
            return Ok(Some((node.metadata.name.clone(), name)));
        }
    }
    Ok(None)
}

/// `--undo`: uncordons the nodes that drains cordoned, unless a drain works on one of them.
async fn undo(cluster: &Cluster, request: &DrainRequest, printer: &mut Printer) -> Exit {
    let selected = nodelife_drain::select_nodes(cluster, &request.nodes).await?;
    if let Some((node, name)) = in_maintenance(cluster, &selected.nodes).await? {
        printer.note(format_args!(
            "refused: node/{node} is in nodemaintenance/{name}, whose nodes stay cordoned; to end it: \
             kubectl nodelife maintenance cancel {name}"
        ));
        return Ok(ExitStatus::Refused);
    }
    let undo = UndoSettings {
        identity: connect::identity(cluster).await,
        own_only: false,
        dry_run: request.dry_run,
        break_lock: request.break_lock,
    };
    let status = nodelife_drain::undo_drain(cluster, &selected.nodes, &undo, printer).await?;
    Ok(status.into())
}
