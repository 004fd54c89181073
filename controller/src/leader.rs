//! The leader election: parts run only while this replica holds the Lease.
//!
//! The times have client-go's meaning. A leader that could not renew for `renew_deadline` stops its
//! parts, and is done with that [`STOP_LIMIT`] later, before `lease_duration` is over and another
//! replica may start its own.
//!
//! Installations with Leases of their own must not both lead: whoever leads in another place than the
//! default holds the default Lease as well, in the name of its installation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use nodelife_cluster::{ApiError, ApiResult, Cluster, LeaseLock, LeaseName};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::health::LeaderStatus;
use crate::part::{Part, Parts, Term};

/// How long parts have to end after a term; then they are dropped.
pub const STOP_LIMIT: Duration = Duration::from_secs(2);
/// How long a part that failed waits before it runs again, the first time and at most.
const RESTART: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct Times {
    /// Seconds for which the Lease holds after a renewal.
    #[arg(long = "leader-elect-lease-duration", value_name = "SECONDS", default_value = "12", value_parser = seconds)]
    pub lease_duration: Duration,
    /// Seconds for which a leader may fail to renew; then it stops.
    #[arg(long = "leader-elect-renew-deadline", value_name = "SECONDS", default_value = "8", value_parser = seconds)]
    pub renew_deadline: Duration,
    /// Seconds between two attempts to acquire or to renew.
    #[arg(long = "leader-elect-retry-period", value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub retry_period: Duration,
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    Ok(Duration::from_secs(text.parse::<u32>()?.into()))
}

impl Times {
    pub fn problem(&self) -> Option<String> {
        let Self {
            lease_duration: lease,
            renew_deadline: deadline,
            retry_period: retry,
        } = *self;
        if retry.is_zero() {
            return Some("the retry period is zero".to_owned());
        }
        if deadline <= retry {
            return Some(format!(
                "the renew deadline ({deadline:?}) is not longer than the retry period ({retry:?})"
            ));
        }
        (lease <= deadline + STOP_LIMIT).then(|| {
            format!(
                "the lease duration ({lease:?}) is not longer than the renew deadline \
                 ({deadline:?}) and {STOP_LIMIT:?} in which the leader stops"
            )
        })
    }
}

pub struct Election {
    cluster: Cluster,
    lock: LeaseLock,
    shared: Option<LeaseLock>,
    times: Times,
    status: LeaderStatus,
}

impl Election {
    /// `identity` has to differ between replicas; `shared` is the Lease of all installations, if that is another.
    pub fn new(
        cluster: Cluster,
        lease: &LeaseName,
        shared: Option<&LeaseName>,
        identity: String,
        times: Times,
        status: LeaderStatus,
    ) -> Self {
        let lock = |lease: &LeaseName, identity| {
            LeaseLock::new(cluster.clone(), lease, identity, times.lease_duration)
        };
        let installation = format!("{}/{}", lease.namespace, lease.name);
        Self {
            lock: lock(lease, identity),
            shared: shared.map(|shared| lock(shared, installation)),
            cluster,
            times,
            status,
        }
    }

    /// Competes for the Lease, and runs `parts` in each term, until `cancel`; then releases it.
    pub async fn run(mut self, parts: &Parts, cancel: &CancellationToken) {
        while cancel.run_until_cancelled(self.acquire()).await.is_some() {
            tracing::info!(identity = self.lock.identity(), "started leading");
            self.status.set(true);
            let is_lost = self.lead(parts, cancel).await;
            self.status.set(false);
            if !is_lost {
                break;
            }
            tracing::warn!("stopped leading: the Lease was not renewed in time");
        }
        match timeout(RELEASE_LIMIT, self.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to release the Lease"),
            Err(_elapsed) => tracing::warn!("failed to release the Lease in time"),
        }
    }

    /// Acquires or renews what a leader holds; whether all of it is held.
    async fn hold(&mut self) -> ApiResult<bool> {
        if !self.lock.hold(Duration::ZERO).await? {
            return Ok(false);
        }
        let Some(shared) = &mut self.shared else {
            return Ok(true);
        };
        match shared.hold(Duration::ZERO).await {
            Err(ApiError::NotFound(_)) => {
                self.cluster.create_lock_namespace().await?;
                shared.hold(Duration::ZERO).await
            }
            held => held,
        }
    }

    async fn release(&mut self) -> ApiResult<()> {
        // Without its own Lease, the shared one is its successor's.
        let leads = self.lock.renewed_at().is_some();
        if let Some(shared) = self.shared.as_mut().filter(|_| leads) {
            shared.release().await?;
        }
        self.lock.release().await
    }

    fn renewed_at(&self) -> Option<std::time::Instant> {
        let own = self.lock.renewed_at();
        let shared = self.shared.as_ref();
        shared.map_or(own, |shared| shared.renewed_at().min(own))
    }

    /// How long one attempt may take: a request that hangs must not use up the deadline.
    fn attempt_limit(&self) -> Duration {
        self.times.retry_period * 2
    }

    /// Waits until this replica holds the Lease.
    async fn acquire(&mut self) {
        let mut is_told = false;
        loop {
            match timeout(self.attempt_limit(), self.hold()).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {
                    let waits = self.lock.renewed_at().is_some();
                    if waits && !std::mem::replace(&mut is_told, true) {
                        tracing::warn!("another installation of nodelife-controller leads");
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "failed to acquire the Lease, retrying"),
                Err(_elapsed) => tracing::warn!("failed to acquire the Lease in time, retrying"),
            }
            tokio::time::sleep(self.times.retry_period).await;
        }
    }

    /// Runs the parts and renews the Lease until it is lost or `cancel` comes; whether it was lost. No
    /// part runs any more then.
    async fn lead(&mut self, parts: &Parts, cancel: &CancellationToken) -> bool {
        let term = Term {
            cluster: self.cluster.clone(),
            cancel: CancellationToken::new(),
            identity: self.lock.identity().into(),
        };
        let mut tasks = JoinSet::new();
        for part in parts {
            tasks.spawn(keep_running(Arc::clone(part), term.clone()));
        }
        let lost = cancel.run_until_cancelled(self.renew()).await;
        term.cancel.cancel();
        let all = async { while tasks.join_next().await.is_some() {} };
        if timeout(STOP_LIMIT, all).await.is_err() {
            tracing::warn!("a part did not stop by itself");
        }
        tasks.shutdown().await;
        lost.is_some()
    }

    async fn renew(&mut self) {
        loop {
            let Some(renewed) = self.renewed_at() else {
                return;
            };
            let deadline = Instant::from_std(renewed) + self.times.renew_deadline;
            let next = Instant::now() + self.times.retry_period;
            tokio::time::sleep_until(next.min(deadline)).await;
            let limit = deadline.min(Instant::now() + self.attempt_limit());
            match timeout_at(limit, self.hold()).await {
                Ok(Ok(true)) => continue,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => tracing::warn!(%error, "failed to renew the Lease, retrying"),
                Err(_elapsed) => tracing::warn!("failed to renew the Lease in time, retrying"),
            }
            if Instant::now() >= deadline {
                return;
            }
        }
    }
}

/// Runs a part until the end of the term, again after a failure or a panic.
async fn keep_running(part: Arc<dyn Part>, term: Term) {
    let (mut pause, longest) = RESTART;
    loop {
        let part_name = part.name();
        let run = AssertUnwindSafe(Arc::clone(&part).run(term.clone())).catch_unwind();
        let begun = Instant::now();
        let ended = run.await;
        if term.cancel.is_cancelled() {
            return;
        }
        match ended {
            Ok(Ok(())) => tracing::warn!(part = part_name, "the part ended, starting it again"),
            Ok(Err(error)) => {
                let error = format!("{error:#}");
                tracing::error!(
                    part = part_name,
                    error,
                    "the part failed, starting it again"
                );
            }
            Err(_panic) => {
                tracing::error!(part = part_name, "the part panicked, starting it again");
            }
        }
        if begun.elapsed() > longest {
            pause = RESTART.0;
        }
        tokio::select! {
            () = term.cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(lease: u64, deadline: u64, retry: u64) -> Times {
        Times {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(deadline),
            retry_period: Duration::from_secs(retry),
        }
    }

    #[test]
    fn a_leader_stops_before_its_lease_expires() {
        assert_eq!(times(12, 8, 2).problem(), None);
        assert!(
            times(10, 8, 2)
                .problem()
                .unwrap()
                .contains("lease duration")
        );
        assert!(
            times(12, 2, 2)
                .problem()
                .unwrap()
                .contains("renew deadline")
        );
        assert!(times(12, 8, 0).problem().is_some());
    }
}
