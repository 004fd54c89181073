//! The cordons of a drain, and what is told when a budget stands still.

use jiff::{SignedDuration, Timestamp};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use super::cordon;
use super::events::Happening;
use super::executor::Executor;
use crate::exit::ExitStatus;

/// How long a budget lets nothing go before the node's events tell of it: waves that follow
/// each other are no trouble.
const STALLED: SignedDuration = SignedDuration::from_secs(10);

impl Executor<'_> {
    /// Cordons all nodes, or those whose turn does not come later. `locked`: the only node, as
    /// its lock left it.
    pub(super) async fn cordon_first(
        &mut self,
        locked: Option<Node>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        for name in self.quarantine.clone() {
            match cordon::cordon(&self.cluster, &name, &self.mark, true).await {
                Ok(_) => self.narrator.printer().note(format_args!(
                    "node/{name}: quarantined: cordoned, and none of its pods is evicted"
                )),
                Err(error) => return self.no_cordon(error),
            }
        }
        if self.cordon_each {
            return Ok(None);
        }
        let nodes: Vec<(Str, bool)> = self
            .scene
            .nodes
            .iter()
            .map(|node| (node.metadata.name.clone(), node.spec.unschedulable))
            .collect();
        for (name, before) in nodes {
            if locked.as_ref().is_some_and(|node| node.spec.unschedulable) {
                self.begun(&name, !before);
                continue;
            }
            if !self.cordoned.contains(&name) && !before {
                self.cordoned.push(name.clone());
            }
            match cordon::cordon(&self.cluster, &name, &self.mark, false).await {
                Ok(changed) => self.begun(&name, changed),
                Err(error) => return self.no_cordon(error),
            }
        }
        Ok(None)
    }

    /// The status where a cordon was refused, or the error.
    fn no_cordon(&mut self, error: anyhow::Error) -> anyhow::Result<Option<ExitStatus>> {
        if !cordon::is_refused(&error) {
            return Err(error);
        }
        self.narrator.printer().error(&error);
        Ok(Some(ExitStatus::Impossible))
    }

    /// The cordon of a later node failed: no node is begun any more.
    pub(super) fn give_up(&mut self, error: anyhow::Error) -> anyhow::Result<ExitStatus> {
        let status = match self.no_cordon(error) {
            Ok(status) => status.unwrap_or(ExitStatus::Failed),
            Err(error) => {
                self.narrator.printer().error(&error);
                ExitStatus::Failed
            }
        };
        Ok(self.end()?.and(status))
    }

    /// A node is cordoned: its pods are evicted from now on.
    pub(super) fn begun(&mut self, node: &Str, changed: bool) {
        let how = if changed {
            "cordoned"
        } else {
            "already cordoned"
        };
        self.narrator
            .printer()
            .note(format_args!("node/{node}: {how}"));
        let text = format!("{} empties the node", self.events.instance());
        self.events.record(node, Happening::Started, "", &text);
        self.surges.begin(&self.cluster, node);
    }

    /// When the next budget has let nothing go for too long.
    pub(super) fn stalls_at(&self, now: Timestamp) -> Option<Timestamp> {
        let stalled = |tracked| self.machine.stalled_since(tracked);
        let ends = self.machine.pods().filter_map(stalled);
        ends.map(|since| since + STALLED)
            .filter(|at| *at > now)
            .min()
    }

    /// Has the node's events tell of budgets that let nothing go.
    pub(super) fn tell_stalls(&mut self, now: Timestamp) {
        for tracked in self.machine.pods() {
            let since = self.machine.stalled_since(tracked);
            if since.is_some_and(|since| now >= since + STALLED) {
                let meta = &tracked.pod.metadata;
                let text = format!("{}/{}: {}", meta.namespace, meta.name, tracked.state);
                let about = tracked.budget().unwrap_or_default();
                let node = &tracked.pod.spec.node_name;
                self.events.record(node, Happening::Blocked, &about, &text);
            }
        }
    }
}
