//! Prepares a drain: reads the cluster, plans and refuses; nothing is changed yet.

mod alone;
mod options;
mod pods;
mod refuse;
mod rights;

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use nodelife_cluster::Cluster;
use nodelife_core::disruption::BudgetKey;
use nodelife_core::snapshot::Snapshot;
use nodelife_drain_plan::{Action, DrainPlan, PlannedPod};

use crate::drain::{Drain, Prepared, Refusals};
use crate::reporter::{DrainStatus, Reporter};
use crate::sentences::{warn_budgets_unreadable, warn_leaving};
use crate::settings::{DrainRequest, NodeSelection, OnImpossible};
use crate::surge::Surges;
use crate::view::ClusterView;
use crate::view::nodes::{select_from, select_nodes};
use crate::view::watches::Watches;
use refuse::refuse;
use rights::{forbidden_namespace, may_remove_pods, missing_permission};

pub use alone::{drainable, missing};
pub use pods::{PodSettings, prepare_pods};
pub use rights::is_forbidden;

/// Reads the cluster, plans and refuses.
/// Fails if the cluster cannot be read or a node is not there. [`is_forbidden`] tells a missing right.
pub async fn prepare(
    cluster: &Cluster,
    request: &DrainRequest,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<Prepared> {
    let _turn = request.process.turn_to_prepare().await;
    let (drains, method) = (!request.dry_run, request.settings.method());
    // Where few nodes are named nothing has to wait for their list.
    let mut watches = match &request.nodes {
        NodeSelection::Named(names) if drains && Watches::can_open_at_once(names) => {
            Some(Watches::open(cluster, &request.process, names, None))
        }
        _ => None,
    };
    let (selected, all_pods, missing, evicts) = tokio::join!(
        select_nodes(cluster, &request.nodes),
        request.process.pods.all(cluster),
        missing_permission(cluster, request),
        async { !drains || may_remove_pods(cluster, method, ("", "")).await },
    );
    let selected = selected?;
    if let Some(missing) = missing {
        return Ok(not_allowed(&missing, reporter));
    }
    if drains && watches.is_none() {
        let nodes = selected.nodes.iter();
        let names: Vec<_> = nodes.map(|n| n.metadata.name.clone()).collect();
        let all = selected.all.as_ref().map(Vec::len);
        watches = Some(Watches::open(cluster, &request.process, &names, all));
    }
    let pods = (&request.process.pods, all_pods);
    let mut view = ClusterView::load(cluster, selected, pods, watches.as_mut(), reporter).await?;
    if let Some(why) = &view.budgets_unreadable
        && !request.settings.disable_eviction
    {
        warn_budgets_unreadable(why, reporter);
    }
    let now = cluster.clock().now();
    let (request, mut plan) = plan_nodes(request, &mut view, now, reporter);
    let request = &*request;
    let make = |view: &ClusterView| request.plan(view, now);
    let surges = if request.settings.surge.is_some() {
        Surges::select(cluster, &view, &mut plan, method, reporter).await?
    } else {
        Surges::default()
    };
    let (plan, refusals) = refuse(request, plan, &mut view, make, reporter);
    if refusals.all {
        return Ok(refused(refusals, plan));
    }
    if drains {
        let mut missing = view
            .missing_for_wait_ready()
            .filter(|_| request.settings.wait_ready);
        if missing.is_none() && !evicts {
            missing = forbidden_namespace(cluster, method, &plan).await;
        }
        if let Some(missing) = missing {
            return Ok(not_allowed(&missing, reporter));
        }
    }
    let Some(mut watches) = watches else {
        return Ok(planned(request, refusals.status, plan));
    };
    warn_leaving(&plan, reporter);
    if request.settings.wait_ready {
        warn_uncounted(&view, &plan, reporter);
    }
    watches.follow_nodes(&view.nodes);
    if request.max_unavailable.is_some() {
        watches.follow_nodes(&view.excluded);
    }
    let claims = if request.settings.wait_volumes {
        watches.follow_attachments();
        view.claims(cluster).await?
    } else {
        BTreeMap::new()
    };
    Ok(Prepared::Ready(Box::new(Drain {
        request: request.clone(),
        machine: request.machine(&plan, &view, claims, cluster),
        plan,
        view,
        watches,
        surges,
        refusals,
        cluster: cluster.clone(),
    })))
}

pub fn plan_snapshot(
    snapshot: Snapshot,
    request: &DrainRequest,
    now: Timestamp,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<Prepared> {
    let nodes = select_from(&snapshot.nodes, &request.nodes)?;
    let mut view = ClusterView::of(snapshot, nodes);
    if let Some(why) = &view.budgets_unreadable {
        warn_budgets_unreadable(why, reporter);
    }
    let (request, plan) = plan_nodes(request, &mut view, now, reporter);
    let request = &*request;
    let make = |view: &ClusterView| request.plan(view, now);
    let (plan, refusals) = refuse(request, plan, &mut view, make, reporter);
    Ok(if refusals.all {
        refused(refusals, plan)
    } else {
        planned(request, refusals.status, plan)
    })
}

/// A plan with the status that its drain would have: pods that cannot be evicted are left or waited for.
fn planned(request: &DrainRequest, status: DrainStatus, plan: DrainPlan) -> Prepared {
    let settings = &request.settings;
    let left = plan.with(Action::Impossible).next();
    let left = left.map_or(DrainStatus::Done, |_| match settings.on_impossible {
        OnImpossible::Wait => DrainStatus::Blocked,
        OnImpossible::Partial | OnImpossible::Refuse => DrainStatus::Impossible,
    });
    let status = status.and(left).and(blocked(&plan, &settings.bypass_pdb));
    let plan = Box::new(plan);
    Prepared::Planned { status, plan }
}

/// What budgets give a drain that allow nothing now, and are not bypassed.
fn blocked(plan: &DrainPlan, bypass: &[BudgetKey]) -> DrainStatus {
    let bypassed = |budget: &String| bypass.iter().any(|key| key.to_string() == *budget);
    let mut evicted = plan.with(Action::Evict);
    if evicted.any(|pod| pod.blocked && !pod.budget.as_ref().is_some_and(bypassed)) {
        DrainStatus::Blocked
    } else {
        DrainStatus::Done
    }
}

fn refused(refusals: Refusals, plan: DrainPlan) -> Prepared {
    Prepared::Refused {
        status: refusals.status,
        plan: Some(Box::new(plan)),
        nodes: refusals.nodes,
    }
}

fn not_allowed(missing: &str, reporter: &mut dyn Reporter) -> Prepared {
    reporter.note(missing);
    Prepared::Refused {
        status: DrainStatus::Impossible,
        plan: None,
        nodes: BTreeMap::new(),
    }
}

/// The plan, and the request that it is for: one node at a time where the nodes would hold each other.
fn plan_nodes<'a>(
    request: &'a DrainRequest,
    view: &mut ClusterView,
    now: Timestamp,
    reporter: &mut dyn Reporter,
) -> (Cow<'a, DrainRequest>, DrainPlan) {
    // No pod moves from a node to another that is cordoned at the same time.
    if !request.cordons_each(view) {
        let names = view.nodes.iter().map(|node| node.metadata.name.clone());
        view.store.operators.around.draining = names.collect();
    }
    let plan = request.plan(view, now);
    match one_at_a_time(request, view, &plan, reporter) {
        Some(apart) => {
            let plan = apart.plan(view, now);
            (Cow::Owned(apart), plan)
        }
        None => (Cow::Borrowed(request), plan),
    }
}

/// The request for one node at a time, if replacements of pods fit on no node but those that would be
/// drained at the same time, or fit nowhere and share a budget: each node would hold the pods that keep the
/// other from ending.
fn one_at_a_time(
    request: &DrainRequest,
    view: &mut ClusterView,
    plan: &DrainPlan,
    reporter: &mut dyn Reporter,
) -> Option<DrainRequest> {
    if view.nodes.len() < 2 || request.settings.concurrency.unwrap_or(1) < 2 {
        return None;
    }
    let evicted = plan.with(Action::Evict);
    let homeless: Vec<&PlannedPod> = evicted.filter(|pod| pod.unschedulable.is_some()).collect();
    let elsewhere = homeless.iter().find(|planned| {
        let pod = view.pod(&planned.uid);
        let own = std::slice::from_ref(&planned.node);
        pod.is_some_and(|pod| view.without_place(pod, own).is_none())
    });
    let shares_budget = |one: &&&PlannedPod| {
        let mut others = homeless.iter();
        one.budget.is_some() && others.any(|o| o.node != one.node && o.budget == one.budget)
    };
    let (first, why) = match elsewhere {
        Some(first) => (first, "fits only on a node that is drained too"),
        None => (
            homeless.iter().find(shares_budget)?,
            "fits on no node, and its budget then holds the pods of the others",
        ),
    };
    reporter.warn(format_args!(
        "one node is drained at a time: the replacement of {} {why}",
        first.full_name()
    ));
    let mut request = request.clone();
    request.settings.concurrency = Some(1);
    view.store.operators.around.draining.clear();
    Some(request)
}

fn warn_uncounted(view: &ClusterView, plan: &DrainPlan, reporter: &mut dyn Reporter) {
    for controller in view.uncounted_controllers(plan) {
        reporter.warn(format_args!(
            "--wait-ready does not wait for the pods of {controller}: drain does not know how \
             many of them it wants"
        ));
    }
}
