//! `drain --detach`: makes a NodeMaintenance from the flags of a drain.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::ApiError;
use nodelife_core::go_duration::GoDuration;
use nodelife_core::node_maintenance::{
    Approval, ImpossibleSpec, MaintenanceSpec, OrderSpec, RefusedSpec, SettingsSpec, SurgeSpec,
};
use nodelife_core::text::Str;

use super::approved;
use crate::cli::ClusterArgs;
use crate::cli::drain::{DrainArgs, OnImpossible, OnRefused, OrderArg, SurgeStrategy};
use crate::command::{connect, input};
use crate::exit::{ExitStatus, UsageError};
use crate::output::Printer;

/// What to do where the definition is missing.
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
    let spec = spec(args, cluster.clock().now())?;
    let name = Some(name).filter(|name| !name.is_empty());
    match cluster.create_maintenance(name, &spec).await {
        Ok(created) => {
            printer.paragraph(format_args!(
                "nodemaintenance.nodelife.dev/{} created",
                created.metadata.name
            ))?;
            Ok(ExitStatus::Done)
        }
        Err(ApiError::NotFound(_)) => anyhow::bail!(NOT_INSTALLED),
        Err(error) => Err(error.into()),
    }
}

/// The same drain as an object.
fn spec(args: &DrainArgs, now: Timestamp) -> anyhow::Result<MaintenanceSpec> {
    let approved = match &args.plan {
        Some(file) => Some(Str::from(approved::read(file)?.digest())),
        None => None,
    };
    let deadline = if args.timeout.is_zero() {
        None
    } else {
        Some(now.saturating_add(SignedDuration::try_from(args.timeout)?)?)
    };
    Ok(MaintenanceSpec {
        nodes: input::node_names(&args.nodes),
        node_selector: args.selector.clone(),
        drain: settings(args),
        window: None,
        deadline,
        soak: duration(Some(args.soak).filter(|soak| !soak.is_zero())),
        gate: None,
        max_unavailable: args.max_unavailable.map(|most| most.to_string().into()),
        approval: if approved.is_some() {
            Approval::Required
        } else {
            Approval::None
        },
        approved_plan: approved,
    })
}

fn settings(args: &DrainArgs) -> SettingsSpec {
    let safety = args.safety;
    let overdue = args.skip_wait_for_delete_timeout;
    let budget = &args.implicit_budget.0;
    SettingsSpec {
        pod_selector: args.pod_selector.as_ref().map(|s| s.to_string().into()),
        force: safety.force,
        delete_emptydir_data: safety.delete_emptydir_data,
        evict_daemonsets: safety.evict_daemonsets,
        disable_eviction: safety.disable_eviction,
        respect_annotations: safety.respect_annotations,
        grace_period: u32::try_from(args.grace_period).ok(),
        skip_wait_for_delete_timeout: (overdue > 0).then_some(overdue),
        concurrency: (args.concurrency > 1).then_some(args.concurrency),
        max_per_zone: args.max_per_zone,
        wait_ready: args.wait_ready,
        wait_volumes: args.wait_volumes,
        once: args.once,
        force_after: duration(args.force_after),
        bypass_pdb: args
            .bypass_pdb
            .iter()
            .map(|b| b.to_string().into())
            .collect(),
        order: match args.order {
            OrderArg::None => None,
            OrderArg::Priority => Some(OrderSpec::Priority),
        },
        pod_rule: args.pod_rule.iter().map(|r| r.to_string().into()).collect(),
        surge: args.surge.map(|surge| match surge {
            SurgeStrategy::Restart => SurgeSpec::Restart,
        }),
        on_impossible: match args.on_impossible {
            OnImpossible::Refuse => None,
            OnImpossible::Partial => Some(ImpossibleSpec::Partial),
            OnImpossible::Wait => Some(ImpossibleSpec::Wait),
        },
        on_refused: match args.on_refused {
            OnRefused::Node => None,
            OnRefused::All => Some(RefusedSpec::All),
        },
        implicit_budget: Some(match budget {
            Some(budget) => budget.to_string().into(),
            None => "none".into(),
        }),
        node_timeout: duration(args.node_timeout),
        pod_timeout: duration(args.pod_timeout),
        blocked_timeout: duration(args.blocked_timeout),
        undo_on_failure: args.undo_on_failure,
        node_conditions: args.node_conditions,
    }
}

/// In Go's notation, to the millisecond.
fn duration(duration: Option<Duration>) -> Option<Str> {
    let duration = duration?;
    let text = match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        millis => format!("{}s{millis}ms", duration.as_secs()),
    };
    debug_assert!(GoDuration::parse(&text).is_some(), "{text}");
    Some(text.into())
}
