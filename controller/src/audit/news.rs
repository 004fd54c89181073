//! [`News`]: Kubernetes Events about findings that appear and disappear.
//!
//! The first audit of a term makes none: what it finds is no news, unless it came while no replica
//! was the leader.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::time::Duration;

use foldhash::quality::FixedState;
use jiff::Timestamp;
use nodelife_audit::{Finding, Severity};
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::object::Meta;
use nodelife_core::snapshot::Snapshot;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::report::{ObjectRef, ResultKey, WRITER, api_version, key};

const EVENTS: Resource = Resource::grouped("events.k8s.io", "v1", "events");
/// Events about objects without a namespace are kept here
/// (`legacyValidateEvent` of pkg/apis/core/validation/events.go, v1.36.3).
const NO_NAMESPACE: &str = "default";
/// The longest note that the API server takes, in bytes (`NoteLengthLimit`, same file), and the
/// longest instance.
const MAX_NOTE: usize = 1024;
const MAX_INSTANCE: usize = 128;
/// Events at once, and how soon there is room for one more. client-go's limits for one object are
/// 25 and 5 minutes (v0.36.3, `tools/record/events_cache.go`); these are for all.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(5);

/// Writes the Events.
pub(super) struct News {
    cluster: Cluster,
    /// Who audits, for `reportingInstance`.
    instance: String,
    known: Option<BTreeMap<ResultKey, Known>>,
    /// Of the findings that are known.
    hash: u64,
    room: u32,
    filled: Instant,
    count: u64,
    sent: JoinSet<Result<(), ApiError>>,
    is_refused: bool,
}

/// What is remembered of a finding.
struct Known {
    kind: String,
    name: String,
    namespace: Option<String>,
    title: String,
}

impl News {
    pub(super) fn new(cluster: Cluster, instance: &str) -> Self {
        Self {
            cluster,
            instance: shortened(instance, MAX_INSTANCE).to_owned(),
            known: None,
            hash: 0,
            room: BURST,
            filled: Instant::now(),
            count: 0,
            sent: JoinSet::new(),
            is_refused: false,
        }
    }

    /// Writes an Event for each difference to the findings before, as far as there is room. What
    /// there is no room for is in the log alone.
    pub(super) fn tell(&mut self, findings: &[Finding], snapshot: &Snapshot, now: Timestamp) {
        self.reap();
        let hash = hash(findings);
        if self.known.is_some() && hash == self.hash {
            return;
        }
        self.hash = hash;
        let mut before = self.known.take();
        let is_first = before.is_none();
        let mut known = BTreeMap::new();
        for finding in findings {
            let key = key(finding);
            let old = before.as_mut().and_then(|before| before.remove(&key));
            let one = old.unwrap_or_else(|| {
                let one = Known::of(finding);
                if !is_first && !known.contains_key(&key) {
                    let kind = match finding.severity {
                        Severity::Error | Severity::Warning => "Warning",
                        Severity::Info => "Normal",
                    };
                    let note = format!("{}: {}", finding.rule, finding.message);
                    self.send(&one, kind, "AuditFinding", &note, snapshot, now);
                }
                one
            });
            known.insert(key, one);
        }
        for ((rule, _), one) in before.into_iter().flatten() {
            let note = format!("{rule}: no longer found: {}", one.title);
            self.send(&one, "Normal", "AuditFindingResolved", &note, snapshot, now);
        }
        self.known = Some(known);
    }

    fn send(
        &mut self,
        about: &Known,
        kind: &str,
        reason: &str,
        note: &str,
        snapshot: &Snapshot,
        now: Timestamp,
    ) {
        tracing::info!(
            kind = about.kind,
            namespace = about.namespace,
            name = about.name,
            reason,
            "{note}"
        );
        let Some(api_version) = api_version(&about.kind) else {
            return;
        };
        if !self.takes_room() {
            return;
        }
        self.count += 1;
        let namespace = about.namespace.as_deref().unwrap_or(NO_NAMESPACE);
        let regarding = ObjectRef {
            api_version,
            kind: &about.kind,
            name: &about.name,
            namespace: about.namespace.as_deref(),
            uid: about.find(snapshot).map(|meta| meta.uid.as_str()),
        };
        let event = self.event(
            &about.name,
            namespace,
            (kind, reason, note),
            &regarding,
            now,
        );
        let call = match Call::create(EVENTS.all().in_namespace(namespace), &event) {
            Ok(call) => call,
            Err(error) => return tracing::debug!(%error, "failed to write an event"),
        };
        let cluster = self.cluster.clone();
        self.sent
            .spawn(async move { create(&cluster, &call).await });
    }

    fn event(
        &self,
        name: &str,
        namespace: &str,
        (kind, reason, note): (&str, &str, &str),
        regarding: &ObjectRef<'_>,
        now: Timestamp,
    ) -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{:x}.{}", shortened(name, 200), now.as_nanosecond(), self.count),
                "namespace": namespace,
            },
            // MicroTime is read with exactly six digits.
            "eventTime": format!("{now:.6}"),
            "type": kind,
            "reason": reason,
            "action": "Audit",
            "note": shortened(note, MAX_NOTE),
            "regarding": regarding,
            "reportingController": format!("nodelife.dev/{WRITER}"),
            "reportingInstance": self.instance,
        })
    }

    fn takes_room(&mut self) -> bool {
        while self.room < BURST && self.filled.elapsed() >= REFILL {
            self.filled += REFILL;
            self.room += 1;
        }
        if self.room == BURST {
            self.filled = Instant::now();
        }
        let Some(left) = self.room.checked_sub(1) else {
            return false;
        };
        self.room = left;
        true
    }

    /// Collects what became of the Events; says once that they are forbidden.
    fn reap(&mut self) {
        while let Some(ended) = self.sent.try_join_next() {
            match ended {
                Ok(Err(error @ ApiError::Forbidden(_))) if !self.is_refused => {
                    self.is_refused = true;
                    tracing::warn!(%error, "not allowed to write Events");
                }
                Ok(Err(error)) => tracing::debug!(%error, "an Event was not written"),
                Ok(Ok(())) | Err(_) => {}
            }
        }
    }
}

/// Of what findings are known by. Most audits find what the one before found.
fn hash(findings: &[Finding]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    for finding in findings {
        (&finding.rule, &finding.subject).hash(&mut hasher);
    }
    hasher.finish()
}

/// Creates the Event. Sent again while the API server is busy: it has its name, so that none
/// comes twice.
async fn create(cluster: &Cluster, call: &Call) -> Result<(), ApiError> {
    match cluster.read(call).await {
        Ok(_) | Err(ApiError::Conflict(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Known {
    fn of(finding: &Finding) -> Self {
        let subject = &finding.subject;
        Self {
            kind: subject.kind.to_string(),
            name: subject.name.to_string(),
            namespace: subject.namespace.as_ref().map(ToString::to_string),
            title: finding.title.to_string(),
        }
    }

    /// The object, where `kubectl describe` finds Events by its UID.
    fn find<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Meta> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let is_it = |meta: &&Meta| meta.name == *self.name && meta.namespace == *namespace;
        match self.kind.as_str() {
            "Node" => snapshot.nodes.iter().map(|node| &node.metadata).find(is_it),
            "Pod" => snapshot.pods.iter().map(|pod| &pod.metadata).find(is_it),
            "PodDisruptionBudget" => snapshot
                .budgets
                .iter()
                .map(|budget| &budget.metadata)
                .find(is_it),
            _ => None,
        }
    }
}

/// As much of a text as fits into so many bytes.
fn shortened(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
