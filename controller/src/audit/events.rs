//! [`FindingEvents`]: Kubernetes Events about findings that appear and disappear.
//!
//! The first audit of a term makes none: it cannot tell what appeared while no replica was the leader.

use std::collections::BTreeMap;
use std::time::Duration;

use nodelife_audit::{Finding, Severity, Subject};
use nodelife_cluster::Cluster;
use nodelife_cluster::event_recorder::{Event, EventRecorder, ObjectReference};
use nodelife_core::object::Meta;
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use tokio::time::Instant;

use super::report::{ResultKey, api_version, key};

/// Events at once, and how soon there is room for one more. client-go's limits for one object are
/// 25 and 5 minutes (v0.36.3, `tools/record/events_cache.go`); these are for all.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(5);

pub(super) struct FindingEvents {
    recorder: EventRecorder,
    known: Option<BTreeMap<ResultKey, (Subject, Str)>>,
    room: u32,
    filled: Instant,
}

impl FindingEvents {
    pub(super) fn new(cluster: &Cluster, instance: &str) -> Self {
        let controller = "nodelife.dev/nodelife-controller";
        Self {
            recorder: EventRecorder::new(cluster, controller, "Audit", instance),
            known: None,
            room: BURST,
            filled: Instant::now(),
        }
    }

    /// Records each difference to the findings before; what there is no room for is in the log alone.
    pub(super) fn record(&mut self, findings: &[Finding], snapshot: &Snapshot) {
        self.recorder.reap();
        let mut before = self.known.take();
        let is_first = before.is_none();
        let mut known = BTreeMap::new();
        for finding in findings {
            let key = key(finding);
            let old = before.as_mut().and_then(|before| before.remove(&key));
            if old.is_none() && !is_first && !known.contains_key(&key) {
                let event = Event {
                    is_warning: finding.severity > Severity::Info,
                    reason: "AuditFinding",
                    note: &format!("{}: {}", finding.rule, finding.message),
                };
                self.send(&finding.subject, event, snapshot);
            }
            known.insert(key, (finding.subject.clone(), finding.title.clone()));
        }
        for ((rule, _), (subject, title)) in before.into_iter().flatten() {
            let event = Event {
                is_warning: false,
                reason: "AuditFindingResolved",
                note: &format!("{rule}: no longer found: {title}"),
            };
            self.send(&subject, event, snapshot);
        }
        self.known = Some(known);
    }

    fn send(&mut self, about: &Subject, event: Event<'_>, snapshot: &Snapshot) {
        let Event { reason, note, .. } = event;
        tracing::info!(object = about.path(), reason, "{note}");
        let Some(api_version) = api_version(&about.kind).filter(|_| self.takes_room()) else {
            return;
        };
        let regarding = ObjectReference {
            api_version,
            kind: &about.kind,
            name: &about.name,
            namespace: about.namespace.as_deref(),
            uid: find(about, snapshot).map(|meta| meta.uid.as_str()),
        };
        self.recorder.record(regarding, event);
    }

    fn takes_room(&mut self) -> bool {
        while self.room < BURST && self.filled.elapsed() >= REFILL {
            self.filled += REFILL;
            self.room += 1;
        }
        if self.room == BURST {
            self.filled = Instant::now();
        }
        let left = self.room.checked_sub(1);
        self.room = left.unwrap_or_default();
        left.is_some()
    }
}

fn find<'a>(subject: &Subject, snapshot: &'a Snapshot) -> Option<&'a Meta> {
    let namespace = subject.namespace.as_deref().unwrap_or_default();
    let is_it = |meta: &&Meta| meta.name == subject.name && meta.namespace == *namespace;
    match subject.kind.as_str() {
        "Node" => snapshot.nodes.iter().map(|node| &node.metadata).find(is_it),
        "Pod" => snapshot.pods.iter().map(|pod| &pod.metadata).find(is_it),
        "PodDisruptionBudget" => {
            let budgets = snapshot.budgets.iter();
            budgets.map(|budget| &budget.metadata).find(is_it)
        }
        _ => None,
    }
}
