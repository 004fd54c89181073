//! Start of a drain: cordons, and the initial state of the machine.

use nodelife_core::drain::DrainEvent;
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use super::super::node::cordon;
use super::super::output::events::EventReason;
use super::Executor;
use crate::exit::ExitStatus;

impl Executor<'_> {
    /// What was read before the cordon is where the machine starts.
    pub(super) fn start_machine(&mut self) -> anyhow::Result<()> {
        for (node, pods) in std::mem::take(&mut self.view.pods) {
            self.step(DrainEvent::Listed { node, pods })?;
        }
        Ok(())
    }

    /// Cordons all nodes, or those whose turn does not come later. `locked`: the only node, as
    /// its lock left it.
    pub(super) async fn cordon_nodes(
        &mut self,
        locked: Option<Node>,
    ) -> anyhow::Result<Option<ExitStatus>> {
        for name in self.options.quarantine.clone() {
            match cordon::cordon(&self.cluster, &name, &self.cordon_owner, true).await {
                Ok(_) => self.log.printer().note(format_args!(
                    "node/{name}: quarantined: cordoned, no pods are evicted"
                )),
                Err(error) => return self.cordon_refused(error),
            }
        }
        if self.cordon_each {
            return Ok(None);
        }
        let nodes: Vec<(Str, bool)> = self
            .view
            .nodes
            .iter()
            .map(|node| (node.metadata.name.clone(), node.spec.unschedulable))
            .collect();
        for (name, before) in nodes {
            if locked.as_ref().is_some_and(|node| node.spec.unschedulable) {
                self.node_cordoned(&name, !before);
                continue;
            }
            if !self.cordoned.contains(&name) && !before {
                self.cordoned.push(name.clone());
            }
            match cordon::cordon(&self.cluster, &name, &self.cordon_owner, false).await {
                Ok(changed) => self.node_cordoned(&name, changed),
                Err(error) => return self.cordon_refused(error),
            }
        }
        Ok(None)
    }

    /// The status where a cordon was refused, or the error.
    fn cordon_refused(&mut self, error: anyhow::Error) -> anyhow::Result<Option<ExitStatus>> {
        if !cordon::is_refused(&error) {
            return Err(error);
        }
        self.log.printer().error(&error);
        Ok(Some(ExitStatus::Impossible))
    }

    /// The cordon of a later node failed: no node is begun any more.
    pub(super) fn give_up(&mut self, error: anyhow::Error) -> anyhow::Result<ExitStatus> {
        let status = match self.cordon_refused(error) {
            Ok(status) => status.unwrap_or(ExitStatus::Failed),
            Err(error) => {
                self.log.printer().error(&error);
                ExitStatus::Failed
            }
        };
        Ok(self.finish()?.and(status))
    }

    /// A node is cordoned: its pods are evicted from now on.
    pub(super) fn node_cordoned(&mut self, node: &Str, changed: bool) {
        let how = if changed {
            "cordoned"
        } else {
            "already cordoned"
        };
        self.log.printer().note(format_args!("node/{node}: {how}"));
        let text = format!("{} is draining the node", self.events.instance());
        self.events.record(node, EventReason::Started, "", &text);
        self.options.surges.start(&self.cluster, node);
    }
}
