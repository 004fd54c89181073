//! `kubectl nodelife`: audits Kubernetes nodes, explains the arithmetic behind a finding, and
//! drains nodes.

mod cli;
mod command;
mod drain;
mod exit;
mod output;
mod report;
mod signals;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::command::completion;
use crate::exit::ExitStatus;
use crate::output::Printer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Huge pages, where the system gives them to everybody, make the heap of an audit a tenth larger
/// and the audit no faster.
#[cfg(target_os = "linux")]
fn forgo_huge_pages() {
    // Only memory is at stake.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    forgo_huge_pages();
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
    let status = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(command::run(cli, &mut printer)))
        .and_then(|status| printer.finish().map(|()| status))
        .unwrap_or_else(|error| ExitStatus::of_error(&error, &mut printer));
    status.into()
}
