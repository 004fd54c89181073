//! Events: what nodelife tells those who look at a node later.

use jiff::Timestamp;
use serde_json::json;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::request::Call;
use crate::resource::EVENTS;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the object that it is about (`Node`, `Pod`).
    pub kind: &'static str,
    /// Its namespace; empty for nodes.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID. The kubelet and the scheduler give a node's name instead, and
    /// `kubectl describe node` looks for both.
    pub uid: String,
    /// `Normal` or `Warning`.
    pub severity: &'static str,
    /// A word for machines: `Drained`, `DrainBlocked`.
    pub reason: &'static str,
    /// A sentence for people; at most 1024 characters (`k8s.io/kubernetes`
    /// `pkg/apis/core/validation/events.go`, v1.36.3).
    pub message: String,
    /// When.
    pub at: Timestamp,
}

impl Cluster {
    /// Posts an event, once.
    ///
    /// # Errors
    ///
    /// [`ApiError`]; whoever drains goes on without.
    pub async fn post_event(&self, event: &Event) -> Result<(), ApiError> {
        let namespace = if event.namespace.is_empty() {
            "default"
        } else {
            &event.namespace
        };
        let message: String = event.message.chars().take(1024).collect();
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "generateName": "nodelife-", "namespace": namespace },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": event.kind,
                "namespace": event.namespace,
                "name": event.name,
                "uid": event.uid,
            },
            "type": event.severity,
            "reason": event.reason,
            "message": message,
            "firstTimestamp": whole_seconds(event.at),
            "lastTimestamp": whole_seconds(event.at),
            "count": 1,
            "source": { "component": "nodelife" },
            "reportingComponent": "nodelife",
            "reportingInstance": "nodelife",
        });
        let call = Call::create(EVENTS.all().in_namespace(namespace), &body)?;
        self.call(&call).await.map(|_created| ())
    }
}

/// `metav1.Time` has whole seconds.
fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}
