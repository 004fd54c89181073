//! From the spec of a NodeMaintenance to the settings of a drain.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_audit::Selection;
use nodelife_cluster::Cluster;
use nodelife_core::disruption::{BudgetKey, ImplicitBudget};
use nodelife_core::go_duration::GoDuration;
use nodelife_core::node_maintenance::{
    AuditGateSpec, ImpossibleSpec, MaintenanceSpec, OrderSpec, RefusedSpec, SurgeSpec,
};
use nodelife_core::selector::label_selector;
use nodelife_core::text::Str;
use nodelife_drain::{DrainSettings, Gate, OnImpossible, OnRefused, SurgeStrategy};
use nodelife_drain_plan::{EvictionOrder, Permissions, PodRule};

use super::audit_gate::AuditGate;
use super::gate::ConditionGate;

/// How long a gate waits that says nothing else.
const GATE_TIMEOUT: Duration = Duration::from_mins(10);

/// The settings that the spec asks for, but for the nodes and the end; or what is wrong with it.
pub(super) fn settings(
    spec: &MaintenanceSpec,
    cluster: &Cluster,
    audit: &Arc<Selection>,
) -> Result<DrainSettings, String> {
    let drain = &spec.drain;
    if drain.disable_eviction && !drain.force {
        return Err("disableEviction bypasses every budget: it requires force".to_owned());
    }
    if drain.grace_period == Some(0) && !drain.force {
        return Err("gracePeriod 0 kills pods at once: it requires force".to_owned());
    }
    let selector = drain.pod_selector.as_deref();
    let permissions = Permissions {
        named: false,
        force: drain.force,
        delete_emptydir_data: drain.delete_emptydir_data,
        disable_eviction: drain.disable_eviction,
        evict_daemon_sets: drain.evict_daemonsets,
        respect_annotations: drain.respect_annotations,
        bypass: parsed::<BudgetKey, _>("bypassPdb", &drain.bypass_pdb)?,
        pod_selector: in_field("podSelector", selector.map(label_selector).transpose())?,
        rules: parsed::<PodRule, _>("podRule", &drain.pod_rule)?,
        skip_overdue: drain
            .skip_wait_for_delete_timeout
            .filter(|seconds| *seconds > 0)
            .map(|seconds| SignedDuration::from_secs(seconds.into())),
        approved: None,
    };
    let budget = drain.implicit_budget.as_deref().map(ImplicitBudget::parse);
    let most = spec.max_unavailable.as_deref().map(str::parse);
    Ok(DrainSettings {
        permissions,
        grace_period_seconds: drain.grace_period,
        concurrency: drain.concurrency.unwrap_or(1).max(1).into(),
        max_per_zone: drain.max_per_zone.map(usize::from),
        max_unavailable: in_field("maxUnavailable", most.transpose())?,
        soak: duration("soak", spec.soak.as_ref())?.unwrap_or_default(),
        gate: gate(spec, cluster, audit)?,
        wait_ready: drain.wait_ready,
        wait_volumes: drain.wait_volumes,
        once: drain.once,
        force_after: duration("forceAfter", drain.force_after.as_ref())?,
        order: match drain.order {
            None | Some(OrderSpec::None) => EvictionOrder::None,
            Some(OrderSpec::Priority) => EvictionOrder::Priority,
        },
        surge: drain.surge.map(|surge| match surge {
            SurgeSpec::Restart => SurgeStrategy::Restart,
        }),
        on_impossible: match drain.on_impossible {
            None | Some(ImpossibleSpec::Refuse) => OnImpossible::Refuse,
            Some(ImpossibleSpec::Partial) => OnImpossible::Partial,
            Some(ImpossibleSpec::Wait) => OnImpossible::Wait,
        },
        on_refused: match drain.on_refused {
            None | Some(RefusedSpec::Node) => OnRefused::Node,
            Some(RefusedSpec::All) => OnRefused::All,
        },
        implicit_budget: in_field("implicitBudget", budget.transpose())?
            .unwrap_or_else(|| Some(ImplicitBudget::default())),
        node_timeout: duration("nodeTimeout", drain.node_timeout.as_ref())?,
        pod_timeout: duration("podTimeout", drain.pod_timeout.as_ref())?,
        blocked_timeout: duration("blockedTimeout", drain.blocked_timeout.as_ref())?,
        undo_on_failure: drain.undo_on_failure,
        node_conditions: drain.node_conditions,
        ..DrainSettings::default()
    })
}

/// When the drain may begin, and when it ends.
pub(super) fn times(
    spec: &MaintenanceSpec,
) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    let Some(window) = &spec.window else {
        return Ok((None, spec.deadline));
    };
    let length = duration("window.duration", window.duration.as_ref())?;
    let length = length.and_then(|length| SignedDuration::try_from(length).ok());
    let end = match (window.start, length) {
        (Some(start), Some(length)) => start.checked_add(length).ok(),
        _ => window.end,
    };
    Ok((window.start, end.into_iter().chain(spec.deadline).min()))
}

fn gate(
    spec: &MaintenanceSpec,
    cluster: &Cluster,
    audit: &Arc<Selection>,
) -> Result<Option<Arc<dyn Gate>>, String> {
    let Some(gate) = &spec.gate else {
        return Ok(None);
    };
    let cluster = cluster.clone();
    let timeout = duration("gate.timeout", gate.timeout.as_ref())?.unwrap_or(GATE_TIMEOUT);
    match (gate.node_condition.clone(), gate.audit) {
        (Some(condition), None) => Ok(Some(Arc::new(ConditionGate {
            cluster,
            condition,
            timeout,
        }))),
        (None, Some(AuditGateSpec::NoErrors)) => Ok(Some(Arc::new(AuditGate {
            cluster,
            selection: Arc::clone(audit),
            timeout,
        }))),
        _ => Err("gate: give either nodeCondition or audit".to_owned()),
    }
}

fn duration(field: &str, text: Option<&Str>) -> Result<Option<Duration>, String> {
    let Some(text) = text else { return Ok(None) };
    let parsed = GoDuration::parse(text).and_then(GoDuration::unsigned);
    let wrong = || format!("{field}: '{text}' is not a duration such as 30s, 5m or 1h30m");
    parsed.ok_or_else(wrong).map(Some)
}

fn parsed<T, C>(field: &str, texts: &[Str]) -> Result<C, String>
where
    T: std::str::FromStr<Err = String>,
    C: FromIterator<T>,
{
    let texts = texts.iter();
    in_field(field, texts.map(|text| text.parse()).collect())
}

fn in_field<T>(field: &str, result: Result<T, String>) -> Result<T, String> {
    result.map_err(|why| format!("{field}: {why}"))
}
