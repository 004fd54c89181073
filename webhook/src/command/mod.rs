//! The commands of `nodelife-webhook`.

mod certs;
mod export;
mod review;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nodelife_process::exit_code;

/// The admission webhook of nodelife.
#[derive(Debug, Parser)]
#[command(name = "nodelife-webhook", version, about, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer the API server's admission reviews over TLS.
    Serve(serve::Arguments),
    /// Maintain the webhook's certificates and the caBundle of its configurations.
    Certs(Box<certs::Arguments>),
    /// Answer admission reviews from stdin, one per line, offline.
    Review(review::Arguments),
    /// Print the webhook configurations that a configuration file needs.
    Export(export::Arguments),
}

/// Runs the command: 0 done, 1 failed, 130 interrupted; clap exits with 2 for wrong usage.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    exit_code(match arguments.command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Certs(arguments) => certs::run(*arguments),
        Command::Review(arguments) => review::run(arguments),
        Command::Export(arguments) => export::run(arguments),
    })
}
