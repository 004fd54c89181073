//! Reads a `NodeMaintenance` for the commands about it.

use anyhow::bail;
use jiff::SignedDuration;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::resource::NODE_MAINTENANCES;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::format;
use nodelife_core::node_maintenance::{BetweenNodes, NodeMaintenance, NodeStatus};
use nodelife_core::object::Lease;
use nodelife_drain::is_forbidden;

use crate::command::drain::NOT_INSTALLED;
use crate::output::Printer;

/// A controller renews its Lease every few seconds; clocks differ.
const SILENT: SignedDuration = SignedDuration::from_mins(1);

pub(super) fn progress(one: &NodeMaintenance) -> String {
    let progress = one.status.progress.as_deref();
    progress.map_or_else(
        || match one.spec.nodes.len() {
            0 => "-".to_owned(),
            nodes => format!("0/{nodes}"),
        },
        str::to_owned,
    )
}

pub(super) fn why(node: &NodeStatus) -> String {
    let next = match node.next_waits_for {
        Some(BetweenNodes::Soak) => "the next node waits for the soak after it",
        Some(BetweenNodes::Gate) => "the next node waits for its gate",
        None => "",
    };
    let parts = [node.message.as_str(), next].into_iter();
    format::join(parts.filter(|part| !part.is_empty()), "; ")
}

/// Says so if no controller is at work, by its Lease. Who may not list Leases is told nothing.
pub(crate) async fn warn_without_controller(cluster: &Cluster, printer: &mut Printer) {
    let named = ListFilter::named("nodelife-controller");
    let Ok(leases) = cluster.items(&listing::ALL_LEASES, &named).await else {
        return;
    };
    let now = cluster.clock().now();
    let silent = |lease: &Lease| now.duration_since(lease.spec.renew_time.unwrap_or_default());
    // A leader that ends gives its Lease back.
    let is_held = |lease: &&Lease| lease.holder().is_some();
    let last = leases
        .iter()
        .filter(is_held)
        .min_by_key(|lease| silent(lease));
    let why = match last {
        Some(lease) if silent(lease) < SILENT => return,
        Some(lease) => format!(
            "the leader was last heard of {} ago",
            format::duration(silent(lease).as_secs())
        ),
        None => "no replica holds the Lease nodelife-controller".to_owned(),
    };
    let pods = "kubectl get pods -A -l app.kubernetes.io/component=controller";
    printer.warn(format_args!(
        "no controller is at work, so nothing happens: {why}; see {pods}"
    ));
}

pub(super) async fn list(cluster: &Cluster) -> anyhow::Result<Vec<NodeMaintenance>> {
    let all = ListFilter::default();
    match cluster.items(&listing::NODE_MAINTENANCES, &all).await {
        Err(ApiError::NotFound(_)) => bail!(NOT_INSTALLED),
        listed => Ok(listed?),
    }
}

pub(super) async fn get(cluster: &Cluster, name: &str) -> anyhow::Result<NodeMaintenance> {
    if let Some(found) = cluster.get(NODE_MAINTENANCES.all().named(name)).await? {
        return Ok(found);
    }
    match list(cluster).await {
        // Whether the definition is installed is not known then.
        Err(error) if !is_forbidden(&error) => Err(error),
        _ => bail!("nodemaintenances.nodelife.dev \"{name}\" not found"),
    }
}
