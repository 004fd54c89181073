//! Start of a drain: cordons, and the initial state of the machine.

use anyhow::Result;
use futures::future::join_all;
use nodelife_core::node_marks::DrainProgress;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainEvent, Effect, NodeLoss};

use super::Executor;
use crate::events::EventReason;
use crate::node::cordon::{self, CordonOutcome};
use crate::node::lock::MAX_WRITES;
use crate::node::waiting::mark_waiting;
use crate::reporter::DrainStatus;

impl Executor<'_> {
    pub(super) fn start_machine(&mut self) -> Result<()> {
        let pods = std::mem::take(&mut self.view.pods).into_iter();
        let listed = pods.map(|(node, pods)| DrainEvent::Listed { node, pods });
        self.queue.extend(listed);
        self.decide()
    }

    pub(super) async fn cordon_nodes(&mut self) -> Result<()> {
        let nodes = self.view.nodes.clone();
        if self.cordon_each {
            // Before the first decision, which lets the first of them begin.
            self.marked = nodes.iter().map(|n| n.metadata.name.clone()).collect();
            mark_waiting(&self.cluster, &nodes).await;
        }
        let all = self.view.excluded.iter().chain(&nodes);
        self.queue.extend(all.cloned().map(seen));
        self.decide()?;
        if self.cordon_each {
            return Ok(());
        }
        for some in nodes.chunks(MAX_WRITES) {
            let mut attempts = Vec::new();
            for node in some {
                let name = &node.metadata.name;
                if !self.cordoned.contains(name) && self.cordons(node) {
                    self.cordoned.push(name.clone());
                }
                // One that was cordoned already is read again: somebody may have uncordoned it since.
                let shown = (!node.spec.unschedulable).then(|| node.clone());
                let owner = &self.cordon_owner;
                attempts.push(cordon::cordon(&self.cluster, node, shown, owner, false));
            }
            let ended = join_all(attempts).await;
            for (node, done) in some.iter().zip(ended) {
                let event = self.cordon_ended(node.metadata.name.clone(), done);
                self.queue.push(event);
            }
            self.decide()?;
        }
        Ok(())
    }

    pub(super) fn start_cordon(&mut self, node: Str) {
        let mut nodes = self.view.nodes.iter();
        let Some(known) = nodes.find(|known| known.metadata.name == node).cloned() else {
            return;
        };
        if self.cordons(&known) {
            self.cordoned.push(node.clone());
        }
        let exclusion = self.request.settings.exclude_from_load_balancers;
        if let Some(wait) = exclusion {
            let text = format_args!("node/{node}: load balancers have {wait} to leave it out");
            self.reporter.note(text);
        }
        let cluster = self.cluster.clone();
        let cordon_owner = self.cordon_owner.clone();
        let journal = self.request.journal.clone();
        self.cordons.spawn(async move {
            if let Some(journal) = journal {
                journal.begins(node.clone()).await;
            }
            let excludes = exclusion.is_some();
            let done = cordon::cordon(&cluster, &known, None, &cordon_owner, excludes).await;
            if let (Some(wait), Ok(CordonOutcome::Cordoned { .. })) = (exclusion, &done) {
                tokio::time::sleep(wait.0).await;
            }
            (node, done)
        });
    }

    pub(super) fn cordon_ended(&mut self, node: Str, done: Result<CordonOutcome>) -> DrainEvent {
        match done {
            Ok(CordonOutcome::Cordoned { changed, version }) => {
                self.node_cordoned(&node, changed);
                DrainEvent::Cordoned { node, version }
            }
            Ok(CordonOutcome::Gone(found)) => DrainEvent::NodeSeen { node, found },
            Err(error) => {
                self.reporter.error(&error);
                self.failed = self.failed.and(if cordon::is_refused(&error) {
                    DrainStatus::Impossible
                } else {
                    DrainStatus::Failed
                });
                DrainEvent::CordonFailed { node }
            }
        }
    }

    pub(super) fn node_left(&mut self, node: &Str, loss: NodeLoss) {
        if loss == NodeLoss::CordonFailed {
            // That was reported.
            return;
        }
        if !loss.keeps_cordon() {
            // The cordon, if there is one, is not ours any more.
            self.cordoned.retain(|cordoned| cordoned != node);
        }
        self.conditions.write(node, DrainProgress::Stopped);
        self.reporter.note(format_args!("node/{node}: {loss}"));
        if matches!(loss, NodeLoss::Uncordoned | NodeLoss::TimedOut) {
            let text = loss.to_string();
            self.events.record(node, EventReason::STOPPED, "", &text);
        }
    }

    pub(super) fn print_turn(&mut self, effect: &Effect) {
        let text = match effect {
            Effect::Soaks { node } => format!("node/{node}: the next node waits for --soak"),
            Effect::TooManyUnavailable { nodes } => format!(
                "the next node waits: cordoned or not Ready (--max-unavailable): {}",
                nodes.join(" ")
            ),
            Effect::Yielded { node } => format!(
                "node/{node}: only budgets block it; other nodes are drained before it gets another \
                 turn"
            ),
            _ => return,
        };
        self.reporter.note(text);
    }

    pub(super) fn start_gate(&mut self, node: Str) {
        let Some(gate) = self.request.gate.clone() else {
            return;
        };
        let text = format_args!("node/{node}: running {}", gate.name());
        self.reporter.note(text);
        let drained = self.machine.is_drained(&node);
        self.gates.start(&gate, node, drained);
    }

    fn node_cordoned(&mut self, node: &Str, changed: bool) {
        let already = if changed { "" } else { "already " };
        self.reporter
            .note(format_args!("node/{node}: {already}cordoned"));
        let text = format!("{} is draining the node", self.events.instance());
        self.events.record(node, EventReason::STARTED, "", &text);
        self.conditions.write(node, DrainProgress::Begun);
        self.surges.start(&self.cluster, node);
    }
}

fn seen(node: Node) -> DrainEvent {
    DrainEvent::NodeSeen {
        node: node.metadata.name.clone(),
        found: Some(Box::new(node)),
    }
}
