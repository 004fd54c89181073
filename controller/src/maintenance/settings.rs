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
    let (start, end) = (start.timestamp(), end.timestamp());
    // By a schedule that somebody has changed, the window of this run is over.
    let is_over = status.started_at.is_some() && now < start;
    Ok(if is_over { (at, now) } else { (start, end) })
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

#[cfg(test)]
mod tests {
    use nodelife_core::node_maintenance::{LastRun, Unfinished};

    use super::*;

    #[test]
    fn a_run_keeps_its_window_and_the_next_one_is_another() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (friday, start, begun, end) = (
            at("2026-12-04T12:00:00Z"),
            at("2026-12-05T22:00:00Z"),
            at("2026-12-05T22:30:00Z"),
            at("2026-12-06T02:00:00Z"),
        );
        let week = SignedDuration::from_hours(7 * 24);
        let run = |every: &str, status: &MaintenanceStatus, now| {
            let every = every.into();
            let unfinished = Unfinished::GiveBack;
            run(&Schedule { every, unfinished }, status, now)
        };
        let weekly = "sat 22:00-02:00 UTC";
        let mut status = MaintenanceStatus::default();
        assert_eq!(run(weekly, &status, friday), Ok((start, end)));
        assert_eq!(run(weekly, &status, begun), Ok((start, end)));
        // Nothing came of it: that is told before the next one.
        status.scheduled_for = Some(start);
        assert_eq!(run(weekly, &status, end + week), Ok((start, end)));
        // Somebody changes it before.
        let next = run("22:00-02:00 UTC", &status, friday).unwrap();
        assert_eq!(next.0, at("2026-12-04T22:00:00Z"));
        status.started_at = Some(begun);
        assert_eq!(run(weekly, &status, end), Ok((start, end)));
        let moved = run("wed 22:00-02:00 UTC", &status, begun + week / 7);
        assert_eq!(moved, Ok((begun, begun + week / 7)));
        // It has ended within its window, which does not begin again.
        status = MaintenanceStatus {
            last_run: Some(LastRun {
                window_end: end,
                ..LastRun::default()
            }),
            ..MaintenanceStatus::default()
        };
        assert_eq!(run(weekly, &status, begun), Ok((start + week, end + week)));
        assert!(run("sat 22:00-02:00 Mars/Base", &status, friday).is_err());
    }
}
