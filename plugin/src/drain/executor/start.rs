//! How a drain begins: its cordons, and where its machine starts.

use nodelife_core::drain::DrainEvent;
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use super::super::node::cordon;
use super::super::output::events::Happening;
use super::Executor;
use crate::exit::ExitStatus;

impl Executor<'_> {
    /// What was read before the cordon is where the machine starts.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        let budgets = std::mem::take(&mut self.scene.budgets);
        let unseen = budgets.is_unreadable();
        self.step(DrainEvent::Budgets(budgets.into_known()))?;
        if unseen {
            self.step(DrainEvent::BudgetsUnreadable)?;
        }
        for (node, pods) in std::mem::take(&mut self.scene.pods) {
            self.step(DrainEvent::Listed { node, pods })?;
        }
        Ok(())
    }

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
}
