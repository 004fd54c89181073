//! The `EvictionRequest` API (`lifecycle.k8s.io/v1alpha1` of 1.37, KEP-4563): who asked that a pod be
//! evicted, and which responder is at it.
//!
//! 1.37.2 has the API and no controller for it: an `Eviction` that nobody observed says nothing, and
//! the drain goes on as if there were none.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Deserialize;

use super::around::Outlook;
use crate::object::{Meta, Pod, nullable};
use crate::text::Str;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Eviction {
    metadata: Meta,
    spec: Spec,
    #[serde(deserialize_with = "nullable")]
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    target: Target,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Target {
    #[serde(deserialize_with = "nullable")]
    pod: TargetPod,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct TargetPod {
    uid: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    requesters: Vec<Requester>,
    #[serde(deserialize_with = "nullable")]
    target_responders: Vec<TargetResponder>,
    #[serde(deserialize_with = "nullable")]
    responders: Vec<Responder>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Requester {
    name: Str,
    intent: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct TargetResponder {
    name: Str,
    state: Str,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Responder {
    name: Str,
    heartbeat_time: Option<Timestamp>,
    message: Option<String>,
}

/// What was read of evictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evictions(pub(super) Vec<Eviction>);

impl Evictions {
    /// What the responders of an `EvictionRequest` do about this pod, if somebody observed one.
    pub(super) fn outlook(&self, pod: &Pod) -> Option<Outlook> {
        let eviction = self.0.iter().find(|eviction| {
            eviction.spec.target.pod.uid == pod.metadata.uid
                && eviction.metadata.namespace == pod.metadata.namespace
                && eviction.status.observed_generation.is_some()
        })?;
        let status = &eviction.status;
        let requesters = status.requesters.iter().filter(|r| r.intent == "Eviction");
        let requesters: Vec<&str> = requesters.map(|r| r.name.as_str()).collect();
        let active = status
            .target_responders
            .iter()
            .find(|r| r.state == "Active")?;
        let mut text = format!("responder {} is evicting it", active.name);
        if !requesters.is_empty() {
            let _ = write!(text, " for {}", requesters.join(", "));
        }
        let known = status.responders.iter().find(|r| r.name == active.name);
        if let Some(message) = known.and_then(|responder| responder.message.as_ref()) {
            let _ = write!(text, ": {message}");
        }
        if let Some(at) = known.and_then(|responder| responder.heartbeat_time) {
            let _ = write!(text, " (last heard of at {at})");
        }
        Some(Outlook::WillLift(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::pod;

    fn outlook(status: &Value) -> Option<String> {
        let mut pod = pod("web", "n");
        pod.metadata.namespace = "shop".into();
        let eviction = json!({
            "metadata": {"name": "e", "namespace": "shop"},
            "spec": {"target": {"pod": {"name": "web", "uid": pod.metadata.uid}}},
            "status": status,
        });
        let evictions = Evictions(vec![serde_json::from_value(eviction).unwrap()]);
        Some(evictions.outlook(&pod)?.to_string())
    }

    fn active(observed: &Value) -> Value {
        json!({
            "observedGeneration": observed,
            "requesters": [
                {"name": "fleet.example.com/drain", "intent": "Eviction"},
                {"name": "other.example.com/drain", "intent": "Withdrawn"},
            ],
            "targetResponders": [
                {"name": "db.example.com/failover", "priority": 1000, "state": "Active"},
                {"name": "imperative-eviction.k8s.io/evictor", "priority": 100, "state": "Inactive"},
            ],
            "responders": [{
                "name": "db.example.com/failover", "heartbeatTime": "2026-11-23T08:00:00Z",
                "message": "copying 3 of 5",
            }],
        })
    }

    #[test]
    fn the_active_responder_is_named() {
        assert_eq!(
            outlook(&active(&json!(1))).unwrap(),
            "responder db.example.com/failover is evicting it for fleet.example.com/drain: copying 3 \
             of 5 (last heard of at 2026-11-23T08:00:00Z)"
        );
    }

    #[test]
    fn a_request_that_no_controller_observed_says_nothing() {
        assert_eq!(outlook(&active(&Value::Null)), None);
        assert_eq!(outlook(&json!({"observedGeneration": 1})), None);
        assert_eq!(outlook(&Value::Null), None);
    }
}
