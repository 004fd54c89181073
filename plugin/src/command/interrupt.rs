//! Ctrl-C and SIGTERM, for commands that change nothing and may end anywhere.

use crate::exit::ExitStatus;

/// Runs `work` to its end or to the first signal, whichever comes first.
///
/// # Errors
///
/// Those of `work`.
pub(crate) async fn or_interrupted(
    work: impl Future<Output = anyhow::Result<ExitStatus>>,
) -> anyhow::Result<ExitStatus> {
    tokio::select! {
        biased;
        result = work => result,
        () = signal() => Ok(ExitStatus::Interrupted),
    }
}

/// Comes with the first SIGINT or SIGTERM.
async fn signal() {
    // Where there are no signals to listen to, there is no end by them either.
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminate() => {}
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signals) => _ = signals.recv().await,
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending().await
}
