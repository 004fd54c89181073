//! [`Publisher`]: writes reports as `ClusterReport` and `Report` objects, only when they change and at
//! most once in [`BETWEEN_WRITES`] each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use http::Method;
use jiff::Timestamp;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, ApiResult, Cluster};
use nodelife_core::object::Meta;
use nodelife_core::text::Str;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::content::{Content, Contents, Digest};
use super::report::{
    CLUSTER_REPORTS, DIGEST, FirstFound, KnownReport, MANAGED_BY, REPORTS, WRITER, keys, render,
    target,
};

pub(super) const BETWEEN_WRITES: Duration = Duration::from_secs(30);
/// How old the numbers in messages may get while the facts stay.
const LONGEST_REFRESH: Duration = Duration::from_mins(10);
/// How often the reports that are there are listed, to find those that somebody else deleted.
const BETWEEN_LISTS: Duration = Duration::from_mins(10);
/// How often a cluster without the resource is asked again.
const BETWEEN_TRIES: Duration = Duration::from_mins(1);
/// Writes at the same time: a mass failure is no reason to flood the API server.
const WRITES_AT_ONCE: usize = 4;
const PAGE: &str = "500";

pub(super) struct Publisher {
    cluster: Cluster,
    written: BTreeMap<String, Written>,
    installed: Option<bool>,
}

#[derive(Default)]
struct Written {
    /// The digests; absent where there is no report, or an unknown one.
    facts: String,
    texts: String,
    at: Option<Instant>,
    /// The time at which each result was first found; none before it was read.
    found: Option<FirstFound>,
    exists: bool,
}

impl Written {
    fn forget(&mut self) {
        let at = self.at;
        *self = Self {
            at,
            ..Self::default()
        };
    }
}

#[derive(Deserialize)]
struct MetaList {
    metadata: ListMeta,
    /// The API server writes null for none.
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Meta,
}

/// A report to write, by its name, and what it is to say; to delete where that is nothing.
type Due<'a> = (String, Option<(&'a Content, Digest)>);

impl Publisher {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            written: BTreeMap::new(),
            installed: None,
        }
    }

    /// Writes what `wanted` says, for as long as there is a sender.
    pub(super) async fn run(mut self, mut wanted: watch::Receiver<Arc<Contents>>) {
        let mut list_at = Instant::now();
        loop {
            if Instant::now() >= list_at {
                let pause = match self.list().await {
                    Ok(()) => BETWEEN_LISTS,
                    Err(error) => self.unreadable(&error),
                };
                list_at = Instant::now() + pause;
            }
            let contents = Arc::clone(&wanted.borrow_and_update());
            let mut next = list_at;
            // Before the first audit there is no report at all, which is no reason to delete any.
            if self.installed == Some(true) && !contents.is_empty() {
                let (due, later) = self.due(&contents, Instant::now());
                next = later.map_or(next, |later| next.min(later));
                self.write(due).await;
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() {
                    return;
                },
                () = sleep_until(next) => {}
            }
        }
    }

    fn unreadable(&mut self, error: &ApiError) -> Duration {
        if !matches!(error, ApiError::NotFound(_) | ApiError::Forbidden(_)) {
            tracing::warn!(%error, "failed to list ClusterReports, retrying");
            return Duration::from_secs(5);
        }
        if self.installed != Some(false) {
            self.installed = Some(false);
            self.written.clear();
            tracing::warn!(
                %error,
                "no ClusterReports of openreports.io: the audit writes Events and metrics alone"
            );
        }
        BETWEEN_TRIES
    }

    /// Reads which reports there are, by their metadata alone.
    async fn list(&mut self) -> ApiResult<()> {
        let mut found = BTreeMap::new();
        for resource in [CLUSTER_REPORTS, REPORTS] {
            self.list_of(resource, &mut found).await?;
        }
        if self.installed != Some(true) {
            self.installed = Some(true);
            tracing::info!(
                reports = found.len(),
                "writing ClusterReports of openreports.io"
            );
        }
        for (name, written) in &mut self.written {
            if !found.contains_key(name) {
                written.forget();
            }
        }
        for (name, digest) in found {
            let (facts, texts) = digest.split_once('-').unwrap_or_default();
            let written = self.written.entry(name).or_default();
            written.exists = true;
            facts.clone_into(&mut written.facts);
            texts.clone_into(&mut written.texts);
        }
        Ok(())
    }

    /// Adds the names of the reports of one resource, with their digests.
    async fn list_of(
        &self,
        resource: Resource,
        found: &mut BTreeMap<String, Str>,
    ) -> ApiResult<()> {
        let mut next = String::new();
        loop {
            let mut call = Call::on(Method::GET, "list", resource.all())
                .with_accept("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
                .with_query("labelSelector", format!("{MANAGED_BY}={WRITER}"))
                .with_query("limit", PAGE);
            if !next.is_empty() {
                call = call.with_query("continue", next);
            }
            let page: MetaList = self.cluster.read(&call).await?.json(&call)?;
            for Item { metadata } in page.items.unwrap_or_default() {
                let digest = metadata.annotations.get(DIGEST).cloned();
                // Of a ClusterReport, nothing is before the slash.
                let name = metadata.full_name().trim_start_matches('/').to_owned();
                found.insert(name, digest.unwrap_or_default());
            }
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(());
            }
        }
    }

    /// The writes that are due now, and the time of the next.
    fn due<'a>(&self, contents: &'a Contents, now: Instant) -> (Vec<Due<'a>>, Option<Instant>) {
        let mut due = Vec::new();
        let mut later: Option<Instant> = None;
        let unknown = Written::default();
        let wanted: BTreeMap<&String, (&Content, Digest)> = (contents.iter())
            .map(|(name, content)| (name, (content, content.digest())))
            .collect();
        for name in contents
            .keys()
            .chain(self.written.keys())
            .collect::<BTreeSet<_>>()
        {
            let written = self.written.get(name).unwrap_or(&unknown);
            let content = wanted.get(name);
            let pause = match content {
                Some((_, new)) if !written.exists || new.facts != written.facts => BETWEEN_WRITES,
                Some((_, new)) if new.texts != written.texts => LONGEST_REFRESH,
                None if written.exists => BETWEEN_WRITES,
                Some(_) | None => continue,
            };
            // A report of an earlier leader: its numbers may be as old as the term.
            let at = written.at.map_or(now, |at| at + pause);
            if at > now {
                later = Some(later.map_or(at, |other| other.min(at)));
                continue;
            }
            due.push((name.clone(), content.cloned()));
        }
        (due, later)
    }

    async fn write(&mut self, due: Vec<Due<'_>>) {
        let now = self.cluster.clock().now();
        let mut writes = Vec::new();
        for (name, content) in due {
            let content = content.map(|(content, digest)| {
                let written = self.written.entry(name.clone()).or_default();
                let known = written.found.take().filter(|_| written.exists);
                (content, digest, known.ok_or(written.exists))
            });
            writes.push((name, content));
        }
        let cluster = &self.cluster;
        let writes = writes.into_iter().map(|(name, content)| {
            let write = async move {
                let result = match content {
                    None => delete(cluster, &name).await.map(|()| None),
                    Some((content, digest, known)) => {
                        let found = apply(cluster, &name, content, &digest, known, now).await;
                        found.map(|found| Some((digest, found)))
                    }
                };
                (name, result)
            };
            write.boxed()
        });
        let writes: Vec<_> = writes.collect();
        let ended = futures::stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        for (name, result) in ended.collect::<Vec<_>>().await {
            let written = self.written.entry(name.clone()).or_default();
            written.at = Some(Instant::now());
            match result {
                Ok(Some((digest, found))) => {
                    written.exists = true;
                    written.facts = digest.facts;
                    written.texts = digest.texts;
                    written.found = Some(found);
                }
                Ok(None) => written.forget(),
                Err(error @ ApiError::Conflict(_)) => {
                    written.at = Some(Instant::now() + LONGEST_REFRESH);
                    tracing::warn!(name, %error, "left a report of somebody else as it is");
                }
                Err(error) => tracing::warn!(name, %error, "failed to write a report, retrying"),
            }
        }
        // Of those that are gone nothing has to be known once they may be written again.
        let end = Instant::now();
        self.written
            .retain(|_, one| one.exists || one.at.is_some_and(|at| at + BETWEEN_WRITES > end));
    }
}

/// Writes a report; returns when each of its results was first found. `known` has these times, or
/// says whether there is a report to read them from.
async fn apply(
    cluster: &Cluster,
    name: &str,
    content: &Content,
    digest: &Digest,
    known: Result<FirstFound, bool>,
    now: Timestamp,
) -> ApiResult<FirstFound> {
    let target = target(name);
    let is_ours = !matches!(known, Err(false));
    let mut known = match known {
        Ok(known) => known,
        Err(false) => FirstFound::new(),
        Err(true) => {
            let report: Option<KnownReport> = cluster.get(target.clone()).await?;
            report.map(KnownReport::first_found).unwrap_or_default()
        }
    };
    let found = keys(content).map(|key| {
        let time = known.remove(&key).unwrap_or(now);
        (key, time)
    });
    let found: FirstFound = found.collect();
    let report = render(name, content, digest, &found);
    // The whole of our own object is ours: force takes over what somebody else has set.
    let call = Call::on(Method::PATCH, "patch", target)
        .with_query("fieldManager", WRITER)
        .with_query("force", is_ours.to_string())
        .with_json("application/apply-patch+yaml", &report)?;
    // Both writes leave the same behind however often they are sent.
    cluster.read(&call).await?;
    Ok(found)
}

async fn delete(cluster: &Cluster, name: &str) -> ApiResult<()> {
    let call = Call::on(Method::DELETE, "delete", target(name));
    match cluster.read(&call).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
