//! `nodelife-controller`: what goes on in the cluster without a terminal.

use std::process::ExitCode;

use clap::Parser as _;
use nodelife_controller::{Arguments, run};
use nodelife_process::exit_code;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // One provider for the whole program; with a second one in the tree, rustls would panic.
    let _ = rustls::crypto::ring::default_provider().install_default();
    refuse_huge_pages();
    exit_code(run(Arguments::parse()))
}

/// A huge page is resident as a whole, however little of it is used: with them an audit of a large
/// cluster has a third more memory. The allocator asks for them.
fn refuse_huge_pages() {
    // Without this right the program works as well.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_thp_disable(true);
}
