//! [`Part`]: one job of the controller, and [`Term`], what it gets while it runs.

use std::sync::Arc;

use futures::future::BoxFuture;
use nodelife_cluster::Cluster;
use tokio_util::sync::CancellationToken;

/// One job of the controller. It is made once, registers its metrics then, and runs while this
/// replica is the leader: once in each term.
pub trait Part: Send + Sync + 'static {
    /// The name in logs and metrics: `audit`.
    fn name(&self) -> &'static str;

    /// Runs until `term.cancel`. It has [`crate::leader::STOP_LIMIT`] to end after that, and is
    /// then dropped at its next await; it must not hold the thread for longer than that.
    ///
    /// # Errors
    ///
    /// The job failed as a whole. The leader logs it and runs the part again after a pause.
    fn run(self: Arc<Self>, term: Term) -> BoxFuture<'static, anyhow::Result<()>>;
}

pub type Parts = Vec<Arc<dyn Part>>;

/// The time in which this replica is the leader.
#[derive(Clone)]
pub struct Term {
    pub cluster: Cluster,
    /// Cancelled when the term ends. After that another replica may write.
    pub cancel: CancellationToken,
    /// Who the leader is: the `holderIdentity` of the Lease.
    pub identity: Arc<str>,
}
