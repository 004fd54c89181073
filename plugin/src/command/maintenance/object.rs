//! Reads a `NodeMaintenance` for the commands about it.

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::NODE_MAINTENANCES;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::format;
use nodelife_core::node_maintenance::{BetweenNodes, NodeMaintenance, NodeStatus};
use nodelife_core::object::Lease;
use serde::Deserialize;

use crate::command::drain::NOT_INSTALLED;
use crate::output::Printer;

/// A controller renews its Lease every few seconds; clocks differ.
const SILENT: SignedDuration = SignedDuration::from_mins(1);

/// How many nodes are drained, of how many.
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

/// Why a node is not drained, or what the next one waits for.
pub(super) fn why(node: &NodeStatus) -> String {
    let next = match node.next_waits_for {
        Some(BetweenNodes::Soak) => "the next node waits for the soak after it",
        Some(BetweenNodes::Gate) => "the next node waits for its gate",
        None => "",
    };
    let parts = [node.message.as_str(), next].into_iter();
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// Says so if no controller is at work, by its Lease. Who may not list Leases is told nothing.
pub(in crate::command) async fn warn_without_controller(cluster: &Cluster, printer: &mut Printer) {
    #[derive(Deserialize)]
    struct Leases {
        items: Vec<Lease>,
    }
    let call = Call::get(listing::LEASES.resource.all());
    let call = call.with_query("fieldSelector", "metadata.name=nodelife-controller");
    let Ok(leases) = cluster.call(&call).await else {
        return;
    };
    let Ok(Leases { items }) = leases.json(&call) else {
        return;
    };
    let now = cluster.clock().now();
    let silent = |lease: &Lease| {
        let renewed = lease.spec.renew_time.unwrap_or(Timestamp::UNIX_EPOCH);
        now.duration_since(renewed)
    };
    let is_held = |lease: &&Lease| {
        let holder = lease.spec.holder_identity.as_deref();
        holder.is_some_and(|holder| !holder.is_empty()) && silent(lease) < SILENT
    };
    if items.iter().any(|lease| is_held(&lease)) {
        return;
    }
    let last = items.iter().min_by_key(|lease| silent(lease));
    let (why, namespace) = last.map_or_else(
        || {
            (
                "there is no Lease nodelife-controller".to_owned(),
                "nodelife-system",
            )
        },
        |lease| {
            let namespace = lease.metadata.namespace.as_str();
            let ago = format::duration(silent(lease).as_secs());
            let why = format!("the Lease {namespace}/nodelife-controller was renewed {ago} ago");
            (why, namespace)
        },
    );
    printer.warn(format_args!(
        "no controller is at work, so nothing happens: {why}; see kubectl -n {namespace} get pods"
    ));
}

/// Reads the object of this name.
pub(super) async fn get(cluster: &Cluster, name: &str) -> anyhow::Result<NodeMaintenance> {
    if let Some(found) = cluster.get(NODE_MAINTENANCES.all().named(name)).await? {
        return Ok(found);
    }
    let all = ListFilter::default();
    let listed = cluster
        .list(&listing::NODE_MAINTENANCES, &all, |_| {})
        .await;
    if let Err(ApiError::NotFound(_)) = listed {
        bail!(NOT_INSTALLED);
    }
    bail!("nodemaintenances.nodelife.dev \"{name}\" not found")
}
