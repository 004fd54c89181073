//! The audit that never sleeps: the rules of `kubectl nodelife audit`, over watches.
//!
//! ```text
//! watches ─► Feed ─► Store (one Snapshot) ─► audit ─► Contents ─► Publisher ─► ClusterReports
//!                                                        ├► News ─► Events
//!                                                        └► AuditMetrics
//! ```
//!
//! A whole audit checks all rules on the whole snapshot, since time itself may make a finding at any
//! moment. It takes about a twentieth of a second of a core for 30,000 pods, so it comes every few
//! seconds (`Pace`). A change that may be a fault by itself (`Early`) is audited at once; a node is,
//! by the rules that read no pods. All but the Publisher is on a thread of its own.

mod config;
mod content;
mod feed;
mod metrics;
mod news;
mod own_thread;
mod pace;
mod publisher;
mod report;
mod store;
#[cfg(test)]
mod tests;
mod watched;

use std::collections::BTreeSet;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
#[cfg(target_os = "linux")]
use nix::sys::resource::{UsageWho, getrusage};
#[cfg(target_os = "linux")]
use nix::sys::time::TimeValLike;
use nodelife_audit::{Audit, Selection};
use nodelife_cluster::snapshot::collect;
use nodelife_cluster::{ApiError, Cluster, Configz};
use nodelife_core::snapshot::{Snapshot, Source};
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::content::{Contents, divide};
use self::feed::Feed;
use self::metrics::AuditMetrics;
use self::news::News;
use self::own_thread::{Rests, on_own_thread};
use self::pace::{Extent, Pace};
use self::publisher::Publisher;
use self::store::Store;
use crate::part::{Part, Term};

/// How often the facts that cannot be watched are asked for: the server's version, whether the
/// Node authorizer is on, and the configurations of kubelets.
const BETWEEN_FACTS: Duration = Duration::from_mins(10);
/// The same, after the API server could not be reached.
const FACTS_AGAIN: Duration = Duration::from_secs(5);
/// For so long the first audit waits for the configurations of kubelets, some of which may be
/// silent: what a second audit finds is news.
const FIRST_CONFIGURATIONS: Duration = Duration::from_mins(1);

/// What the configuration file selects.
///
/// # Errors
///
/// The file cannot be read or is not valid.
pub(crate) fn selection(config: Option<&Path>) -> anyhow::Result<Selection> {
    config::read(config)
}

/// The part `audit` of the controller.
pub struct AuditPart {
    selection: Selection,
    /// Whether the kubelets are asked for their configurations.
    configz: bool,
    metrics: AuditMetrics,
}

impl AuditPart {
    /// Reads the configuration file and registers the metrics.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not valid.
    pub fn new(
        config: Option<&Path>,
        configz: bool,
        registry: &mut Registry,
    ) -> anyhow::Result<Self> {
        let metrics = AuditMetrics::default();
        registry.register_collector(Box::new(metrics.clone()));
        Ok(Self {
            selection: config::read(config)?,
            configz,
            metrics,
        })
    }

    async fn audit(
        &self,
        term: &Term,
        rests: &Rests,
        wanted: &watch::Sender<Arc<Contents>>,
    ) -> anyhow::Result<()> {
        let _clear = ClearAtEnd(&self.metrics);
        let cluster = term.cluster.with_own_connection()?;
        let mut feed = Feed::new(&cluster);
        let mut store = Store::default();
        let mut news = News::new(cluster.clone(), &term.identity);

        let begun = Instant::now();
        let (mut facts, mut has_facts) = (facts_at(&cluster, begun), false);
        let mut configurations = if self.configz {
            configurations_at(&cluster, begun)
        } else {
            pending().boxed()
        };
        let mut configurations_until = self.configz.then_some(begun + FIRST_CONFIGURATIONS);
        let mut pace = Pace::new(begun);
        let mut known = Audit::default();
        loop {
            let (due, extent) = pace.next();
            let due = configurations_until.unwrap_or(due).max(due);
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
                    let now = cluster.clock().now();
                    let took = self.check(extent, &mut store, &mut known, &mut news, wanted, now);
                    if !wanted.borrow().is_empty() {
                        rests.begin();
                    }
                    match took {
                        Some(took) => pace.audited(extent, took, Instant::now()),
                        None => pace.postponed(Instant::now()),
                    }
                }
                change = feed.next() => match change {
                    Some(change) => {
                        change(&mut store);
                        if let Some(extent) = store.take_wanted() {
                            pace.want(extent, Instant::now());
                        }
                    }
                    None => break,
                },
            }
        }
        Ok(())
    }

    /// Audits once, and returns the CPU time that it took; none while a list has not arrived. `known`
    /// is what the rules that read pods found last.
    fn check(
        &self,
        extent: Extent,
        store: &mut Store,
        known: &mut Audit,
        news: &mut News,
        wanted: &watch::Sender<Arc<Contents>>,
        now: Timestamp,
    ) -> Option<Duration> {
        let (begun, used) = (Instant::now(), cpu_time());
        let contents = store.judge(now, |snapshot| {
            let audit = match extent {
                Extent::Whole => {
                    let audit = nodelife_audit::audit(snapshot, &self.selection, now);
                    *known = nodelife_audit::found_by_pods(&audit);
                    audit
                }
                Extent::Nodes => {
                    nodelife_audit::audit_without_pods(known, snapshot, &self.selection, now)
                }
            };
            news.tell(&audit.findings, snapshot, now);
            let took = begun.elapsed();
            self.metrics
                .observe(&audit, snapshot.nodes.len(), now, took);
            divide(audit, snapshot)
        })?;
        wanted.send_if_modified(|known| {
            let is_new = **known != contents;
            if is_new {
                *known = Arc::new(contents);
            }
            is_new
        });
        let took = used.zip(cpu_time());
        Some(took.map_or_else(
            || begun.elapsed(),
            |(before, after)| after.saturating_sub(before),
        ))
    }
}

/// The CPU time of this thread so far, where the system tells it: on a busy machine an audit takes
/// longer, and no more of a core.
fn cpu_time() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        let times = [usage.user_time(), usage.system_time()];
        let micros: i64 = times.iter().map(TimeValLike::num_microseconds).sum();
        Some(Duration::from_micros(micros.unsigned_abs()))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

impl Part for AuditPart {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn run(self: Arc<Self>, term: Term) -> BoxFuture<'static, anyhow::Result<()>> {
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

struct ClearAtEnd<'a>(&'a AuditMetrics);

impl Drop for ClearAtEnd<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// How long to wait before what was read is asked for again.
fn until_again(read: &Result<Snapshot, ApiError>, what: &str) -> Duration {
    match read {
        Ok(_) => BETWEEN_FACTS,
        Err(error) => {
            tracing::warn!(%error, "failed to ask for {what}, retrying");
            FACTS_AGAIN
        }
    }
}

/// Asks, at this time, for the server's version and the permissions of nodes.
fn facts_at(cluster: &Cluster, at: Instant) -> BoxFuture<'static, Result<Snapshot, ApiError>> {
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

/// Asks, at this time, every kubelet for its configuration.
fn configurations_at(
    cluster: &Cluster,
    at: Instant,
) -> BoxFuture<'static, Result<Snapshot, ApiError>> {
    let cluster = cluster.clone();
    async move {
        sleep_until(at).await;
        let sources = BTreeSet::from([Source::Nodes, Source::KubeletConfigs]);
        collect(&cluster, &sources, Configz::Direct, |_| {}).await
    }
    .boxed()
}
