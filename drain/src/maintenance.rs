//! Gives back the nodes of a `NodeMaintenance`: the controller does, or whoever acts for it.

use std::collections::BTreeSet;

use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{Cluster, listing};
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::text::Str;

use crate::identity::DrainIdentity;
use crate::node::uncordon::{UndoSettings, undo_drain};
use crate::reporter::DrainStatus;
use crate::reporter::Reporter;

impl DrainIdentity {
    /// The drain of a maintenance, for every process that carries it out. `instance`: who reports the Events.
    pub fn of_maintenance(maintenance: &NodeMaintenance, instance: String) -> Self {
        let meta = &maintenance.metadata;
        let name = format!("nodemaintenance/{} ({})", meta.name, meta.uid);
        Self {
            holder: name.clone(),
            cordoned_by: name,
            instance,
            since: maintenance.status.started_at,
        }
    }
}

/// Gives back what a maintenance took from these nodes, and nothing else. It may be repeated.
///
/// # Errors
///
/// The nodes could not be listed or locked. A node that fails is reported, and the status says so.
pub async fn give_back(
    cluster: &Cluster,
    identity: DrainIdentity,
    names: &BTreeSet<Str>,
    reporter: &mut dyn Reporter,
) -> anyhow::Result<DrainStatus> {
    let all = ListFilter::default();
    let mut nodes = cluster.list(&listing::NODES, &all, |_| {}).await?.items;
    nodes.retain(|node| names.contains(&node.metadata.name));
    let undo = UndoSettings {
        identity,
        own_only: true,
        dry_run: false,
    };
    undo_drain(cluster, &nodes, &undo, reporter).await
}
