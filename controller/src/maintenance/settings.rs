//! From the spec of a NodeMaintenance to the request of a drain.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::go_duration::TimeLimit;
use nodelife_core::node_maintenance::{
    AuditGateSpec, MaintenanceSpec, MaintenanceStatus, NodeMaintenance, Schedule,
};
use nodelife_core::object::LabelSelector;
use nodelife_core::text::Str;
use nodelife_drain::{CalendarWindow, DrainRequest, DrainSettings, Gate};

use super::gate::{AuditGate, Begun, ConditionGate, GateAudit, GateTime};

/// How long a gate waits that says nothing else.
const GATE_TIMEOUT: Duration = Duration::from_mins(10);

/// The drain that the spec asks for, without nodes and end; or the error in the spec.
pub(super) fn request(
    spec: &MaintenanceSpec,
    cluster: &Cluster,
    (audit, begun): (&GateAudit, &Begun),
) -> Result<DrainRequest, String> {
    // The schema refuses it, too; an object may be older than the rule.
    if spec
        .node_selector
        .as_ref()
        .is_some_and(LabelSelector::is_empty)
    {
        let why = "nodeSelector is empty and selects nothing: for every node, set allNodes to true";
        return Err(why.to_owned());
    }
    let most = spec.max_unavailable.as_deref().map(str::parse);
    Ok(DrainRequest {
        settings: DrainSettings::from_spec(&spec.drain)?,
        max_unavailable: most
            .transpose()
            .map_err(|why| format!("maxUnavailable: {why}"))?,
        soak: duration("soak", spec.soak.as_ref())?.unwrap_or_default(),
        gate: gate(spec, cluster, (audit, begun))?,
        ..DrainRequest::default()
    })
}

/// When the drain may begin, and when it ends.
pub(super) fn times(
    object: &NodeMaintenance,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Option<Timestamp>), String> {
    let NodeMaintenance { spec, status, .. } = object;
    if let Some(schedule) = &spec.schedule {
        let (start, end) = run(schedule, status, now).map_err(|why| format!("schedule: {why}"))?;
        return Ok((Some(start), spec.deadline.into_iter().chain([end]).min()));
    }
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

/// The window of a run that has begun or is due; else the next one.
fn run(
    schedule: &Schedule,
    status: &MaintenanceStatus,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), String> {
    let every: CalendarWindow = schedule.every.parse()?;
    let due = status.scheduled_for.filter(|at| *at <= now);
    let after_last = status.last_run.as_ref().map(|last| last.window_end);
    let at = status.started_at.or(due);
    let at = at.unwrap_or_else(|| after_last.into_iter().fold(now, Timestamp::max));
    let (start, end) = every.next(at).map_err(|error| error.to_string())?;
    Ok((start.timestamp(), end.timestamp()))
}

fn gate(
    spec: &MaintenanceSpec,
    cluster: &Cluster,
    (audit, begun): (&GateAudit, &Begun),
) -> Result<Option<Arc<dyn Gate>>, String> {
    let Some(gate) = &spec.gate else {
        return Ok(None);
    };
    let cluster = cluster.clone();
    let time = GateTime {
        timeout: duration("gate.timeout", gate.timeout.as_ref())?.unwrap_or(GATE_TIMEOUT),
        soak: duration("soak", spec.soak.as_ref())?.unwrap_or_default(),
        begun: Arc::clone(begun),
    };
    match (gate.node_condition.clone(), gate.audit) {
        (Some(condition), None) => Ok(Some(Arc::new(ConditionGate {
            cluster,
            condition,
            time,
        }))),
        (None, Some(AuditGateSpec::NoErrors)) => Ok(Some(Arc::new(AuditGate {
            cluster,
            audit: audit.clone(),
            time,
        }))),
        _ => Err("gate: give either nodeCondition or audit".to_owned()),
    }
}

fn duration(field: &str, text: Option<&Str>) -> Result<Option<Duration>, String> {
    let limit = text.map(|text| text.parse::<TimeLimit>()).transpose();
    let limit = limit.map_err(|why| format!("{field}: {why}"))?;
    Ok(limit.map(|limit| limit.0))
}
