//! `Gate`: decides after each node whether others follow.

use std::sync::Arc;

use futures::future::BoxFuture;
use nodelife_core::text::Str;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;

/// How many lines may wait to be printed before the gate has to wait.
const MAX_LINES: usize = 64;

/// Whether others may follow a node, or why not.
pub type GateDecision = BoxFuture<'static, Result<(), String>>;

/// Decides after each node, and the soak, whether others follow.
pub trait Gate: Send + Sync {
    fn name(&self) -> &'static str {
        "the gate"
    }

    /// `drained`: whether the drain of `node` found it empty. The future is dropped with the drain.
    fn check(&self, node: Str, drained: bool, lines: GateLines) -> GateDecision;
}

#[derive(Clone, Debug)]
pub struct GateLines(Sender<GateEvent>);

impl GateLines {
    /// Tells a line; whether anybody still listens.
    pub async fn tell(&self, line: String) -> bool {
        self.0.send(GateEvent::Line(line)).await.is_ok()
    }
}

#[derive(Debug)]
pub(crate) enum GateEvent {
    Line(String),
    Ended {
        node: Str,
        result: Result<(), String>,
    },
}

/// The gates that decide; dropped with this.
pub(crate) struct Gates {
    running: JoinSet<()>,
    sender: Sender<GateEvent>,
    events: Receiver<GateEvent>,
}

impl Gates {
    pub(crate) fn new() -> Self {
        let (sender, events) = mpsc::channel(MAX_LINES);
        Self {
            running: JoinSet::new(),
            sender,
            events,
        }
    }

    pub(crate) fn start(&mut self, gate: &Arc<dyn Gate>, node: Str, drained: bool) {
        let sender = self.sender.clone();
        let check = gate.check(node.clone(), drained, GateLines(sender.clone()));
        self.running.spawn(async move {
            let result = check.await;
            // Who does not listen has ended.
            let _ = sender.send(GateEvent::Ended { node, result }).await;
        });
    }

    /// The next line or decision of a gate. May be cancelled without losing one.
    pub(crate) async fn next(&mut self) -> Option<GateEvent> {
        self.events.recv().await
    }
}
