//! `cargo run -p nodelife-circles -- [FOLDER]`: fails if files of a crate use each other in a circle.

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

fn main() -> Result<ExitCode> {
    let folder = env::args_os().nth(1);
    let report = nodelife_circles::check(&folder.map_or_else(|| ".".into(), PathBuf::from))?;
    io::stdout().write_all(report.text.as_bytes())?;
    Ok(if report.circles == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
