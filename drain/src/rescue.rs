//! `Rescue`: gives a dead node the out-of-service taint, waits, and takes it back at a sign of life.

mod replacements;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::{self, Listing, Object};
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, ApiResult, Cluster, Known, knock, resource, retry_on_conflict};
use nodelife_core::node_marks::{NodeMarks, RESCUED_BY};
use nodelife_core::object::{Lease, Node, Pod, VolumeAttachment};
use nodelife_drain_plan::rescue::{
    Fate, LastHeard, RescueReport, fate, is_in_the_way, with_out_of_service,
};
use tokio::time::Instant;

use crate::executor::{deadline, scheduling_messages};
use crate::identity::DrainIdentity;
use crate::node::lock::{DrainLock, RELEASE_TIMEOUT};
use crate::reporter::{DrainStatus, Interrupts, Reporter};
use replacements::{Replacements, Short};

/// A kubelet renews its Lease four times in its duration, which is 40 s (`pkg/kubelet/kubelet.go`, v1.37.2), and
/// looks at its status every 10 s.
const LEASE_DURATION: i32 = 40;

/// What one renewal may be late.
const LATE: Duration = Duration::from_secs(2);

/// How many pods that wait for a node are told of with the scheduler's words, and how long these may take to
/// be read: a sign of life must not wait for them.
const MAX_PENDING_MESSAGES: usize = 3;
const MESSAGES_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the taint is written while others write the node.
const MAX_ATTEMPTS: usize = 5;

struct Watched<T: 'static> {
    watch: Watch<T>,
    known: Known<T>,
}

impl<T: Object> Watched<T> {
    fn new(cluster: &Cluster, listing: &'static Listing<T>, filter: ListFilter) -> Self {
        Self {
            watch: cluster.watch(listing, filter),
            known: Known::default(),
        }
    }

    /// Waits for a change; an error is for who cannot wait: the watch goes on by itself.
    async fn next(&mut self) -> ApiResult<()> {
        match self.watch.next().await {
            Some(Update::Failed { error, .. }) => return Err(error),
            // It counts as it was.
            Some(Update::Unreadable(_)) => {}
            Some(update) => self.known.take_in(update),
            None => std::future::pending().await,
        }
        Ok(())
    }

    async fn listed(&mut self) -> ApiResult<()> {
        while !self.known.is_listed() {
            if let Err(error @ ApiError::Forbidden(_)) = self.next().await {
                return Err(error);
            }
        }
        Ok(())
    }
}

enum End {
    Done,
    Lives(String),
    Deleted,
    TimedOut,
    Interrupted,
    Lost(String),
}

pub struct Rescue {
    cluster: Cluster,
    node: Node,
    first: LastHeard,
    /// What answered at the kubelet's address, or what came instead.
    knocked: Result<String, String>,
    looked_at: Instant,
    /// For how long a living kubelet is silent at most.
    renewal: Duration,
    nodes: Watched<Node>,
    leases: Watched<Lease>,
    pods: Watched<Pod>,
    attachments: Watched<VolumeAttachment>,
    replacements: Option<Replacements>,
    tainted: bool,
}

impl Rescue {
    /// Looks at the node, and begins to watch.
    /// Fails if there is no such node, or it cannot be read.
    pub async fn look(cluster: &Cluster, name: &str) -> Result<Self> {
        // It also shows the API server's clock, and whether the server is there.
        let node: Option<Node> = cluster.get(resource::NODES.all().named(name)).await?;
        let node = node.with_context(|| format!("node {name} not found"))?;
        let named = || ListFilter::named(name);
        let mut this = Self {
            cluster: cluster.clone(),
            first: LastHeard::default(),
            knocked: Err(String::new()),
            looked_at: Instant::now(),
            renewal: Duration::ZERO,
            nodes: Watched::new(cluster, &listing::NODES, named()),
            leases: Watched::new(cluster, &listing::LEASES, named()),
            pods: Watched::new(cluster, &listing::PODS, ListFilter::on_node(name)),
            attachments: Watched::new(cluster, &listing::VOLUME_ATTACHMENTS, ListFilter::default()),
            replacements: None,
            tainted: with_out_of_service(&node, true).is_none(),
            node,
        };
        tokio::try_join!(
            this.nodes.listed(),
            this.leases.listed(),
            this.pods.listed(),
            this.attachments.listed(),
        )?;
        let lease = this.leases.known.all().next();
        let duration = lease.and_then(|lease| lease.spec.lease_duration_seconds);
        let duration = u32::try_from(duration.unwrap_or(LEASE_DURATION)).unwrap_or_default();
        this.renewal = Duration::from_secs(duration.into()) / 4 + LATE;
        this.first = LastHeard::of(&this.node, lease);
        if this.life().is_none() {
            this.knocked = knock(&this.node).await;
        }
        Ok(this)
    }

    pub fn node(&self) -> &Node {
        &self.node
    }

    /// What an approval covers.
    pub fn digest(&self) -> String {
        self.first.digest()
    }

    pub fn is_tainted(&self) -> bool {
        self.tainted
    }

    pub fn life(&self) -> Option<String> {
        let heard = self.first.life(self.cluster.clock().now());
        heard.or_else(|| self.knocked.clone().ok())
    }

    pub fn report(&self) -> RescueReport {
        let pods = self.pods.known.all().filter(|pod| is_in_the_way(pod));
        let mut pods: Vec<_> = pods.map(fate).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let silence = || {
            let mut silence = self.first.silence(self.cluster.clock().now());
            silence.extend(self.knocked.clone().err());
            silence
        };
        let proof = self.life().map_or_else(silence, |life| vec![life]);
        RescueReport {
            node: self.node.metadata.name.clone(),
            proof,
            pods,
            volumes: self.volumes().collect(),
            left: self.left_and_short(),
            exit_status: 0,
        }
    }

    /// Locks the node, taints it, and waits until its pods and volumes are gone, and what replaces the pods
    /// is Ready.
    /// Fails if the lock cannot be taken, or the taint not be written or taken back.
    pub async fn run(
        &mut self,
        identity: &DrainIdentity,
        end: Option<Instant>,
        interrupts: &mut dyn Interrupts,
        reporter: &mut dyn Reporter,
    ) -> Result<DrainStatus> {
        let cluster = self.cluster.clone();
        let name = self.node.metadata.name.clone();
        let nodes = std::slice::from_ref(&self.node);
        let mut lock = DrainLock::new(&cluster, identity, nodes, false);
        if let Some(status) = lock.acquire(reporter).await? {
            return Ok(status);
        }
        let ended = tokio::select! {
            lost = lock.keep_renewed() => Ok(End::Lost(lost)),
            () = interrupts.next() => Ok(End::Interrupted),
            () = deadline(end) => Ok(End::TimedOut),
            ended = self.work(identity, reporter) => ended,
        };
        // Nothing interrupts this: a living node must not keep the taint.
        let last = tokio::time::timeout(RELEASE_TIMEOUT, self.last_look()).await;
        let status = match last.ok().flatten().map_or(ended, Ok) {
            Ok(ended) => self.finish(ended, reporter).await,
            Err(error) if self.tainted => Err(error.context(format!(
                "node/{name} may have the out-of-service taint; look again with: kubectl nodelife \
                 rescue {name}"
            ))),
            Err(error) => Err(error.context("nothing was changed")),
        };
        lock.release(RELEASE_TIMEOUT).await;
        status
    }

    async fn work(&mut self, identity: &DrainIdentity, reporter: &mut dyn Reporter) -> Result<End> {
        let name = self.node.metadata.name.clone();
        let goes = |pod: &&Pod| is_in_the_way(pod) && fate(pod).fate != Fate::Stays;
        let leaving = self.pods.known.all().filter(goes);
        match Replacements::of(&self.cluster, &name, leaving).await {
            Ok(replacements) => self.replacements = replacements,
            Err(why) => reporter.warn(format_args!("cannot wait for replacements: {why}")),
        }
        let looked = self.looked_at + self.renewal;
        if looked > Instant::now() {
            let wait = self.renewal.as_secs();
            reporter.note(format_args!("looking for a sign of life for {wait}s"));
        }
        loop {
            if let Some(end) = self.seen_end() {
                return Ok(end);
            }
            tokio::select! {
                () = tokio::time::sleep_until(looked) => break,
                () = self.next() => {}
            }
        }
        let by = identity.cordon_owner(self.cluster.clock().now());
        if let Some(end) = self.taint(&by.to_string()).await? {
            return Ok(end);
        }
        reporter.note(format_args!(
            "node/{name}: has the out-of-service taint; waiting for PodGC, which looks every 20s"
        ));
        let mut left = self.left();
        let mut told = Vec::new();
        loop {
            if let Some(end) = self.seen_end() {
                return Ok(end);
            }
            let now = self.left();
            for gone in left.difference(&now) {
                reporter.note(format_args!("{gone}: gone"));
            }
            if now.is_empty() {
                let short = self.short();
                if short.is_empty() {
                    return Ok(End::Done);
                }
                if short != told {
                    self.tell(&short, reporter).await;
                    told = short;
                }
            }
            left = now;
            self.next().await;
        }
    }

    /// Writes the taint to the node as it was read after the last proof: no status of the kubelet came in
    /// between. Its Lease may have; so it is read again afterwards.
    async fn taint(&mut self, by: &str) -> Result<Option<End>> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(node) = self.read(&listing::NODES).await? else {
                return Ok(Some(End::Deleted));
            };
            if let Some(life) = self.life_now(&node).await? {
                return Ok(Some(End::Lives(life)));
            }
            let Some(taints) = with_out_of_service(&node, true) else {
                return Ok(None);
            };
            self.tainted = true;
            let patch = NodePatch {
                taints: Some(taints),
                marks: mark(Some(by.to_owned())),
                resource_version: Some(node.metadata.resource_version.to_string()),
                ..NodePatch::default()
            };
            let name = &node.metadata.name;
            match self.cluster.patch_node(name, &patch, false).await {
                Ok(node) => return Ok(self.life_now(&node).await?.map(End::Lives)),
                Err(ApiError::Conflict(_)) => {}
                Err(error) => return Err(error).context("failed to taint the node"),
            }
        }
        bail!("gave up after {MAX_ATTEMPTS} attempts: the node kept changing")
    }

    /// Whether a node with the taint lives, whatever ended the wait.
    async fn last_look(&self) -> Option<End> {
        let node = self.read(&listing::NODES).await.ok()??;
        let life = self.life_now(&node).await.ok()??;
        self.tainted.then_some(End::Lives(life))
    }

    async fn life_now(&self, node: &Node) -> ApiResult<Option<String>> {
        let lease = self.read(&listing::LEASES).await?;
        Ok(self.judge(node, lease.as_ref()))
    }

    fn judge(&self, node: &Node, lease: Option<&Lease>) -> Option<String> {
        let heard = LastHeard::of(node, lease);
        let since = heard.life_since(&self.first).map(str::to_owned);
        since.or_else(|| heard.life(self.cluster.clock().now()))
    }

    async fn read<T: Object>(&self, listing: &'static Listing<T>) -> ApiResult<Option<T>> {
        let filter = ListFilter::named(&self.node.metadata.name);
        Ok(self.cluster.items(listing, &filter).await?.pop())
    }

    fn seen_end(&self) -> Option<End> {
        let Some(node) = self.nodes.known.all().next() else {
            return Some(End::Deleted);
        };
        let life = self.judge(node, self.leases.known.all().next());
        life.map(End::Lives)
    }

    async fn next(&mut self) {
        let seen = tokio::select! {
            seen = self.nodes.next() => seen,
            seen = self.leases.next() => seen,
            seen = self.pods.next() => seen,
            seen = self.attachments.next() => seen,
            seen = replacements::next(&mut self.replacements) => seen,
        };
        if let Err(error) = seen {
            tracing::debug!(%error, "a watch has failed, and is tried again");
        }
    }

    fn volumes(&self) -> impl Iterator<Item = String> {
        let name = &self.node.metadata.name;
        let here = self.attachments.known.all();
        let here = here.filter(move |one| one.spec.node_name == *name);
        here.map(|one| {
            let volume = one.spec.source.persistent_volume_name.as_ref();
            volume.unwrap_or(&one.metadata.name).to_string()
        })
    }

    fn left(&self) -> BTreeSet<String> {
        let pods = self.pods.known.all().filter(|pod| is_in_the_way(pod));
        let (stay, go): (Vec<&Pod>, _) = pods.partition(|pod| fate(pod).fate == Fate::Stays);
        let names = go.iter().map(|pod| pod.metadata.full_name());
        let mut left: BTreeSet<_> = names.map(|name| format!("pod/{name}")).collect();
        let volumes = stay.iter().flat_map(|pod| &pod.spec.volumes);
        let kept = volumes.filter(|volume| volume.persistent_volume_claim.is_some());
        // Which volumes those of pods that stay are, only the claims would tell.
        if self.volumes().count() > kept.count() {
            left.extend(self.volumes().map(|name| format!("volume {name}")));
        }
        left
    }

    fn short(&self) -> Vec<Short> {
        let replacements = self.replacements.iter();
        replacements.flat_map(Replacements::short).collect()
    }

    fn left_and_short(&self) -> Vec<String> {
        let short = self.short().into_iter().map(|short| short.text);
        self.left().into_iter().chain(short).collect()
    }

    async fn tell(&self, short: &[Short], reporter: &mut dyn Reporter) {
        for Short { text, pending } in short {
            let read = scheduling_messages(&self.cluster, pending, MAX_PENDING_MESSAGES);
            let read = tokio::time::timeout(MESSAGES_TIMEOUT, read).await;
            let words = read.map_or_else(|_elapsed| Vec::new(), Result::unwrap_or_default);
            let words = words.iter().map(|(pod, words)| {
                let name = pod.full_name();
                format!("; {name} is Pending: {words}")
            });
            let words: String = words.collect();
            reporter.note(format_args!("waiting for {text}{words}"));
        }
    }

    /// Says how it ended; takes the taint back from a node that lives.
    async fn finish(&mut self, ended: End, reporter: &mut dyn Reporter) -> Result<DrainStatus> {
        let name = self.node.metadata.name.clone();
        let (why, status) = match ended {
            End::Lives(life) => {
                let removed = self.tainted && remove_out_of_service(&self.cluster, &name).await?;
                let what = if removed {
                    "the taint was removed"
                } else {
                    "nothing was changed"
                };
                reporter.warn(format_args!("node/{name} lives: {life}; {what}"));
                return Ok(DrainStatus::Impossible);
            }
            End::Deleted => {
                reporter.note(format_args!(
                    "node/{name} was deleted: PodGC removes its pods within a minute"
                ));
                return Ok(if self.left_and_short().is_empty() {
                    DrainStatus::Done
                } else {
                    DrainStatus::Stuck
                });
            }
            End::Done => {
                reporter.note(format_args!(
                    "node/{name}: rescued; the taint stays until the machine is back, then remove it \
                     with: kubectl nodelife rescue {name}"
                ));
                return Ok(DrainStatus::Done);
            }
            End::TimedOut => ("timed out (--timeout)".to_owned(), DrainStatus::Stuck),
            End::Interrupted => ("interrupted".to_owned(), DrainStatus::Interrupted),
            End::Lost(who) => (who, DrainStatus::Failed),
        };
        if !self.tainted {
            reporter.note(format_args!("{why}; nothing was changed"));
            return Ok(status);
        }
        for left in self.left() {
            reporter.note(format_args!("{left}: still there"));
        }
        for Short { text, .. } in self.short() {
            reporter.note(format_args!("{text}"));
        }
        reporter.warn(format_args!(
            "{why}: the taint stays on node/{name}, and goes on to remove its pods; to wait again, or to \
             remove the taint once the node lives: kubectl nodelife rescue {name}"
        ));
        Ok(status)
    }
}

fn mark(by: Option<String>) -> NodeMarks {
    NodeMarks {
        annotations: vec![(RESCUED_BY.to_owned(), by)],
        ..NodeMarks::default()
    }
}

/// Takes the out-of-service taint off a node, whoever set it; whether it had one.
/// After an error the node may still have it.
pub async fn remove_out_of_service(cluster: &Cluster, name: &str) -> Result<bool> {
    let attempt = || async {
        let node: Option<Node> = cluster.get(resource::NODES.all().named(name)).await?;
        let taints = node
            .as_ref()
            .and_then(|node| with_out_of_service(node, false));
        let (Some(node), Some(taints)) = (node, taints) else {
            return Ok(false);
        };
        let patch = NodePatch {
            taints: Some(taints),
            marks: mark(None),
            resource_version: Some(node.metadata.resource_version.to_string()),
            ..NodePatch::default()
        };
        cluster.patch_node(name, &patch, false).await.map(|_| true)
    };
    retry_on_conflict(attempt).await.with_context(|| {
        format!(
            "a living node may have the out-of-service taint; remove it with: kubectl taint node {name} \
             node.kubernetes.io/out-of-service-"
        )
    })
}
