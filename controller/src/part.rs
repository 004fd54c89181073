//! [`Part`]: one job of the controller, and [`Term`], what it gets while it runs.

use std::sync::Arc;

use futures::future::BoxFuture;
use nodelife_cluster::Cluster;
use tokio_util::sync::CancellationToken;

/// One job of the controller: made once, with its metrics, and run in each term of this replica.
pub trait Part: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Runs until `term.cancel`. It has [`crate::leader::STOP_LIMIT`] to end after that, and is
    /// then dropped at its next await; it must not hold the thread for longer than that.
    /// An error is a failure of the job as a whole: the leader logs it and runs the part again after a pause.
    fn run(self: Arc<Self>, term: Term) -> BoxFuture<'static, anyhow::Result<()>>;
}

pub type Parts = Vec<Arc<dyn Part>>;

#[derive(Clone)]
pub struct Term {
    pub cluster: Cluster,
    /// Cancelled when the term ends. After that another replica may write.
    pub cancel: CancellationToken,
    /// Who the leader is: the `holderIdentity` of the Lease.
    pub identity: Arc<str>,
}
