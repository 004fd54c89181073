//! Kubernetes Events that a drain records on its nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::object::Node;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::reporter::Reporter;

/// `events.k8s.io/v1` events.
const EVENTS: Resource = Resource::grouped("events.k8s.io", "v1", "events");

/// Events about objects without a namespace are kept here
/// (`legacyValidateEvent` of pkg/apis/core/validation/events.go, v1.36.3).
const NAMESPACE: &str = "default";

/// The longest note that the API server takes, in bytes (`NoteLengthLimit`, same file).
const MAX_NOTE: usize = 1024;

/// No drain writes more: a thousand blocked pods are no reason for a thousand events.
const MAX_EVENTS: usize = 100;

/// Writes events, one request each, without delaying the drain.
pub(crate) struct Events {
    cluster: Cluster,
    /// Who drains, for `reportingInstance`.
    instance: String,
    nodes: Vec<Node>,
    reported: BTreeSet<(String, &'static str, String)>,
    sent: JoinSet<Option<ApiError>>,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventReason {
    /// Cordoned; evictions begin.
    Started,
    /// A budget has let nothing go for a while.
    Blocked,
    /// Nothing is left that had to go.
    Drained,
    /// Ended before it was empty.
    Stopped,
}

impl EventReason {
    fn reason(self) -> &'static str {
        match self {
            Self::Started => "DrainStarted",
            Self::Blocked => "DrainBlocked",
            Self::Drained => "Drained",
            Self::Stopped => "DrainStopped",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Started | Self::Drained => "Normal",
            Self::Blocked | Self::Stopped => "Warning",
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    #[serde(rename = "eventTime")]
    at: String,
    #[serde(rename = "type")]
    severity: &'static str,
    reason: &'static str,
    action: &'static str,
    note: &'a str,
    regarding: Regarding<'a>,
    reporting_controller: &'static str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: String,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Regarding<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
    uid: &'a str,
}

impl Events {
    pub(crate) fn new(cluster: &Cluster, nodes: &[Node], instance: &str) -> Self {
        Self {
            cluster: cluster.clone(),
            // At most 128 bytes: `ReportingInstanceLengthLimit`.
            instance: shortened(instance, 128).to_owned(),
            nodes: nodes.to_vec(),
            reported: BTreeSet::new(),
            sent: JoinSet::new(),
            count: 0,
        }
    }

    /// Writes an event, unless the node has one of this kind about the same thing.
    pub(crate) fn record(&mut self, node: &str, what: EventReason, about: &str, text: &str) {
        let news = (node.to_owned(), what.reason(), about.to_owned());
        if self.reported.len() >= MAX_EVENTS || !self.reported.insert(news) {
            return;
        }
        let Some(node) = self.nodes.iter().find(|known| known.metadata.name == node) else {
            return;
        };
        self.count += 1;
        let now = self.cluster.clock().now();
        let event = event(node, what, text, &self.instance, (now, self.count));
        let target = EVENTS.all().in_namespace(NAMESPACE);
        let call = match Call::create(target, &event) {
            Ok(call) => call,
            Err(error) => {
                tracing::debug!(%error, "failed to write an event");
                return;
            }
        };
        let cluster = self.cluster.clone();
        self.sent
            .spawn(async move { cluster.call(&call).await.err() });
    }

    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Waits for those that are on their way, no longer than `timeout`, and says if they were
    /// not allowed.
    pub(crate) async fn finish(&mut self, timeout: Duration, reporter: &mut dyn Reporter) {
        let mut refused = None;
        let all = async {
            while let Some(ended) = self.sent.join_next().await {
                match ended {
                    Ok(Some(why @ ApiError::Forbidden(_))) => refused = Some(why),
                    Ok(Some(error)) => tracing::debug!(%error, "an event was not written"),
                    Ok(None) | Err(_) => {}
                }
            }
        };
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::debug!("events were still on their way");
        }
        if let Some(why) = refused {
            reporter.note(format_args!("failed to record events on the nodes: {why}"));
        }
    }
}

fn event<'a>(
    node: &'a Node,
    what: EventReason,
    text: &'a str,
    instance: &'a str,
    (now, count): (Timestamp, u32),
) -> Event<'a> {
    let meta = &node.metadata;
    Event {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        metadata: Metadata {
            name: format!("{}.{:x}.{count}", meta.name, now.as_nanosecond()),
            namespace: NAMESPACE,
        },
        // `MicroTime` is read with exactly six digits.
        at: format!("{now:.6}"),
        severity: what.kind(),
        reason: what.reason(),
        action: "Drain",
        note: shortened(text, MAX_NOTE),
        regarding: Regarding {
            api_version: "v1",
            kind: "Node",
            name: &meta.name,
            uid: &meta.uid,
        },
        reporting_controller: "nodelife.dev/drain",
        reporting_instance: instance,
    }
}

/// As much of a text as fits into this many bytes.
fn shortened(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_fields_that_the_api_server_requires() {
        let mut node = Node::default();
        node.metadata.name = "a".into();
        node.metadata.uid = "u".into();
        let now = Timestamp::from_second(60).unwrap();
        let event = event(
            &node,
            EventReason::Blocked,
            "web waits",
            "ann@desk",
            (now, 2),
        );
        assert_eq!(
            serde_json::to_string(&event).unwrap(),
            r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"a.df8475800.2","namespace":"default"},"eventTime":"1970-01-01T00:01:00.000000Z","type":"Warning","reason":"DrainBlocked","action":"Drain","note":"web waits","regarding":{"apiVersion":"v1","kind":"Node","name":"a","uid":"u"},"reportingController":"nodelife.dev/drain","reportingInstance":"ann@desk"}"#
        );
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        assert_eq!(shortened("aé", 2), "a");
        assert_eq!(shortened("aé", 3), "aé");
    }
}
