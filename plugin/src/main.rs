//! `kubectl nodelife`: audits nodes, explains the arithmetic behind a finding, and drains nodes.

mod cli;
mod command;
mod drain;
mod exit;
mod output;
mod report;
mod signals;

use std::process::ExitCode;
use std::time::Duration;

use crate::cli::Cli;
use crate::command::completion;
use crate::exit::ExitStatus;
use crate::output::Printer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long an interrupted command waits for readers of its output.
const LAST_WORDS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    // Huge pages, where everybody gets them, make the heap of an audit a tenth larger and it no faster.
    // Only memory is at stake.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // Fails only if a provider is installed already, and then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(status) = completion::answer(std::env::args_os()) {
        return status.into();
    }
    let cli = match Cli::from_words(std::env::args_os()) {
        Ok(cli) => cli,
        Err(answer) => return exit::of_usage(&answer).into(),
    };
    output::log::init(cli.terminal.v);
    let mut printer = Printer::new(&cli.terminal);
    let mut runtime = if cli.command.follows_events() {
        // Thousands of small events: to hand each to another thread costs more than the event.
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.enable_all().build().map_err(anyhow::Error::from);
    let status = match runtime {
        Ok(runtime) => runtime.block_on(run(cli, &mut printer)),
        Err(error) => ExitStatus::of_error(&error, &mut printer),
    };
    status.into()
}

/// Runs the command, and waits until what it says is written: not for ever if it was interrupted.
async fn run(cli: Cli, printer: &mut Printer) -> ExitStatus {
    let status = Box::pin(command::run(cli, printer))
        .await
        .and_then(|status| printer.finish().map(|()| status))
        .unwrap_or_else(|error| ExitStatus::of_error(&error, printer));
    let interrupted = async {
        match signals::listen() {
            _ if status == ExitStatus::Interrupted => tokio::time::sleep(LAST_WORDS).await,
            Ok(mut interrupts) => interrupts.next().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = printer.close() => {}
        () = interrupted => {}
    }
    status
}
