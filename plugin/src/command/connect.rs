//! Connects to the cluster and prints the server's warnings.

use anyhow::Result;
use nodelife_cluster::Cluster;
use nodelife_drain::DrainIdentity;

use crate::cli::ClusterArgs;
use crate::output::Printer;

pub(crate) async fn connect(cluster: &ClusterArgs, printer: &mut Printer) -> Result<Cluster> {
    let cluster = Cluster::connect(cluster).await?;
    printer.listen(cluster.warnings());
    Ok(cluster)
}

/// Who drains: the user as the API server knows them.
pub(crate) async fn identity(cluster: &Cluster) -> DrainIdentity {
    DrainIdentity::of_process(cluster.user().await.ok().flatten())
}

/// As [`connect`], without a request.
pub(crate) async fn prepare(cluster: &ClusterArgs, printer: &mut Printer) -> Result<Cluster> {
    let cluster = Cluster::without_handshake(cluster).await?;
    printer.listen(cluster.warnings());
    Ok(cluster)
}
