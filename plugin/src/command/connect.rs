//! Connects to the cluster and prints the server's warnings.

use nodelife_cluster::{Cluster, ConnectError};

use crate::cli::ClusterArgs;
use crate::output::Printer;

pub(crate) async fn connect(
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Result<Cluster, ConnectError> {
    let cluster = Cluster::connect(cluster).await?;
    printer.listen(cluster.warnings());
    Ok(cluster)
}

/// As [`connect`], without a request.
pub(crate) async fn prepare(
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> Result<Cluster, ConnectError> {
    let cluster = Cluster::without_handshake(cluster).await?;
    printer.listen(cluster.warnings());
    Ok(cluster)
}
