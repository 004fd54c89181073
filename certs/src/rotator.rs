//! [`Rotator`]: the loop that reads the cluster and carries out the actions of [`step`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodelife_cluster::{Cluster, LeaseLock, LeaseName};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authority::Authority;
use crate::certificate::{Encoded, Fingerprint};
use crate::error::{Error, Result};
use crate::history::History;
use crate::leaf::Leaf;
use crate::lifetimes::Lifetimes;
use crate::names::ObjectNames;
use crate::observed::{Now, Observed};
use crate::step::{RotationAction, Situation, repairs, step};
use crate::store::{CaSecret, Reading, Store};

/// One pass reads and writes a few objects; an API server that takes longer counts as unreachable.
const PASS: Duration = Duration::from_secs(20);
/// The Lease expires this long after its last renewal, as in client-go's leader election
/// (`LeaseDuration`, `RenewDeadline`, `RetryPeriod` are 15, 10 and 2 s).
const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A third of it: two renewals may fail.
const RENEW_AFTER: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub done: Vec<RotationAction>,
    pub observed: Observed,
}

#[derive(Clone, Debug, Default)]
pub struct RotatorStatus {
    pub holder: bool,
    /// When a pass last succeeded, or another holder was last seen active.
    pub succeeded: Option<Timestamp>,
    pub failed: u64,
    /// Actions since the start: `found`, `adopt`, `stage`, `promote`, `retire`, `publish`, `issue`.
    pub done: BTreeMap<&'static str, u64>,
    pub leaf_expiry: Option<Timestamp>,
    pub signer_expiry: Option<Timestamp>,
}

pub struct Rotator {
    cluster: Cluster,
    store: Store,
    lifetimes: Lifetimes,
    history: History,
    started: Instant,
}

impl Rotator {
    pub fn new(cluster: Cluster, names: ObjectNames, lifetimes: Lifetimes) -> Self {
        Self {
            // Its client does not retry by itself: the loop does, after a new read.
            store: Store::new(cluster.client(), names),
            cluster,
            lifetimes,
            history: History::default(),
            started: Instant::now(),
        }
    }

    /// Reads the cluster once and carries out the actions that are due.
    pub async fn pass(&mut self) -> Result<Report> {
        tokio::time::timeout(PASS, self.pass_now())
            .await
            .map_err(|_| Error::Deadline(PASS))?
    }

    async fn pass_now(&mut self) -> Result<Report> {
        let now = Now {
            wall: Timestamp::now(),
            steady: self.started.elapsed(),
        };
        let seen = self.store.read().await?;
        let observed = seen.observed();
        self.history.note(&observed, self.started.elapsed());
        let mut done = Vec::new();
        let mut failed = None;
        let situation = Situation {
            observed: &observed,
            history: &self.history,
            now,
            lifetimes: &self.lifetimes,
        };
        let mut actions = VecDeque::from(step(&situation));
        while let Some(action) = actions.pop_front() {
            match self.carry_out(&action, &seen, now.wall).await {
                Ok(()) => {
                    tracing::info!(?action, "done");
                    done.push(action);
                }
                Err(Error::Conflict(what)) => {
                    tracing::info!(?action, "{what}: another writer changed the object first");
                }
                Err(error) => {
                    // Whoever refuses one write, such as an immutable Secret, keeps nothing else from
                    // being repaired. An adoption is no such case: the present bundle would cut off the
                    // leaf that is served.
                    if let RotationAction::Stage
                    | RotationAction::Promote
                    | RotationAction::Retire(_) = action
                    {
                        actions.extend(repairs(&situation));
                    }
                    tracing::warn!(?action, error = %with_causes(&error), "failed");
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Report { done, observed }),
        }
    }

    /// Repeats passes until nothing is due (`--once`), but does not wait for a CA to propagate.
    pub async fn settle(&mut self) -> Result<Vec<RotationAction>> {
        let mut all = Vec::new();
        loop {
            let report = self.pass().await?;
            if report.done.is_empty() {
                return Ok(all);
            }
            all.extend(report.done);
        }
    }

    /// Runs a pass every `interval` while it holds the Lease, until `cancel`. Errors are logged and
    /// counted; the next pass retries.
    pub async fn run(
        mut self,
        identity: String,
        interval: Duration,
        status: watch::Sender<RotatorStatus>,
        cancel: CancellationToken,
    ) {
        let lease = LeaseName {
            namespace: self.store.names.namespace.clone(),
            name: self.store.names.lease.clone(),
        };
        let mut lock = LeaseLock::new(self.cluster.clone(), &lease, identity, LEASE_DURATION);
        let turns = async {
            loop {
                if !self.turn(&mut lock, &status).await {
                    tokio::time::sleep(interval).await;
                }
            }
        };
        cancel.run_until_cancelled(turns).await;
        if let Err(error) = lock.release().await {
            tracing::warn!(error = %with_causes(&error), "failed to release the Lease");
        }
    }

    /// One turn of the loop; whether the next one is due at once.
    async fn turn(&mut self, lock: &mut LeaseLock, status: &watch::Sender<RotatorStatus>) -> bool {
        let holder = match lock.hold(RENEW_AFTER).await {
            Ok(holder) => holder,
            Err(error) => {
                // Without a Lease two writers may both be active, which is only wasteful.
                tracing::warn!(error = %with_causes(&error), "continuing without the Lease");
                true
            }
        };
        if !holder {
            // The history may be out of date: another writer is active.
            self.history = History::default();
            status.send_modify(|status| {
                status.holder = false;
                status.succeeded = Some(Timestamp::now());
            });
            return false;
        }
        match self.pass().await {
            Ok(report) => {
                status.send_modify(|status| status.note(&report));
                !report.done.is_empty()
            }
            Err(error) => {
                tracing::warn!(error = %with_causes(&error), "pass failed, retrying");
                status.send_modify(|status| {
                    status.holder = true;
                    status.failed += 1;
                });
                false
            }
        }
    }

    async fn carry_out(
        &self,
        action: &RotationAction,
        seen: &Reading,
        now: Timestamp,
    ) -> Result<()> {
        let names = &self.store.names;
        let make = || Authority::make(names, &self.lifetimes, now);
        match (action, &seen.ca) {
            (RotationAction::Found(kept), _) => {
                let signer = make()?;
                let mut bundle = vec![signer.certificate.clone()];
                bundle.extend(pick(seen, kept));
                let ca = CaSecret {
                    signer: Arc::new(signer),
                    next: None,
                    bundle,
                    promoted: now,
                };
                self.store.write_ca(seen, &ca).await
            }
            (RotationAction::Publish(index), Some(ca)) => {
                self.store.publish(seen, *index, &ca.bundle).await
            }
            (RotationAction::Issue, Some(ca)) => {
                let leaf = Leaf::make(&ca.signer, names, &self.lifetimes, now)?;
                self.store.write_leaf(seen, &leaf).await
            }
            (turn, Some(ca)) => {
                let ca = turned(turn, ca, seen, make, now)?;
                self.store.write_ca(seen, &ca).await
            }
            // Every other action requires a CA.
            (_, None) => Ok(()),
        }
    }
}

fn turned(
    turn: &RotationAction,
    ca: &CaSecret,
    seen: &Reading,
    make: impl FnOnce() -> Result<Authority>,
    now: Timestamp,
) -> Result<CaSecret> {
    let mut new = ca.clone();
    match turn {
        RotationAction::Stage => {
            if let Some(old) = new.next.take() {
                new.bundle.retain(|one| *one != old.certificate);
            }
            let next = Arc::new(make()?);
            new.bundle.push(next.certificate.clone());
            new.next = Some(next);
        }
        RotationAction::Promote => {
            if let Some(next) = new.next.take() {
                new.signer = next;
                new.promoted = now;
            }
        }
        RotationAction::Adopt(id) => {
            new.bundle.extend(pick(seen, &[*id]));
            new.promoted = now;
        }
        RotationAction::Retire(ids) => new.bundle.retain(|one| !ids.contains(&one.summary.id)),
        RotationAction::Found(_) | RotationAction::Publish(_) | RotationAction::Issue => {}
    }
    Ok(new)
}

fn pick(seen: &Reading, ids: &[Fingerprint]) -> Vec<Encoded> {
    let find = |id: &Fingerprint| seen.certificates().find(|one| one.summary.id == *id);
    ids.iter().filter_map(find).cloned().collect()
}

impl RotationAction {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Found(_) => "found",
            Self::Adopt(_) => "adopt",
            Self::Stage => "stage",
            Self::Promote => "promote",
            Self::Retire(_) => "retire",
            Self::Publish(_) => "publish",
            Self::Issue => "issue",
        }
    }
}

impl RotatorStatus {
    fn note(&mut self, report: &Report) {
        self.holder = true;
        self.succeeded = Some(Timestamp::now());
        for action in &report.done {
            *self.done.entry(action.kind()).or_default() += 1;
        }
        let observed = &report.observed;
        self.leaf_expiry = observed.serving.map(|serving| serving.leaf.not_after);
        self.signer_expiry = observed.rotation.as_ref().map(|one| one.signer.not_after);
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}
