//! The audit that never sleeps: the rules of `kubectl nodelife audit`, over watches.
//!
//! ```text
//! watches ─► Feed ─► Store (one Snapshot) ─► audit ─► Contents ─► Publisher ─► ClusterReports
//!                                                        ├► FindingEvents ─► Events
//!                                                        └► AuditMetrics
//! ```
//!
//! Each audit checks all rules on the whole snapshot, since time alone can make a finding, and then
//! pauses (`pause`). All but the Publisher runs on a thread of its own.

mod content;
mod drainable;
mod events;
mod feed;
mod metrics;
mod own_thread;
mod publisher;
mod report;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use nodelife_audit::{AuditReport, Finding, Selection, Severity};
use nodelife_cluster::snapshot::collect;
use nodelife_cluster::{ApiResult, Cluster, Configz};
use nodelife_core::metric::Metric;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::content::{Contents, divide};
use self::events::FindingEvents;
use self::feed::Feed;
use self::metrics::AuditMetrics;
use self::own_thread::{Rests, on_own_thread};
use self::publisher::Publisher;
use self::store::Store;
use crate::part::{Part, Term};
use anyhow::{Context as _, Result};
use nodelife_audit::config::AuditConfig;
use nodelife_core::format::parse_error;

/// After an audit, a pause of so many times the time that it took, within these limits: audits take
/// half a percent of a core up to about 30,000 pods, and a fault is in the next audit 10 s later at
/// most.
const PAUSE_FACTOR: u32 = 200;
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The same between two answers to whether each node can be drained, each of which is a plan.
const BETWEEN_ANSWERS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_mins(10));
/// How often the facts that cannot be watched are asked for: the server's version, whether the
/// Node authorizer is on, and the configurations of kubelets.
const BETWEEN_FACTS: Duration = Duration::from_mins(10);
/// The same, after the API server could not be reached.
const FACTS_AGAIN: Duration = Duration::from_secs(5);
/// How long the first audit waits for configurations of kubelets: what a second audit finds is news.
const FIRST_CONFIGURATIONS: Duration = Duration::from_mins(1);

/// The errors about each node and its pods, or why nodes could not be judged.
pub(crate) type NodeErrors = Result<BTreeMap<Str, Vec<String>>, String>;

/// When the last audit began, and its errors.
pub(crate) type LastAudit = Option<(Instant, NodeErrors)>;

pub struct AuditPart {
    selection: Selection,
    last: watch::Sender<LastAudit>,
    configz: bool,
    metrics: AuditMetrics,
}

impl AuditPart {
    pub fn new(config: Option<&Path>, configz: bool, registry: &mut Registry) -> Result<Self> {
        let metrics = AuditMetrics::default();
        registry.register_collector(Box::new(metrics.clone()));
        Ok(Self {
            selection: selection(config)?,
            last: watch::Sender::default(),
            configz,
            metrics,
        })
    }

    pub(crate) fn last(&self) -> watch::Receiver<LastAudit> {
        self.last.subscribe()
    }

    async fn audit(
        &self,
        term: &Term,
        rests: &Rests,
        wanted: &watch::Sender<Arc<Contents>>,
    ) -> Result<()> {
        let _clear = ClearAtEnd(&self.metrics);
        let cluster = term.cluster.with_own_connection()?;
        let mut feed = Feed::new(&cluster);
        let mut store = Store::default();
        let mut events = FindingEvents::new(&cluster, &term.identity);

        let begun = Instant::now();
        let (mut facts, mut has_facts) = (facts_at(&cluster, begun), false);
        let mut configurations = if self.configz {
            configurations_at(&cluster, begun)
        } else {
            pending().boxed()
        };
        let mut configurations_until = self.configz.then_some(begun + FIRST_CONFIGURATIONS);
        let mut next = begun;
        let (mut drainable, mut answers_due) = (None, begun);
        loop {
            let due = configurations_until.unwrap_or(next).max(next);
            tokio::select! {
                biased;
                () = term.cancel.cancelled() => break,
                read = &mut facts => {
                    let at = Instant::now() + until_again(&read, "the server's version");
                    if let Ok(read) = read {
                        store.set_facts(read);
                        has_facts = true;
                    }
                    facts = facts_at(&cluster, at);
                }
                read = &mut configurations => {
                    let at = Instant::now() + until_again(&read, "the nodes, to ask their kubelets");
                    if let Ok(read) = read {
                        store.set_configurations(read);
                        configurations_until = None;
                    }
                    configurations = configurations_at(&cluster, at);
                }
                () = sleep_until(due), if has_facts => {
                    configurations_until = None;
                    let (begun, now) = (Instant::now(), cluster.clock().now());
                    if begun >= answers_due {
                        drainable = drainable::look(&mut store, now).await;
                        let took = begun.elapsed();
                        answers_due = Instant::now() + pause(took, BETWEEN_ANSWERS);
                    }
                    let begun = Instant::now();
                    if self.check(&mut store, &mut events, wanted, drainable.as_ref(), now) {
                        rests.begin();
                    }
                    next = Instant::now() + pause(begun.elapsed(), PAUSE);
                }
                change = feed.next() => match change {
                    Some(change) => change(&mut store),
                    None => break,
                },
            }
        }
        Ok(())
    }

    /// Audits once. Returns false while a list has not arrived.
    fn check(
        &self,
        store: &mut Store,
        events: &mut FindingEvents,
        wanted: &watch::Sender<Arc<Contents>>,
        drainable: Option<&(Metric, Vec<Finding>)>,
        now: Timestamp,
    ) -> bool {
        let begun = Instant::now();
        let contents = store.judge(now, |snapshot| {
            let audit = nodelife_audit::audit(snapshot, &self.selection, now);
            events.record(&audit.findings, snapshot);
            let errors = node_errors(&audit.findings, snapshot);
            self.last.send_replace(Some((begun, errors)));
            let took = begun.elapsed();
            let mut report = AuditReport::new(snapshot, snapshot.nodes.len(), audit, |_| false);
            let mut metrics = nodelife_audit::metrics(&report, false);
            if let Some((metric, results)) = drainable.cloned() {
                metrics.push(metric);
                report.findings.extend(results);
            }
            self.metrics.observe(metrics, took);
            divide(report, snapshot)
        });
        let Some(contents) = contents else {
            return false;
        };
        wanted.send_if_modified(|known| {
            let is_new = **known != contents;
            if is_new {
                *known = Arc::new(contents);
            }
            is_new
        });
        true
    }
}

fn pause(took: Duration, (shortest, longest): (Duration, Duration)) -> Duration {
    (took * PAUSE_FACTOR).clamp(shortest, longest)
}

impl Part for AuditPart {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn run(self: Arc<Self>, term: Term) -> BoxFuture<'static, Result<()>> {
        async move {
            // Also if the part is dropped: then no report is written any more, and the thread ends.
            let cancel = term.cancel.child_token();
            let _end = cancel.clone().drop_guard();
            let (wanted, receiver) = watch::channel(Arc::new(Contents::new()));
            let mut tasks = JoinSet::new();
            tasks.spawn(Publisher::new(term.cluster.clone()).run(receiver));
            let term = Term { cancel, ..term };
            let part = Arc::clone(&self);
            on_own_thread(async move |rests| part.audit(&term, &rests, &wanted).await).await?
        }
        .boxed()
    }
}

pub(crate) fn node_errors(findings: &[Finding], snapshot: &Snapshot) -> NodeErrors {
    if let Some(why) = snapshot.missing.get(&Source::Nodes) {
        return Err(format!("the audit could not read the nodes: {why}"));
    }
    let mut nodes = BTreeMap::new();
    let mut pods: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for found in findings
        .iter()
        .filter(|one| one.severity == Severity::Error)
    {
        let (subject, text) = (&found.subject, format!("{}: {}", found.rule, found.message));
        match (subject.kind.as_str(), &subject.namespace) {
            ("Node", _) => nodes
                .entry(subject.name.clone())
                .or_insert_with(Vec::new)
                .push(text),
            ("Pod", Some(namespace)) => pods
                .entry((namespace, &subject.name))
                .or_default()
                .push(text),
            _ => {}
        }
    }
    for pod in &snapshot.pods {
        let meta = &pod.metadata;
        if let Some(errors) = pods.remove(&(meta.namespace.as_str(), meta.name.as_str())) {
            nodes
                .entry(pod.spec.node_name.clone())
                .or_default()
                .extend(errors);
        }
    }
    Ok(nodes)
}

struct ClearAtEnd<'a>(&'a AuditMetrics);

impl Drop for ClearAtEnd<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

fn until_again(read: &ApiResult<Snapshot>, what: &str) -> Duration {
    match read {
        Ok(_) => BETWEEN_FACTS,
        Err(error) => {
            tracing::warn!(%error, "failed to ask for {what}, retrying");
            FACTS_AGAIN
        }
    }
}

fn facts_at(cluster: &Cluster, at: Instant) -> BoxFuture<'static, ApiResult<Snapshot>> {
    let cluster = cluster.clone();
    async move {
        sleep_until(at).await;
        let version = cluster.fetch_version().await?;
        let sources = BTreeSet::from([Source::NodeAuthorizer]);
        let mut facts = collect(&cluster, &sources, Configz::Proxy, |_| {}).await?;
        facts.server_version = version.map(|version| version.git_version.as_str().into());
        Ok(facts)
    }
    .boxed()
}

fn configurations_at(cluster: &Cluster, at: Instant) -> BoxFuture<'static, ApiResult<Snapshot>> {
    let cluster = cluster.clone();
    async move {
        sleep_until(at).await;
        let sources = BTreeSet::from([Source::Nodes, Source::KubeletConfigs]);
        collect(&cluster, &sources, Configz::Direct, |_| {}).await
    }
    .boxed()
}

/// The selection of the configuration file, as `kubectl nodelife audit --config` takes it; everything
/// without one. Its outputs and its exit status do not concern the controller.
pub(crate) fn selection(file: Option<&Path>) -> Result<Selection> {
    let Some(path) = file else {
        return Ok(Selection::default());
    };
    let place = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {place}"))?;
    let config: AuditConfig = serde_saphyr::from_str(&text)
        .map_err(|error| anyhow::anyhow!("{place}: {}", parse_error(&error.to_string())))?;
    let excludes = config.excludes(&place);
    let selection = Selection {
        excludes: excludes.map_err(|error| anyhow::anyhow!("{place}: {error}"))?,
        severities: config.severities(),
        severity: config.severity.unwrap_or_default(),
        ..Selection::default()
    };
    for removed in nodelife_audit::removed_in(&selection) {
        tracing::warn!("{place}: {removed}");
    }
    Ok(selection)
}
