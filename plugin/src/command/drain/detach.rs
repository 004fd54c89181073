//! `drain --detach`: makes a NodeMaintenance from the flags of a drain.

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::go_duration::TimeLimit;
use nodelife_core::node_maintenance::{Approval, MaintenanceSpec, NodeMaintenance, Window};
use nodelife_drain::{DrainRequest, Prepared, is_forbidden, warn_leaving};
use serde_json::Value;

use super::plan;
use super::settings::request;
use crate::cli::ClusterArgs;
use crate::cli::drain::{DrainArgs, DryRun, RunArgs};
use crate::command::maintenance::warn_without_controller;
use crate::command::{connect, input};
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::Printer;

pub(crate) const NOT_INSTALLED: &str = "the cluster has no NodeMaintenance: install \
     nodelife-controller with `kubectl apply -k manifests/controller`";

/// Creates the object and says its name. `name`: empty where the server makes one.
pub(super) async fn detach(
    args: &DrainArgs,
    name: &str,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Exit {
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
    let approved = args.plan.as_deref().map(plan::read_approved).transpose()?;
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
    let created = create(&cluster, name, &spec, args.run, printer).await?;
    if let Some((start, end)) = window {
        let [start, end] = [start, end].map(|at| at.strftime("%a %F %R %Z").to_string());
        printer.note(format_args!("it drains between {start} and {end}"));
    }
    if args.run.dry_run != DryRun::None {
        return Ok(ExitStatus::Done);
    }
    if let Some(scope) = approved {
        // The API server takes no approval at creation.
        let created: NodeMaintenance = serde_json::from_value(created)?;
        let name = &created.metadata.name;
        let approved = cluster.approve_maintenance(&created, &scope.digest()).await;
        approved.with_context(|| format!("failed to approve the plan of {name}"))?;
    }
    warn_without_controller(&cluster, printer).await;
    Ok(ExitStatus::Done)
}

async fn create(
    cluster: &Cluster,
    name: Option<&str>,
    spec: &MaintenanceSpec,
    run: RunArgs,
    printer: &mut Printer,
) -> anyhow::Result<Value> {
    let mut object = cluster.new_maintenance(name, spec).await?;
    if run.dry_run != DryRun::Client {
        let created = cluster.create_maintenance(&object, run.dry_run == DryRun::Server);
        object = match created.await {
            Err(ApiError::NotFound(_)) => anyhow::bail!(NOT_INSTALLED),
            created => created?,
        };
    }
    if let Some(format) = run.output {
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        printer.drain_document(&object, format)?;
        return Ok(object);
    }
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    // kubectl's words (`k8s.io/cli-runtime/pkg/printers/name.go`, v0.36.3).
    let name = name.unwrap_or("<unknown>");
    let how = match run.dry_run {
        DryRun::None => "",
        DryRun::Client => " (dry run)",
        DryRun::Server => " (server dry run)",
    };
    printer.paragraph(format_args!(
        "nodemaintenance.nodelife.dev/{name} created{how}"
    ))?;
    Ok(object)
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
                // They concern the printed object.
                dry_run: _,
                output: _,
            },
        max_unavailable,
        soak,
        plan,
        notify,
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
    let drain = settings.to_spec()?;
    let has_settings = drain.as_object().is_some_and(|all| !all.is_empty());
    Ok(MaintenanceSpec {
        nodes: input::node_names(nodes),
        node_selector: selector.clone(),
        drain: if has_settings { drain } else { Value::Null },
        deadline,
        soak: (!soak.is_zero()).then(|| TimeLimit(*soak).to_string().into()),
        max_unavailable: max_unavailable.map(|most| most.to_string().into()),
        approval: plan.is_some().then_some(Approval::Required),
        notify: (!notify.is_empty())
            .then(|| notify.iter().map(|one| one.as_str().into()).collect()),
        ..MaintenanceSpec::default()
    })
}
