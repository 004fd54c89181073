//! Prepares the eviction of single pods, without a node and its cordon.

use std::collections::BTreeMap;

use anyhow::bail;
use nodelife_cluster::Cluster;
use nodelife_core::text::Str;
use nodelife_drain_plan::{Action, DrainOptions, DrainPlan};
use tokio::time::Instant;

use super::rights::forbidden_namespace;
use super::{blocked, not_allowed};
use crate::drain::{Drain, Prepared, Refusals};
use crate::removal::RemovalMethod;
use crate::reporter::{DrainStatus, Reporter};
use crate::sentences::warn_budgets_unreadable;
use crate::settings::{DrainRequest, DrainSettings};
use crate::surge::Surges;
use crate::view::ClusterView;
use crate::view::watches::Watches;

#[derive(Clone, Debug, Default)]
pub struct PodSettings {
    pub namespace: String,
    pub names: Vec<Str>,
    pub method: RemovalMethod,
    pub dry_run: bool,
    pub end: Option<Instant>,
}

pub async fn prepare_pods(
    cluster: &Cluster,
    settings: &PodSettings,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<Prepared> {
    let (namespace, names) = (settings.namespace.as_str(), &settings.names);
    let method = settings.method;
    let request = DrainRequest {
        // A user who names a pod means it: where drain asks for a flag, evict only warns.
        settings: DrainSettings {
            force: true,
            delete_emptydir_data: true,
            disable_eviction: method.delete,
            grace_period: method.grace_period_seconds,
            ..DrainSettings::default()
        },
        end: settings.end,
        ..DrainRequest::default()
    };
    let mut watches = Watches::of_pods(cluster, &request.process, names, namespace);
    let which = (namespace, names.len());
    let view = ClusterView::load_named(cluster, which, &mut watches, reporter).await?;
    for name in names {
        if view.pods.get(name).is_none_or(Vec::is_empty) {
            bail!("pods \"{name}\" not found in namespace {namespace}");
        }
    }
    if let Some(why) = &view.budgets_unreadable {
        warn_budgets_unreadable(why, reporter);
    }
    let plan = request.plan(&view, cluster.clock().now());
    let status = refuse(&plan, reporter);
    if status != DrainStatus::Done {
        return Ok(Prepared::Refused {
            status,
            plan: Some(Box::new(plan)),
            nodes: BTreeMap::new(),
        });
    }
    if settings.dry_run {
        return Ok(Prepared::Planned {
            status: blocked(&plan, &[]),
            plan: Box::new(plan),
        });
    }
    if let Some(missing) = forbidden_namespace(cluster, method, &plan).await {
        return Ok(not_allowed(&missing, reporter));
    }
    for pod in plan.with(Action::Evict) {
        for warning in &pod.warnings {
            reporter.warn(format_args!("{}: {warning}", pod.full_name()));
        }
    }
    Ok(Prepared::Ready(Box::new(Drain {
        machine: DrainOptions {
            concurrency: usize::MAX,
            ..request.machine(&plan, &view, BTreeMap::new(), cluster)
        },
        request,
        plan,
        view,
        watches,
        surges: Surges::default(),
        refusals: Refusals::default(),
        cluster: cluster.clone(),
    })))
}

fn refuse(plan: &DrainPlan, reporter: &mut dyn Reporter) -> DrainStatus {
    let goes = |action| matches!(action, Action::Evict | Action::Wait);
    let mut status = DrainStatus::Done;
    for pod in plan.pods.iter().filter(|pod| !goes(pod.action)) {
        reporter.note(format_args!("{}: {}", pod.full_name(), pod.reason));
        status = DrainStatus::Impossible;
    }
    if status != DrainStatus::Done {
        reporter.note("refused: nothing was changed");
    }
    status
}
