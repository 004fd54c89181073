//! Ctrl-C and SIGTERM; on Windows Ctrl-C and Ctrl-Break.

use std::io;

use anyhow::Context as _;
#[cfg(unix)]
use tokio::signal::unix as system;
#[cfg(windows)]
use tokio::signal::windows as system;

use crate::exit::ExitStatus;

#[cfg(unix)]
type Pair = (system::Signal, system::Signal);
#[cfg(windows)]
type Pair = (system::CtrlC, system::CtrlBreak);

/// The signals by which a user or a supervisor asks to stop.
pub(crate) struct Interrupts(Pair);

/// From now on the signals do not end the program by themselves.
pub(crate) fn listen() -> anyhow::Result<Interrupts> {
    pair()
        .map(Interrupts)
        .context("failed to listen for signals")
}

#[cfg(unix)]
fn pair() -> io::Result<Pair> {
    use system::{SignalKind, signal};
    Ok((
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    ))
}

#[cfg(windows)]
fn pair() -> io::Result<Pair> {
    Ok((system::ctrl_c()?, system::ctrl_break()?))
}

impl Interrupts {
    /// Waits for one of them. May be cancelled without losing one.
    pub(crate) async fn next(&mut self) {
        let (first, second) = &mut self.0;
        tokio::select! {
            _ = first.recv() => {}
            _ = second.recv() => {}
        }
    }
}

/// Runs `work` to its end or to the first signal, whichever comes first: for commands that change
/// nothing and may end anywhere.
pub(crate) async fn or_interrupted(
    work: impl Future<Output = anyhow::Result<ExitStatus>>,
) -> anyhow::Result<ExitStatus> {
    // Where there are no signals to listen to, there is no end by them either.
    let Ok(mut signals) = listen() else {
        return work.await;
    };
    tokio::select! {
        biased;
        result = work => result,
        () = signals.next() => Ok(ExitStatus::Interrupted),
    }
}
