//! `nodelife-webhook`: the admission webhook of nodelife.

mod command;
mod config;
mod reload;
mod server;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // One provider for the whole program; with a second one in the tree, rustls would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    command::run(command::Arguments::parse())
}
