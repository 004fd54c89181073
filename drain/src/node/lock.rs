//! Acquires, renews and releases the lock of a drain on its nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use jiff::SignedDuration;
use nodelife_cluster::{ApiError, ApiResult, Cluster};
use nodelife_core::node_marks::{Claim, LOCK_LEASE, LOCK_NAMESPACE, Lock};
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior};

use crate::identity::DrainIdentity;
use crate::prepare::is_forbidden;
use crate::reporter::{DrainStatus, Reporter};

/// How often it is tried to take the lock while the Leases change under the request.
const MAX_ATTEMPTS: usize = 5;

/// How many nodes are written at the same time, cordoned or given back: as many as evictions.
pub(crate) const MAX_WRITES: usize = 50;

/// How long giving the lock back may take: it passes on by itself as well.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct DrainLock {
    cluster: Cluster,
    name: Str,
    holder: String,
    /// For how long it holds that nobody renews.
    lease: SignedDuration,
    nodes: BTreeSet<Str>,
    /// Whether it takes over from drains that are alive (`--break-lock`).
    breaks: bool,
    /// Whether the Lease was asked for; without an answer it may be there.
    is_asked: bool,
    own: Option<Lock>,
}

impl DrainLock {
    pub(crate) fn new(
        cluster: &Cluster,
        identity: &DrainIdentity,
        nodes: &[Node],
        breaks: bool,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            name: identity.lease.clone(),
            holder: identity.holder.clone(),
            lease: identity.lock_lease,
            nodes: nodes.iter().map(|n| n.metadata.name.clone()).collect(),
            breaks,
            is_asked: false,
            own: None,
        }
    }

    /// Locks the nodes, all or none; the status to end with if that fails for another drain or a right.
    pub(crate) async fn acquire(
        &mut self,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<DrainStatus>> {
        if self.nodes.is_empty() {
            return Ok(None);
        }
        let error = match self.try_acquire(reporter).await {
            Err(error) if is_forbidden(&error) => error,
            ended => return ended.context("failed to lock the nodes"),
        };
        self.release(RELEASE_TIMEOUT).await;
        if self.breaks {
            reporter.warn(format_args!(
                "could not lock the nodes: a concurrent drain is not prevented: {error:#}"
            ));
            return Ok(None);
        }
        reporter.note(format_args!(
            "refused: could not lock the nodes; nothing was changed: {error:#}; the ClusterRole \
             nodelife-drain-locks has the rights, for a RoleBinding in the namespace {LOCK_NAMESPACE}"
        ));
        Ok(Some(DrainStatus::Impossible))
    }

    async fn try_acquire(&mut self, reporter: &mut dyn Reporter) -> Result<Option<DrainStatus>> {
        // What is held is then said without a write.
        if let Some(status) = self.check(reporter).await? {
            return Ok(Some(status));
        }
        let own = self.create(reporter).await?;
        for _ in 0..MAX_ATTEMPTS {
            let locks = self.cluster.drain_locks().await?;
            let now = self.cluster.clock().now();
            match Claim::of(&own.uid, &locks, now) {
                Claim::Held => {
                    self.cluster.renew_drain_lock(&own).await?;
                    return Ok(None);
                }
                Claim::Yields(first) if self.breaks => {
                    for lock in first {
                        let described = lock.describe(now);
                        self.print_each(lock, &format!("taking it over: {described}"), reporter);
                        let read = json!({"uid": lock.uid});
                        self.cluster.delete_drain_lock(&lock.name, &read).await?;
                    }
                }
                Claim::Yields(first) => {
                    let refused = self.print_refusal(&first, reporter);
                    self.release(RELEASE_TIMEOUT).await;
                    return Ok(refused);
                }
                Claim::Expired(dead) => {
                    for lock in dead {
                        // If it was renewed meanwhile, the next list shows that.
                        let version = &lock.resource_version;
                        let read = json!({"uid": lock.uid, "resourceVersion": version});
                        self.cluster.delete_drain_lock(&lock.name, &read).await?;
                    }
                }
                Claim::Lost => bail!("{}", self.lost().await),
            }
        }
        bail!("gave up after {MAX_ATTEMPTS} attempts: other drains kept asking for the same nodes")
    }

    async fn create(&mut self, reporter: &mut dyn Reporter) -> Result<Lock> {
        self.is_asked = true;
        for _ in 0..MAX_ATTEMPTS {
            let (name, holder) = (&self.name, &self.holder);
            let created = self
                .cluster
                .create_drain_lock(name, holder, self.lease, &self.nodes);
            match created.await {
                Ok(lock) => {
                    self.own = Some(lock.clone());
                    return Ok(lock);
                }
                // An earlier process of this drain left it, or the answer was lost.
                Err(ApiError::Conflict(_)) => {
                    self.cluster.delete_drain_lock(name, &json!({})).await?;
                }
                Err(ApiError::NotFound(_)) => {
                    let created = self.cluster.create_lock_namespace().await;
                    created.with_context(|| {
                        format!(
                            "the namespace {LOCK_NAMESPACE}, in which drains keep their locks, does not \
                             exist; create it with: kubectl create namespace {LOCK_NAMESPACE}"
                        )
                    })?;
                    let text = "created, for the locks of drains";
                    reporter.note(format_args!("namespace/{LOCK_NAMESPACE}: {text}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        bail!(
            "gave up after {MAX_ATTEMPTS} attempts to create the Lease {}",
            self.name
        )
    }

    /// The status to end with if another drain holds one of the nodes, and keeps it.
    pub(crate) async fn check(
        &self,
        reporter: &mut dyn Reporter,
    ) -> ApiResult<Option<DrainStatus>> {
        let locks = self.cluster.drain_locks().await?;
        let theirs = locks.iter();
        let theirs: Vec<&Lock> = theirs
            .filter(|lock| !self.breaks && self.is_other(lock))
            .collect();
        Ok(self.print_refusal(&theirs, reporter))
    }

    fn is_other(&self, lock: &Lock) -> bool {
        let now = self.cluster.clock().now();
        lock.name != self.name && lock.shares_nodes(&self.nodes) && !lock.has_expired(now)
    }

    fn print_refusal(&self, theirs: &[&Lock], reporter: &mut dyn Reporter) -> Option<DrainStatus> {
        if theirs.is_empty() {
            return None;
        }
        let now = self.cluster.clock().now();
        for lock in theirs {
            self.print_each(lock, &lock.describe(now), reporter);
        }
        reporter.note("refused: another drain holds the lock; nothing was changed");
        Some(DrainStatus::Refused)
    }

    fn print_each(&self, lock: &Lock, text: &str, reporter: &mut dyn Reporter) {
        for node in lock.nodes.intersection(&self.nodes) {
            reporter.note(format_args!("node/{node}: {text}"));
        }
    }

    /// Renews it for ever. Ends when it was lost, with the sentence that says to whom.
    /// Dropping it between two renewals, or in the middle of one, does no harm.
    pub(crate) async fn keep_renewed(&self) -> String {
        let Some(own) = &self.own else {
            return std::future::pending().await;
        };
        // Who took it over is seen as soon where it is renewed less often.
        let look = Duration::try_from(LOCK_LEASE / 4).unwrap_or_default();
        let renewal = Duration::try_from(own.renewal()).unwrap_or_default();
        let mut looks = tokio::time::interval_at(Instant::now() + look, look);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewed = Instant::now();
        loop {
            let now = looks.tick().await;
            let is_due = now.duration_since(renewed) + look > renewal;
            let held = if is_due {
                self.cluster.renew_drain_lock(own).await.map(|()| true)
            } else {
                let read = self.cluster.drain_locks().await;
                read.map(|locks| locks.iter().any(|lock| lock.uid == own.uid))
            };
            match held {
                Ok(true) if is_due => renewed = now,
                Ok(true) => {}
                Ok(false) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {
                    return self.lost().await;
                }
                Err(error) => tracing::debug!(%error, "failed to renew the lock"),
            }
        }
    }

    async fn lost(&self) -> String {
        let locks = self.cluster.drain_locks().await.unwrap_or_default();
        let now = self.cluster.clock().now();
        let taken = locks.iter().find(|lock| self.is_other(lock));
        let taken = taken.and_then(|lock| {
            let node = lock.nodes.intersection(&self.nodes).next()?;
            let described = lock.describe(now);
            Some(format!(
                "node/{node}: another drain has taken the lock: {described}"
            ))
        });
        let name = &self.name;
        taken.unwrap_or_else(|| format!("somebody deleted the Lease {LOCK_NAMESPACE}/{name}"))
    }

    /// Gives it back, within `timeout`; whether it is. If not, it passes on by itself.
    pub(crate) async fn release(&mut self, timeout: Duration) -> bool {
        if !std::mem::take(&mut self.is_asked) {
            return true;
        }
        let own = self.own.take();
        let preconditions = own.map_or_else(|| json!({}), |own| json!({"uid": own.uid}));
        let deleted = self.cluster.delete_drain_lock(&self.name, &preconditions);
        match tokio::time::timeout(timeout, deleted).await {
            // Of another UID, it is not ours.
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "failed to give back the lock");
                false
            }
            Err(_elapsed) => {
                tracing::debug!("the lock passes on by itself");
                false
            }
        }
    }
}
