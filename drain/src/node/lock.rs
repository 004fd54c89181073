//! Acquires, renews and releases the locks of a drain on its nodes.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _, future, stream};
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, Cluster, resource, retry_on_conflict};
use nodelife_core::node_marks::{LOCK_ANNOTATION, LOCK_RENEWAL, Lock, without_waiting_taint};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use tokio::time::{Instant, MissedTickBehavior};

use crate::identity::DrainIdentity;
use crate::reporter::DrainStatus;
use crate::reporter::Reporter;

/// How often it is tried to take a lock while the node changes under the request.
const MAX_ATTEMPTS: usize = 5;

/// How many nodes are written at the same time: locked, cordoned or given back. As many as evictions
/// that may be on their way.
pub(crate) const MAX_WRITES: usize = 50;

/// How long giving the locks back may take: they pass on by themselves as well.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The nodes that this drain has to itself.
pub(crate) struct Locks {
    owner: LockOwner,
    held: Vec<Held>,
    /// Those that were asked for and not answered: they may be this drain's.
    asked: Vec<Held>,
    /// The nodes as their locks left them.
    locked: BTreeMap<Str, Node>,
}

/// This drain, and what it writes on its nodes.
#[derive(Clone)]
struct LockOwner {
    cluster: Cluster,
    lock: Lock,
}

struct Held {
    node: Str,
    uid: Str,
    /// The annotation as it was last written.
    text: String,
    /// Whether the node may say that it waits for its turn.
    waits: bool,
}

/// The result of an attempt to take a lock.
enum LockOutcome {
    Ours(String, Box<Node>),
    Theirs(Lock),
    /// The right to patch nodes is missing, or a policy denies it; only a node that is cordoned can be
    /// drained then.
    NotAllowed(ApiError),
    /// Somebody deleted the node.
    Gone,
}

impl LockOwner {
    /// The lock on a node, if another drain holds it.
    fn held_by_other(&self, node: &Node) -> Option<Lock> {
        let now = self.cluster.clock().now();
        Lock::on(node).filter(|lock| !lock.is_of(&self.lock) && !lock.has_expired(now))
    }

    async fn acquire_one(
        self,
        mut node: Node,
        beside: &impl Fn(&Node) -> NodePatch,
    ) -> anyhow::Result<LockOutcome> {
        let mut lock_only = false;
        let text = self.text()?;
        let name = node.metadata.name.clone();
        for _ in 0..MAX_ATTEMPTS {
            if let Some(theirs) = self.held_by_other(&node) {
                return Ok(LockOutcome::Theirs(theirs));
            }
            // The answer to the attempt before was lost, not the attempt. A lock of this drain that
            // another process left is written again: it may be about to expire.
            if Lock::text_on(&node) == Some(text.as_str()) {
                return Ok(LockOutcome::Ours(text, Box::new(node)));
            }
            let mut patch = if lock_only {
                NodePatch::default()
            } else {
                beside(&node)
            };
            let more = patch != NodePatch::default();
            let lock = (LOCK_ANNOTATION.to_owned(), Some(text.clone()));
            patch.annotations.push(lock);
            patch.resource_version = Some(node.metadata.resource_version.to_string());
            match self.cluster.patch_node(&name, &patch, false).await {
                Ok(patched) => return Ok(LockOutcome::Ours(text, Box::new(patched))),
                Err(ApiError::Conflict(_)) => {}
                // The API server may refuse the rest of the patch: the cordon, sent alone, reports that.
                Err(ApiError::Refused(_)) if more => lock_only = true,
                Err(why @ ApiError::Forbidden(_)) => return Ok(LockOutcome::NotAllowed(why)),
                Err(ApiError::NotFound(_)) => return Ok(LockOutcome::Gone),
                Err(error) if error.is_transient() => {}
                // Somebody's policy: the cordon fails as well then, and ends this node alone.
                Err(why @ ApiError::Refused(_)) => return Ok(LockOutcome::NotAllowed(why)),
                Err(error) => return Err(error.into()),
            }
            node = match self.read(&name).await? {
                Some(node) => node,
                None => return Ok(LockOutcome::Gone),
            };
        }
        anyhow::bail!(
            "gave up after {MAX_ATTEMPTS} attempts: the node kept changing, or the API server \
             kept failing"
        )
    }

    async fn read(&self, node: &str) -> Result<Option<Node>, ApiError> {
        self.cluster.get(resource::NODES.all().named(node)).await
    }

    fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.lock)
    }
}

impl Held {
    /// The lock that is asked for on a node.
    fn asked(node: &Node, text: &str) -> Self {
        Self {
            node: node.metadata.name.clone(),
            uid: node.metadata.uid.clone(),
            text: text.to_owned(),
            waits: true,
        }
    }
}

impl Locks {
    pub(crate) fn new(cluster: &Cluster, identity: &DrainIdentity) -> Self {
        Self {
            owner: LockOwner {
                lock: identity.lock(cluster.clock().now()),
                cluster: cluster.clone(),
            },
            held: Vec::new(),
            asked: Vec::new(),
            locked: BTreeMap::new(),
        }
    }

    /// Locks the nodes, all or none; the status to end with if one is held by another drain.
    /// `beside`: what else is written on a node with its lock.
    pub(crate) async fn acquire(
        &mut self,
        nodes: &[Node],
        beside: impl Fn(&Node) -> NodePatch,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<Option<DrainStatus>> {
        // As they were read a moment ago: what is held is then said without a write.
        if let Some(status) = self.check(nodes, reporter) {
            return Ok(Some(status));
        }
        let mut theirs = BTreeMap::new();
        let mut failed = None;
        let mut renewals = renewals();
        let mut waiting = nodes.iter().enumerate();
        let mut attempts = FuturesUnordered::new();
        loop {
            while attempts.len() < MAX_WRITES
                && failed.is_none()
                && let Some((at, node)) = waiting.next()
            {
                let (owner, beside) = (self.owner.clone(), &beside);
                self.asked.push(Held::asked(node, &owner.text()?));
                attempts.push(async move {
                    let taken = owner.acquire_one(node.clone(), beside).await;
                    (at, &node.metadata.name, taken)
                });
            }
            let (at, name, taken) = tokio::select! {
                taken = attempts.next() => match taken {
                    Some(taken) => taken,
                    None => break,
                },
                // Where there are many nodes, or the API server is slow, the first locks must
                // not expire before the last is taken.
                _ = renewals.tick() => {
                    if let Some(lost) = self.renew().await {
                        anyhow::bail!(lost);
                    }
                    continue;
                }
            };
            match taken {
                Ok(LockOutcome::Ours(text, locked)) => {
                    self.held.push(Held {
                        node: name.clone(),
                        uid: locked.metadata.uid.clone(),
                        text,
                        waits: without_waiting_taint(&locked).is_some(),
                    });
                    self.locked.insert(name.clone(), *locked);
                }
                Ok(LockOutcome::Theirs(lock)) => {
                    theirs.insert(at, (name.clone(), lock));
                }
                // Its cordon will tell.
                Ok(LockOutcome::Gone) => {}
                Ok(LockOutcome::NotAllowed(why)) => reporter.warn(format_args!(
                    "node/{name}: could not lock: a concurrent drain is not prevented: {why}"
                )),
                Err(error) => {
                    failed = failed.or(Some(error.context(format!("failed to lock node {name}"))));
                    // It stays among those that may be ours.
                    continue;
                }
            }
            self.asked.retain(|asked| asked.node != *name);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let theirs: Vec<_> = theirs.into_values().collect();
        let refused = self.print_refusal(&theirs, reporter);
        if refused.is_some() {
            self.release(RELEASE_TIMEOUT).await;
        }
        Ok(refused)
    }

    /// The status to end with if one of the nodes, as they were read, is held by another drain.
    pub(crate) fn check(&self, nodes: &[Node], reporter: &mut dyn Reporter) -> Option<DrainStatus> {
        let theirs: Vec<_> = nodes
            .iter()
            .filter_map(|node| Some((node.metadata.name.clone(), self.owner.held_by_other(node)?)))
            .collect();
        self.print_refusal(&theirs, reporter)
    }

    fn print_refusal(
        &self,
        theirs: &[(Str, Lock)],
        reporter: &mut dyn Reporter,
    ) -> Option<DrainStatus> {
        if theirs.is_empty() {
            return None;
        }
        let now = self.owner.cluster.clock().now();
        for (node, lock) in theirs {
            reporter.note(format_args!("node/{node}: {}", lock.describe(now)));
        }
        reporter.note("refused: another drain holds the lock; nothing was changed");
        Some(DrainStatus::Refused)
    }

    /// The nodes as their locks left them, without those that could not be locked.
    pub(crate) fn take_locked(&mut self) -> BTreeMap<Str, Node> {
        std::mem::take(&mut self.locked)
    }

    /// Renews them for ever. Ends when one was lost, with the sentence that says to whom.
    /// Dropping it between two renewals, or in the middle of one, does no harm.
    pub(crate) async fn keep_renewed(&mut self) -> String {
        let mut renewals = renewals();
        loop {
            renewals.tick().await;
            if let Some(lost) = self.renew().await {
                return lost;
            }
        }
    }

    /// Renews all of them. The sentence that says to whom one was lost.
    async fn renew(&mut self) -> Option<String> {
        self.owner.lock.renewed_at = self.owner.cluster.clock().now();
        let text = &self.owner.text().ok()?;
        let LockOwner { cluster, lock } = &self.owner;
        // Made before the stream: a closure in it would keep the future of a drain from being `Send`.
        let held = self.held.iter_mut();
        let renewals: Vec<_> = held
            .map(|held| renew(cluster, lock, held, text).boxed())
            .collect();
        let renewed = stream::iter(renewals).buffer_unordered(MAX_WRITES);
        let mut lost = pin!(renewed.filter_map(future::ready));
        lost.next().await
    }

    /// Gives them back, within `timeout`; whether all are. What cannot be given back passes on by
    /// itself, but stays on its node.
    pub(crate) async fn release(&mut self, timeout: Duration) -> bool {
        let LockOwner { cluster, lock } = &self.owner;
        let held = self.held.drain(..).chain(self.asked.drain(..));
        // Made before the stream, as in `renew`.
        let given_back: Vec<_> = held
            .map(|held| release_one(cluster, lock, held).boxed())
            .collect();
        let given_back = stream::iter(given_back).buffer_unordered(MAX_WRITES);
        let all = given_back.fold(true, |all, released| future::ready(all && released));
        let released = tokio::time::timeout(timeout, all).await.unwrap_or(false);
        if !released {
            tracing::debug!("the locks pass on by themselves");
        }
        released
    }
}

/// When locks are due to be renewed.
fn renewals() -> tokio::time::Interval {
    let period = Duration::try_from(LOCK_RENEWAL).unwrap_or_default();
    let mut renewals = tokio::time::interval_at(Instant::now() + period, period);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    renewals
}

/// Takes off a node that it waiting for its turn, where it does. Best effort: the drain is over.
async fn forget_waiting(cluster: &Cluster, name: &Str) {
    let _ = retry_on_conflict(|| async {
        let node: Option<Node> = cluster.get(resource::NODES.all().named(name)).await?;
        let Some(node) = node else { return Ok(()) };
        let Some(taints) = without_waiting_taint(&node) else {
            return Ok(());
        };
        let patch = NodePatch {
            taints: Some(taints),
            resource_version: Some(node.metadata.resource_version.to_string()),
            ..NodePatch::default()
        };
        cluster.patch_node(name, &patch, false).await.map(drop)
    })
    .await;
}

async fn renew(cluster: &Cluster, own: &Lock, held: &mut Held, text: &str) -> Option<String> {
    match swap(cluster, held, Some(text)).await {
        Ok(true) => {
            text.clone_into(&mut held.text);
            return None;
        }
        Ok(false) => {}
        Err(error) => {
            tracing::debug!(node = %held.node, %error, "failed to renew the lock");
            return None;
        }
    }
    let found: Option<Node> = cluster
        .get(resource::NODES.all().named(&held.node))
        .await
        .ok()?;
    // Another node of its name is not ours: the watch of nodes reports that.
    let node = found.filter(|node| node.metadata.uid == held.uid)?;
    let now = cluster.clock().now();
    match Lock::on(&node) {
        // An answer was lost, not the renewal.
        Some(lock) if lock.is_of(own) => {
            Lock::text_on(&node)?.clone_into(&mut held.text);
            None
        }
        Some(lock) => Some(format!(
            "node/{}: another drain has taken the lock: {}",
            held.node,
            lock.describe(now)
        )),
        None => Some(format!(
            "node/{}: somebody removed the annotation {LOCK_ANNOTATION}",
            held.node
        )),
    }
}

async fn swap(cluster: &Cluster, held: &Held, new: Option<&str>) -> Result<bool, ApiError> {
    cluster
        .swap_annotation(&held.node, LOCK_ANNOTATION, &held.text, new)
        .await
}

/// Takes off a node what a drain of this lock has there; whether it is off.
async fn release_one(cluster: &Cluster, own: &Lock, mut held: Held) -> bool {
    // Its turn may not have come.
    if held.waits {
        forget_waiting(cluster, &held.node).await;
    }
    match give_back(cluster, own, &mut held).await {
        Ok(is_released) => is_released,
        // Gone with its node.
        Err(ApiError::NotFound(_)) => true,
        Err(error) => {
            tracing::debug!(node = %held.node, %error, "failed to give back the lock");
            false
        }
    }
}

/// Gives back a lock; whether it is no longer on its node, or another's.
async fn give_back(cluster: &Cluster, own: &Lock, held: &mut Held) -> Result<bool, ApiError> {
    if swap(cluster, held, None).await? {
        return Ok(true);
    }
    match still_ours(cluster, own, &held.node).await? {
        Some(text) => {
            held.text = text;
            swap(cluster, held, None).await
        }
        None => Ok(true),
    }
}

/// The text of the lock on a node, if it is this run's.
async fn still_ours(cluster: &Cluster, own: &Lock, node: &str) -> Result<Option<String>, ApiError> {
    let found: Option<Node> = cluster.get(resource::NODES.all().named(node)).await?;
    Ok(found
        .filter(|node| Lock::on(node).is_some_and(|lock| lock.is_of(own)))
        .and_then(|node| Lock::text_on(&node).map(ToOwned::to_owned)))
}
