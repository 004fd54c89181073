//! The first connection to the cluster.

use std::time::Duration;

use nodelife_cluster::{ClientOptions, Cluster, ConnectError};
use tokio_util::sync::CancellationToken;

/// Connects, and retries until the API server answers: a program may start before it, and restarts
/// by the kubelet would back off. `None` if `cancel` came first or no kubeconfig is usable.
pub async fn connect(
    options: &ClientOptions,
    interval: Duration,
    cancel: &CancellationToken,
) -> Option<Cluster> {
    let connected = async {
        loop {
            match Cluster::connect(options).await {
                Ok(cluster) => return Some(cluster),
                Err(error @ ConnectError::Kubeconfig { .. }) => {
                    tracing::error!(%error, "no usable cluster");
                    return None;
                }
                Err(error) => tracing::warn!(%error, "failed to connect, retrying"),
            }
            tokio::time::sleep(interval).await;
        }
    };
    cancel.run_until_cancelled(connected).await.flatten()
}
