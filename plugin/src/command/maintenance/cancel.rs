//! `maintenance cancel`: deletes a maintenance, and waits until its nodes are uncordoned.

use std::time::Duration;

use anyhow::bail;
use nodelife_cluster::resource::NODE_MAINTENANCES;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::node_maintenance::{FINALIZER, NodeMaintenance};
use nodelife_drain::{DrainIdentity, DrainStatus, TakeOff, give_back};

use super::object::get;
use super::{CancelArgs, watch};
use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;

/// How long a controller may take before it is said what to do without one: another replica leads
/// within 20 s of the leader's end.
const PATIENCE: Duration = Duration::from_secs(25);

/// Deletes it, and waits until it is gone: its finalizer goes when the nodes are uncordoned.
pub(super) async fn cancel(cluster: &Cluster, args: &CancelArgs, printer: &mut Printer) -> Exit {
    let name = args.name.name();
    let found = get(cluster, name).await?;
    match cluster.delete_maintenance(&found).await {
        Ok(()) | Err(ApiError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    if args.without_controller {
        let status = release(cluster, &found, printer).await?;
        if status != DrainStatus::Done {
            return Ok(status.into());
        }
    } else {
        printer.note(format_args!(
            "nodemaintenance/{name}: cancelled; waiting until its nodes are uncordoned"
        ));
    }
    let gone = watch::until_gone(cluster, &found, printer);
    let in_time = tokio::time::timeout(PATIENCE, gone).await;
    if let Ok(gone) = in_time {
        gone?;
    } else {
        printer.note(format_args!(
            "still waiting for nodelife-controller; if none runs: kubectl nodelife maintenance \
             cancel {name} --without-controller"
        ));
        watch::until_gone(cluster, &found, printer).await?;
    }
    printer.paragraph(format_args!("nodemaintenance.nodelife.dev/{name} deleted"))?;
    Ok(ExitStatus::Done)
}

/// Does what the controller would: gives back the nodes, and takes the finalizer away.
async fn release(
    cluster: &Cluster,
    found: &NodeMaintenance,
    printer: &mut Printer,
) -> anyhow::Result<DrainStatus> {
    let meta = &found.metadata;
    loop {
        let target = NODE_MAINTENANCES.all().named(&meta.name);
        let now: Option<NodeMaintenance> = cluster.get(target).await?;
        let Some(now) = now.filter(|now| now.metadata.uid == meta.uid) else {
            return Ok(DrainStatus::Done);
        };
        if !now.metadata.finalizers.iter().any(|one| *one == FINALIZER) {
            return Ok(DrainStatus::Done);
        }
        if let Some(why) = &now.unreadable_status {
            bail!("cannot tell which nodes to give back: {why}");
        }
        if now.status.started_at.is_some() {
            let identity = DrainIdentity::of_maintenance(&now, "kubectl-nodelife".to_owned());
            let taken = now.status.nodes.iter().map(|node| node.name.clone());
            let taken = taken.collect();
            let left = give_back(cluster, &identity, &taken, TakeOff::All, printer).await?;
            if !left.0.is_empty() {
                return Ok(DrainStatus::Failed);
            }
        }
        let released = cluster.set_maintenance_finalizer(&now, false);
        match released.await {
            // Somebody wrote it meanwhile: perhaps a controller, which took more.
            Err(ApiError::Conflict(_)) => {}
            Ok(()) | Err(ApiError::NotFound(_)) => return Ok(DrainStatus::Done),
            Err(error) => return Err(error.into()),
        }
    }
}
