//! Control loop of the rotation: reads the cluster, calls `step`, carries out its
//! actions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authority::Authority;
use crate::certificate::{Encoded, Fingerprint};
use crate::error::Error;
use crate::leaf::Leaf;
use crate::lease::Tenure;
use crate::lifetimes::Lifetimes;
use crate::memory::Memory;
use crate::names::Names;
use crate::observed::{Now, Observed};
use crate::step::{Action, step};
use crate::store::{Chain, Seen, Store};

/// One pass reads five objects and writes a few; an API server that takes longer than
/// this for it is treated as unreachable.
const PASS: Duration = Duration::from_secs(20);

/// What one pass did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was carried out.
    pub done: Vec<Action>,
    /// What was read before.
    pub observed: Observed,
}

/// How the rotation is doing, for health checks and metrics.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Whether this process holds the Lease.
    pub holder: bool,
    /// When a pass last succeeded (or another holder was last seen at work).
    pub succeeded: Option<Timestamp>,
    /// Passes that failed since the start.
    pub failed: u64,
    /// What was done since the start, by kind: `found`, `adopt`, `stage`, `promote`,
    /// `retire`, `publish`, `issue`.
    pub done: BTreeMap<&'static str, u64>,
    /// End of the serving leaf.
    pub leaf_expiry: Option<Timestamp>,
    /// End of the signing CA.
    pub signer_expiry: Option<Timestamp>,
}

/// Carries out what [`step`] decides.
pub struct Rotator {
    client: Client,
    store: Store,
    lifetimes: Lifetimes,
    memory: Memory,
    started: Instant,
}

impl Rotator {
    /// A rotation of the certificates of `names`. `client` must not retry by itself:
    /// the loop does, on what it reads anew.
    pub fn new(client: Client, names: Names, lifetimes: Lifetimes) -> Self {
        Self {
            store: Store::new(client.clone(), names),
            client,
            lifetimes,
            memory: Memory::default(),
            started: Instant::now(),
        }
    }

    /// Reads the cluster once and does what is due.
    pub async fn pass(&mut self) -> Result<Report, Error> {
        tokio::time::timeout(PASS, self.pass_now())
            .await
            .map_err(|_| Error::Deadline(PASS))?
    }

    async fn pass_now(&mut self) -> Result<Report, Error> {
        let now = Now {
            wall: Timestamp::now(),
            steady: self.started.elapsed(),
        };
        let seen = self.store.read().await?;
        let observed = seen.observed();
        self.memory.note(&observed, self.started.elapsed());
        let mut done = Vec::new();
        for action in step(&observed, &self.memory, now, &self.lifetimes) {
            match self.carry_out(&action, &seen, now.wall).await {
                Ok(()) => {
                    tracing::info!(?action, "done");
                    done.push(action);
                }
                Err(Error::Conflict(what)) => {
                    tracing::info!(?action, "{what}: someone else was faster");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Report { done, observed })
    }

    /// Passes until nothing more is due at once (`--once`): installs, repairs and
    /// renews, but does not wait for a CA to propagate.
    pub async fn settle(&mut self) -> Result<Vec<Action>, Error> {
        let mut all = Vec::new();
        loop {
            let report = self.pass().await?;
            if report.done.is_empty() {
                return Ok(all);
            }
            all.extend(report.done);
        }
    }

    /// Passes every `interval` while the Lease is ours, until `cancel`. Errors are
    /// logged and counted; the next pass tries again.
    pub async fn run(
        mut self,
        identity: String,
        interval: Duration,
        status: watch::Sender<Status>,
        cancel: CancellationToken,
    ) {
        let mut tenure = Tenure::new(self.client.clone(), &self.store.names, identity);
        loop {
            let again = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                again = self.turn(&mut tenure, &status) => again,
            };
            if again {
                continue;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = tokio::time::sleep(interval) => {}
            }
        }
        if let Err(error) = tenure.release().await {
            tracing::warn!(error = %chain(&error), "failed to give the Lease back");
        }
    }

    /// One turn of the loop; whether the next one is due at once.
    async fn turn(&mut self, tenure: &mut Tenure, status: &watch::Sender<Status>) -> bool {
        let holder = match tenure.hold().await {
            Ok(holder) => holder,
            Err(error) => {
                // Without a Lease two writers may both work, which is only wasteful.
                tracing::warn!(error = %chain(&error), "working without the Lease");
                true
            }
        };
        if !holder {
            // What was seen before may no longer be so: another writer is at work.
            self.memory = Memory::default();
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
                tracing::warn!(error = %chain(&error), "the pass failed and is tried again");
                status.send_modify(|status| {
                    status.holder = true;
                    status.failed += 1;
                });
                false
            }
        }
    }

    async fn carry_out(&self, action: &Action, seen: &Seen, now: Timestamp) -> Result<(), Error> {
        let names = &self.store.names;
        let make = || Authority::make(names, &self.lifetimes, now);
        match (action, &seen.chain) {
            (Action::Found(kept), _) => {
                let signer = make()?;
                let mut bundle = vec![signer.certificate.clone()];
                bundle.extend(pick(seen, kept));
                let chain = Chain {
                    signer: Arc::new(signer),
                    next: None,
                    bundle,
                    promoted: now,
                };
                self.store.write_chain(seen, &chain).await
            }
            (Action::Publish(index), Some(chain)) => {
                self.store.publish(seen, *index, &chain.bundle).await
            }
            (Action::Issue, Some(chain)) => {
                let leaf = Leaf::make(&chain.signer, names, &self.lifetimes, now)?;
                self.store.write_leaf(seen, &leaf).await
            }
            (turn, Some(chain)) => {
                let chain = turned(turn, chain, seen, make, now)?;
                self.store.write_chain(seen, &chain).await
            }
            // Every other action rests on a CA that was read.
            (_, None) => Ok(()),
        }
    }
}

/// The CA's Secret after `turn`.
fn turned(
    turn: &Action,
    chain: &Chain,
    seen: &Seen,
    make: impl FnOnce() -> Result<Authority, Error>,
    now: Timestamp,
) -> Result<Chain, Error> {
    let mut new = chain.clone();
    match turn {
        Action::Stage => {
            if let Some(old) = new.next.take() {
                new.bundle.retain(|one| *one != old.certificate);
            }
            let next = Arc::new(make()?);
            new.bundle.push(next.certificate.clone());
            new.next = Some(next);
        }
        Action::Promote => {
            if let Some(next) = new.next.take() {
                new.signer = next;
                new.promoted = now;
            }
        }
        Action::Adopt(id) => {
            new.bundle.extend(pick(seen, &[*id]));
            new.promoted = now;
        }
        Action::Retire(ids) => new.bundle.retain(|one| !ids.contains(&one.summary.id)),
        Action::Found(_) | Action::Publish(_) | Action::Issue => {}
    }
    Ok(new)
}

/// The certificates of these fingerprints.
fn pick(seen: &Seen, ids: &[Fingerprint]) -> Vec<Encoded> {
    ids.iter()
        .filter_map(|id| seen.certificates().find(|one| one.summary.id == *id))
        .cloned()
        .collect()
}

impl Action {
    /// A word for metrics.
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

impl Status {
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

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line
}
