//! `maintenance watch`: prints what changes, in the words of a drain, until the end.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::node_maintenance::{NodeMaintenance, NodeState};
use nodelife_core::text::Str;
use nodelife_drain::DrainStatus;

use super::object::{get, why};
use crate::exit::ExitStatus;
use crate::output::Printer;

/// Follows a maintenance to its end, or until it is refused; the exit status is that of the drain.
pub(super) async fn watch(
    cluster: &Cluster,
    name: &str,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let first = get(cluster, name).await?;
    let mut watch = follow(cluster, name);
    let mut seen = Seen::default();
    seen.print(&first, printer);
    let mut last = first;
    loop {
        if let Some(code) = last.status.exit_status {
            if last.status.finished_at.is_none() {
                let text = "refused as things are; the controller looks again from time to time";
                printer.note(format_args!("nodemaintenance/{name}: {text}"));
            } else {
                let drained = last.status.progress.as_deref().unwrap_or("no");
                printer.note(format_args!(
                    "nodemaintenance/{name}: {}: {drained} nodes drained",
                    last.state()
                ));
            }
            return Ok(DrainStatus::of_code(code).into());
        }
        match next(&mut watch, &last.metadata.uid, printer).await? {
            Some(now) => last = now,
            None => bail!("nodemaintenance/{name} was deleted before it ended"),
        }
        seen.print(&last, printer);
    }
}

/// Waits until this object is gone.
pub(super) async fn until_gone(
    cluster: &Cluster,
    object: &NodeMaintenance,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut watch = follow(cluster, &object.metadata.name);
    let mut told = String::new();
    while let Some(now) = next(&mut watch, &object.metadata.uid, printer).await? {
        if let Some(blocked) = now.blocked()
            && blocked.message != told.as_str()
        {
            blocked.message.as_str().clone_into(&mut told);
            printer.note(format_args!("waiting: {told}"));
        }
    }
    Ok(())
}

fn follow(cluster: &Cluster, name: &str) -> Watch<NodeMaintenance> {
    cluster.watch(&listing::NODE_MAINTENANCES, ListFilter::named(name))
}

/// The next state of the object of this UID; none when it is gone.
async fn next(
    watch: &mut Watch<NodeMaintenance>,
    uid: &Str,
    printer: &mut Printer,
) -> anyhow::Result<Option<NodeMaintenance>> {
    loop {
        match watch.next().await.context("the watch has ended")? {
            Update::Listed(all) => {
                return Ok(all.into_iter().find(|one| one.metadata.uid == *uid));
            }
            Update::Applied(one) if one.metadata.uid == *uid => return Ok(Some(one)),
            Update::Deleted(one) if one.metadata.uid == *uid => return Ok(None),
            Update::Applied(_) | Update::Deleted(_) | Update::Unreadable(_) => {}
            Update::Failed { error, .. } => match error {
                ApiError::Forbidden(_) | ApiError::Untrusted { .. } => return Err(error.into()),
                error => printer.warn(format_args!(
                    "watch of nodemaintenances failed, retrying: {error}"
                )),
            },
        }
    }
}

/// The nodes and pods as they were printed.
#[derive(Default)]
struct Seen {
    state: String,
    blocked: Str,
    nodes: BTreeMap<Str, (NodeState, String)>,
    pods: BTreeMap<(Str, Str), Str>,
}

impl Seen {
    fn print(&mut self, one: &NodeMaintenance, printer: &mut Printer) {
        let name = &one.metadata.name;
        if self.state != one.state() {
            one.state().clone_into(&mut self.state);
            printer.note(format_args!("nodemaintenance/{name}: {}", self.state));
        }
        let blocked = one.blocked().map(|b| b.message.clone()).unwrap_or_default();
        if blocked != self.blocked {
            if !blocked.is_empty() {
                printer.note(format_args!("nodemaintenance/{name}: {blocked}"));
            }
            self.blocked = blocked;
        }
        for node in &one.status.nodes {
            let now = (node.state, why(node));
            if self.nodes.get(&node.name) != Some(&now) {
                let colon = if now.1.is_empty() { "" } else { ": " };
                let state = super::describe::state(node.state);
                printer.note(format_args!("node/{}: {state}{colon}{}", node.name, now.1));
                self.nodes.insert(node.name.clone(), now);
            }
        }
        let mut pods = BTreeMap::new();
        for pod in &one.status.pods {
            let key = (pod.namespace.clone(), pod.name.clone());
            if self.pods.get(&key) != Some(&pod.reason) {
                printer.note(format_args!(
                    "{}/{}: {}",
                    pod.namespace, pod.name, pod.reason
                ));
            }
            pods.insert(key, pod.reason.clone());
        }
        self.pods = pods;
    }
}
