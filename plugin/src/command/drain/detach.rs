//! `drain --detach`: makes a NodeMaintenance from the flags of a drain.

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::ApiError;
use nodelife_core::go_duration::TimeLimit;
use nodelife_core::node_maintenance::{Approval, MaintenanceSpec, Window};
use nodelife_drain::{DrainRequest, Prepared, is_forbidden, warn_leaving};

use super::plan;
use super::settings::request;
use crate::cli::ClusterArgs;
use crate::cli::drain::{DrainArgs, RunArgs};
use crate::command::maintenance::warn_without_controller;
use crate::command::{connect, input};
use crate::exit::{ExitStatus, UsageError};
use crate::output::Printer;

/// The advice if the definition is missing.
pub(in crate::command) const NOT_INSTALLED: &str = "the cluster has no NodeMaintenance: install \
     nodelife-controller with `kubectl apply -k manifests/controller`";

/// Creates the object and says its name. `name`: empty where the server makes one.
pub(super) async fn detach(
    args: &DrainArgs,
    name: &str,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    if args.gate.is_some() {
        let text = "--gate runs a command on this machine, which excludes --detach: set \
                    spec.gate.nodeCondition of a NodeMaintenance instead";
        return Err(UsageError(text.to_owned()).into());
    }
    let cluster = connect::connect(cluster, printer).await?;
    let now = cluster.clock().now();
    let window = args
        .window
        .as_ref()
        .map(|window| window.next(now))
        .transpose()?;
    let mut spec = spec(args, now)?;
    spec.window = window.as_ref().map(|(start, end)| Window {
        start: Some(start.timestamp()),
        end: Some(end.timestamp()),
        duration: None,
    });
    let approved = match &args.plan {
        Some(file) => Some(plan::read_approved(file)?.digest()),
        None => None,
    };
    // What the controller would refuse is said here, while somebody is there to read it.
    let request = DrainRequest {
        dry_run: true,
        ..request(args, None)
    };
    match nodelife_drain::prepare(&cluster, &request, printer).await {
        Ok(Prepared::Refused { status, .. }) => return Ok(status.into()),
        Ok(Prepared::Planned { plan, .. }) => warn_leaving(&plan, printer),
        Ok(Prepared::Ready(_)) => {}
        Err(error) if is_forbidden(&error) => {
            printer.warn(format_args!(
                "the plan is left to the controller: {error:#}"
            ));
        }
        Err(error) => return Err(error),
    }
    let name = Some(name).filter(|name| !name.is_empty());
    match cluster.create_maintenance(name, &spec).await {
        Ok(created) => {
            printer.paragraph(format_args!(
                "nodemaintenance.nodelife.dev/{} created",
                created.metadata.name
            ))?;
            if let Some((start, end)) = window {
                let [start, end] = [start, end].map(|at| at.strftime("%a %F %R %Z").to_string());
                printer.note(format_args!("it drains between {start} and {end}"));
            }
            if let Some(digest) = approved {
                // The API server takes no approval at creation.
                let name = &created.metadata.name;
                let approved = cluster.approve_maintenance(&created, &digest).await;
                approved.with_context(|| format!("failed to approve the plan of {name}"))?;
            }
            warn_without_controller(&cluster, printer).await;
            Ok(ExitStatus::Done)
        }
        Err(ApiError::NotFound(_)) => anyhow::bail!(NOT_INSTALLED),
        Err(error) => Err(error.into()),
    }
}

/// The same drain as an object. Each flag is named here, so that a new one cannot be forgotten.
fn spec(args: &DrainArgs, now: Timestamp) -> anyhow::Result<MaintenanceSpec> {
    let DrainArgs {
        nodes,
        selector,
        settings,
        run:
            RunArgs {
                timeout,
                // Both exclude --detach.
                dry_run: _,
                output: _,
            },
        max_unavailable,
        soak,
        plan,
        // These exclude it as well.
        input: _,
        gate: _,
        gate_timeout: _,
        undo: _,
        break_lock: _,
        events: _,
        detach: _,
        // It rests on the time.
        window: _,
        // These have no effect.
        ignore_daemonsets: _,
        chunk_size: _,
    } = args;
    let deadline = if timeout.is_zero() {
        None
    } else {
        Some(now.saturating_add(SignedDuration::try_from(*timeout)?)?)
    };
    Ok(MaintenanceSpec {
        nodes: input::node_names(nodes),
        node_selector: selector.clone(),
        drain: settings.to_spec()?,
        deadline,
        soak: (!soak.is_zero()).then(|| TimeLimit(*soak).to_string().into()),
        max_unavailable: max_unavailable.map(|most| most.to_string().into()),
        approval: if plan.is_some() {
            Approval::Required
        } else {
            Approval::None
        },
        ..MaintenanceSpec::default()
    })
}
