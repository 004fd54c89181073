//! `nodelife-webhook`: the admission webhook of nodelife.

mod command;
mod config;
mod server;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // One provider in the whole program; a second one in the tree would make rustls ask.
    let _ = rustls::crypto::ring::default_provider().install_default();
    command::run(command::Arguments::parse())
}
