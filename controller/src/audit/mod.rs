//! The audit that never sleeps: the rules of `kubectl nodelife audit`, over watches.
//!
//! ```text
//! watches ─► Feed ─► Store (one Snapshot) ─► core::audit ─► Contents ─► Publisher ─► ClusterReports
//!                                                        ├► News ─► Events
//!                                                        └► AuditMetrics
//! ```
//!
//! Every audit checks all rules on the whole snapshot, since time itself may make a finding at any
//! moment. It takes about a twentieth of a second of a core for 30,000 pods; a pause of
//! `PAUSE_FACTOR` times as long keeps it below a fiftieth of a core, whatever the size of the
//! cluster. All but the Publisher is on a thread of its own.

mod config;
mod content;
mod feed;
mod metrics;
mod news;
mod own_thread;
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
use nodelife_cluster::snapshot::collect;
use nodelife_cluster::{ApiError, Cluster, Configz};
use nodelife_core::audit::{self, Selection};
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
use self::publisher::Publisher;
use self::store::Store;
use crate::part::{Part, Term};

/// After an audit, a pause of so many times its duration, within these limits: the shorter one
/// lets changes that belong together arrive.
const PAUSE_FACTOR: u32 = 75;
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
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
        let mut next = begun;
        loop {
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
                () = sleep_until(configurations_until.unwrap_or(next).max(next)), if has_facts => {
                    configurations_until = None;
                    let took = self.check(&mut store, &mut news, wanted, cluster.clock().now());
                    if !wanted.borrow().is_empty() {
                        rests.begin();
                    }
                    let (shortest, longest) = PAUSE;
                    next = Instant::now() + (took * PAUSE_FACTOR).clamp(shortest, longest);
                }
                change = feed.next() => match change {
                    Some(change) => change(&mut store),
                    None => break,
                },
            }
        }
        Ok(())
    }

    /// Audits once, if every list has arrived; returns the CPU time that it took.
    fn check(
        &self,
        store: &mut Store,
        news: &mut News,
        wanted: &watch::Sender<Arc<Contents>>,
        now: Timestamp,
    ) -> Duration {
        let (begun, used) = (Instant::now(), cpu_time());
        let contents = store.judge(now, |snapshot| {
            let audit = audit::audit(snapshot, &self.selection, now);
            news.tell(&audit.findings, snapshot, now);
            let took = begun.elapsed();
            self.metrics
                .observe(&audit, snapshot.nodes.len(), now, took);
            divide(audit, snapshot)
        });
        if let Some(contents) = contents {
            wanted.send_if_modified(|known| {
                let is_new = **known != contents;
                if is_new {
                    *known = Arc::new(contents);
                }
                is_new
            });
        }
        match used.zip(cpu_time()) {
            Some((before, after)) => after.saturating_sub(before),
            None => begun.elapsed(),
        }
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
