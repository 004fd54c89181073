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
    loop {
        let error = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            connected = Cluster::connect(options) => match connected {
                Ok(cluster) => return Some(cluster),
                Err(error) => error,
            },
        };
        if let ConnectError::Kubeconfig { .. } = error {
            tracing::error!(%error, "no usable cluster");
            return None;
        }
        tracing::warn!(%error, "failed to connect, retrying");
        tokio::select! {
            () = cancel.cancelled() => return None,
            () = tokio::time::sleep(interval) => {}
        }
    }
}
