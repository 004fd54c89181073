//! `nodelife-controller`: what goes on in the cluster without a terminal.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use nodelife_controller::{Arguments, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // One provider for the whole program; with a second one in the tree, rustls would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Nothing can be reported if stderr is closed.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
