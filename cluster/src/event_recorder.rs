//! [`EventRecorder`]: writes Kubernetes Events in the background, one request each.

use std::time::Duration;

use jiff::Timestamp;
use nodelife_core::format::cut;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::request::Call;
use crate::resource::Resource;

const EVENTS: Resource = Resource::grouped("events.k8s.io", "v1", "events");
/// Events about objects without a namespace are kept here
/// (`legacyValidateEvent` of pkg/apis/core/validation/events.go, v1.36.3).
const NO_NAMESPACE: &str = "default";
/// The longest note and instance that the API server takes, in bytes (`NoteLengthLimit`,
/// `ReportingInstanceLengthLimit`, same file).
const MAX_NOTE: usize = 1024;
const MAX_INSTANCE: usize = 128;
/// How much of the object's name an Event's name has: 253 bytes are allowed.
const MAX_NAME: usize = 200;

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference<'a> {
    pub api_version: &'static str,
    pub kind: &'a str,
    pub name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub is_warning: bool,
    pub reason: &'static str,
    pub note: &'a str,
}

pub struct EventRecorder {
    cluster: Cluster,
    /// `nodelife.dev/drain`
    controller: &'static str,
    action: &'static str,
    instance: String,
    count: u64,
    is_refused: bool,
    sent: JoinSet<ApiResult<()>>,
}

impl EventRecorder {
    pub fn new(
        cluster: &Cluster,
        controller: &'static str,
        action: &'static str,
        instance: &str,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            controller,
            action,
            instance: cut(instance, MAX_INSTANCE).to_owned(),
            count: 0,
            is_refused: false,
            sent: JoinSet::new(),
        }
    }

    pub fn instance(&self) -> &str {
        &self.instance
    }

    pub fn record(&mut self, regarding: ObjectReference<'_>, event: Event<'_>) {
        self.count += 1;
        let namespace = regarding.namespace.unwrap_or(NO_NAMESPACE);
        let body = self.body(regarding, event, self.cluster.clock().now());
        let call = match Call::create(EVENTS.all().in_namespace(namespace), &body) {
            Ok(call) => call,
            Err(error) => return tracing::debug!(%error, "failed to write an Event"),
        };
        let cluster = self.cluster.clone();
        self.sent
            .spawn(async move { create(&cluster, &call).await });
    }

    fn body(&self, regarding: ObjectReference<'_>, event: Event<'_>, now: Timestamp) -> Value {
        let name = cut(regarding.name, MAX_NAME).trim_end_matches(['-', '.']);
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{name}.{:x}.{}", now.as_nanosecond(), self.count),
                "namespace": regarding.namespace.unwrap_or(NO_NAMESPACE),
            },
            // `MicroTime` is read with exactly six digits.
            "eventTime": format!("{now:.6}"),
            "type": if event.is_warning { "Warning" } else { "Normal" },
            "reason": event.reason,
            "action": self.action,
            "note": cut(event.note, MAX_NOTE),
            "regarding": regarding,
            "reportingController": self.controller,
            "reportingInstance": self.instance,
        })
    }

    /// Looks at the writes that have ended. The first that was forbidden is logged.
    pub fn reap(&mut self) {
        while let Some(ended) = self.sent.try_join_next() {
            if let Some(error) = ended.ok().and_then(refusal)
                && !std::mem::replace(&mut self.is_refused, true)
            {
                tracing::warn!(%error, "not allowed to write Events");
            }
        }
    }

    /// Waits for the writes on their way, no longer than `timeout`. An error if one was forbidden.
    pub async fn finish(&mut self, timeout: Duration) -> Option<ApiError> {
        let mut forbidden = None;
        let all = async {
            while let Some(ended) = self.sent.join_next().await {
                forbidden = forbidden.take().or_else(|| ended.ok().and_then(refusal));
            }
        };
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::debug!("Events were still on their way");
        }
        forbidden
    }
}

fn refusal(ended: ApiResult<()>) -> Option<ApiError> {
    match ended {
        Ok(()) => None,
        Err(error @ ApiError::Forbidden(_)) => Some(error),
        Err(error) => {
            tracing::debug!(%error, "an Event was not written");
            None
        }
    }
}

/// Creates an Event, again while the API server is busy: it has its name, so it cannot come twice.
async fn create(cluster: &Cluster, call: &Call) -> ApiResult<()> {
    let _turn = cluster.events.acquire().await;
    match cluster.read(call).await {
        Ok(_) | Err(ApiError::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
