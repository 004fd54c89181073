//! The lines of `--events jsonl`: pods and nodes whose state changed, and the end.

use std::io::Write as _;

use jiff::Timestamp;
use nodelife_core::format::join;
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainMachine, NodeLoss, NodePhase, Outcome, Tracked};
use serde::Serialize;

use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;

#[derive(Serialize)]
#[serde(rename_all_fields = "camelCase", untagged)]
pub(crate) enum Line<'a> {
    Pod {
        time: Timestamp,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
        node: &'a str,
        outcome: Outcome,
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        budget: Option<String>,
        attempts: u32,
    },
    Node {
        time: Timestamp,
        node: &'a str,
        state: &'static str,
        message: String,
    },
    End {
        time: Timestamp,
        exit_status: u8,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

impl<'a> Line<'a> {
    pub(crate) fn of_pod(tracked: &'a Tracked, time: Timestamp) -> Self {
        let meta = &tracked.pod.metadata;
        Self::Pod {
            time,
            namespace: &meta.namespace,
            name: &meta.name,
            uid: &meta.uid,
            node: &tracked.pod.spec.node_name,
            outcome: tracked.outcome(),
            message: tracked.state.to_string(),
            budget: tracked.budget(),
            attempts: tracked.attempts,
        }
    }

    pub(crate) fn of_refused(node: &'a str, why: &str, time: Timestamp) -> Self {
        Self::Node {
            time,
            node,
            state: "refused",
            message: why.to_owned(),
        }
    }

    pub(crate) fn of_end(ended: &Exit, time: Timestamp) -> Self {
        let failed = ExitStatus::Failed;
        Self::End {
            time,
            exit_status: ended.as_ref().map_or(failed, |status| *status).code(),
            error: ended.as_ref().err().map(|error| format!("{error:#}")),
        }
    }

    pub(crate) fn print(&self, printer: &mut Printer) -> anyhow::Result<()> {
        serde_json::to_writer(printer.data(), self)?;
        writeln!(printer.data())?;
        Ok(printer.flush()?)
    }
}

/// The state of a node in a word, and what it waits for or why it is left; none before its turn.
pub(super) fn state(
    machine: &DrainMachine,
    node: &Str,
    phase: NodePhase,
) -> Option<(&'static str, String)> {
    let state = match phase {
        NodePhase::Waiting | NodePhase::Cordoning => return None,
        NodePhase::Settling => ("settling", join(machine.awaited(node), "; ")),
        NodePhase::Done if machine.is_drained(node) => ("drained", String::new()),
        NodePhase::Done => ("notDrained", String::new()),
        NodePhase::Left(loss @ NodeLoss::Deleted) => ("drained", loss.to_string()),
        NodePhase::Left(loss) => ("notDrained", loss.to_string()),
        _ => ("draining", String::new()),
    };
    Some(state)
}
