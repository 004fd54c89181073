//! `Reporter`, `Interrupts` and `DrainStatus`: how a drain reports, is stopped, and ends.

use std::fmt::Display;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use nodelife_core::object::Node;
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainMachine, DrainReport, Tracked};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::executor::blocked::Unscheduled;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Note,
    Warning,
}

/// Reports what a drain does. All but sentences and errors may be ignored.
pub trait Reporter: Send {
    fn tell(&mut self, level: Level, text: &dyn Display);

    fn error(&mut self, error: &anyhow::Error);

    fn pod_changed(&mut self, _pod: &Tracked, _now: Timestamp) -> anyhow::Result<()> {
        Ok(())
    }

    /// The state after a decision: after each event, or in a drain of thousands five times a second.
    fn progress(&mut self, _progress: &Progress<'_>) {}

    /// The same, before further nodes are cordoned.
    fn begins(&mut self, _progress: &Progress<'_>) {}

    /// When [`Reporter::progress`] is wanted again although nothing has happened.
    fn wake_at(&self, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    /// Somebody asked to stop; `waits`: for answers to what was sent before.
    fn interrupted(&mut self, _waits: bool) {
        self.tell(Level::Note, &"interrupted");
    }

    fn ended(&mut self, _end: &DrainEnd<'_>) {}

    /// The report, once, when the drain has ended.
    fn report(&mut self, _report: &DrainReport) -> anyhow::Result<()> {
        Ok(())
    }
}

impl dyn Reporter + '_ {
    pub fn note(&mut self, text: impl Display) {
        self.tell(Level::Note, &text);
    }

    pub fn warn(&mut self, text: impl Display) {
        self.tell(Level::Warning, &text);
    }
}

/// The present state of a drain. Borrowed: nothing is copied before the reporter wants it.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub machine: &'a DrainMachine,
    pub nodes: &'a [Node],
    /// Whether the machine was given the pods; before, it may know the nodes alone.
    pub has_pods: bool,
    pub started_at: Timestamp,
    /// The time, by the API server's clock.
    pub now: Timestamp,
    pub(crate) unscheduled: &'a Unscheduled,
}

impl Progress<'_> {
    /// What the scheduler says of a pod that the budget lacks which blocks this one.
    pub fn unscheduled(&self, blocked: &Tracked) -> Option<&str> {
        let (budget, refusal) = blocked.state.blocked()?.budget()?;
        let (then, words) = self.unscheduled.get(budget)?;
        (*then == refusal.clone().of_any_pod()).then_some(words)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct DrainEnd<'a> {
    /// Its last state.
    pub progress: Progress<'a>,
    pub status: DrainStatus,
    pub to_uncordon: &'a [Str],
    pub refused: usize,
}

/// The status of a drain, ordered by which of two counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainStatus {
    /// Every node is drained.
    #[default]
    Done,
    /// A node was refused, or all: a permission is needed; nothing was changed there.
    Refused,
    /// A budget is in the way; may succeed later.
    Blocked,
    /// Evicted, but not gone.
    Stuck,
    /// Cannot succeed as things are.
    Impossible,
    /// The state is not known, or an error ended the drain.
    Failed,
    /// Somebody asked to stop.
    Interrupted,
}

impl DrainStatus {
    /// The exit status of `kubectl nodelife drain`, and `status.exitStatus` of a NodeMaintenance.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 4,
            Self::Blocked => 5,
            Self::Stuck => 6,
            Self::Impossible => 7,
            Self::Interrupted => 130,
        }
    }

    /// The status with this code; failed if it is none.
    pub fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Done,
            4 => Self::Refused,
            5 => Self::Blocked,
            6 => Self::Stuck,
            7 => Self::Impossible,
            130 => Self::Interrupted,
            _ => Self::Failed,
        }
    }

    /// The status of two things done in one drain: what is not known goes first, as it hides the rest.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

/// Requests to stop. The first has a drain send nothing more and wait for the answers to what it has
/// sent, the second ends that wait, a third the uncordons of the end.
pub trait Interrupts: Send {
    /// Waits for the next. May be cancelled without losing one.
    fn next(&mut self) -> BoxFuture<'_, ()>;
}

/// Each message is a request; without a sender there are none.
impl Interrupts for UnboundedReceiver<()> {
    fn next(&mut self) -> BoxFuture<'_, ()> {
        async {
            if self.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
