//! Ctrl-C, SIGTERM and SIGHUP; on Windows Ctrl-C and Ctrl-Break.

use std::io;

use anyhow::Context as _;
use futures::future::BoxFuture;
#[cfg(unix)]
use tokio::signal::unix as system;
#[cfg(windows)]
use tokio::signal::windows as system;

use crate::exit::{Exit, ExitStatus};

/// The signals by which a user, a supervisor or a terminal that goes away asks to stop.
#[cfg(unix)]
pub(crate) struct Interrupts(Vec<system::Signal>);

#[cfg(windows)]
pub(crate) struct Interrupts(system::CtrlC, system::CtrlBreak);

/// From now on the signals do not end the program by themselves.
pub(crate) fn listen() -> anyhow::Result<Interrupts> {
    Interrupts::new().context("failed to listen for signals")
}

#[cfg(unix)]
impl Interrupts {
    fn new() -> io::Result<Self> {
        use system::{SignalKind, signal};
        let mut kinds = vec![SignalKind::interrupt(), SignalKind::terminate()];
        if !ignores_hangup() {
            kinds.push(SignalKind::hangup());
        }
        let signals: io::Result<_> = kinds.into_iter().map(signal).collect();
        signals.map(Self)
    }

    /// Waits for one of them. May be cancelled without losing one.
    pub(crate) async fn next(&mut self) {
        let signals = self.0.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures::future::select_all(signals).await;
    }
}

/// Whether the program was started with `nohup`: then it stays so.
#[cfg(target_os = "linux")]
fn ignores_hangup() -> bool {
    // proc_pid_status(5): a mask, and signal 1 is its lowest bit.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// `nohup` leaves none of the streams on the terminal.
#[cfg(all(unix, not(target_os = "linux")))]
fn ignores_hangup() -> bool {
    !io::IsTerminal::is_terminal(&io::stderr())
}

#[cfg(windows)]
impl Interrupts {
    fn new() -> io::Result<Self> {
        Ok(Self(system::ctrl_c()?, system::ctrl_break()?))
    }

    /// Waits for one of them. May be cancelled without losing one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

impl nodelife_drain::Interrupts for Interrupts {
    fn next(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(Self::next(self))
    }
}

/// Runs `work` to its end or the first signal: for commands that change nothing and may end anywhere.
pub(crate) async fn or_interrupted(work: impl Future<Output = Exit>) -> Exit {
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
