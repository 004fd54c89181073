//! Bench of the plugin's start-up time and size: `cargo bench -p nodelife-tests --bench plugin`.
//!
//! Each figure stands beside a floor of the same run: `true`, the least that starting a program
//! takes here, and kubectl's own help. Runs of the programs take turns, so that whatever else the
//! machine does falls on all of them alike. The program is the one that people download (profile
//! `dist`); `NODELIFE_BENCH_PLUGIN` names another one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::pty::openpty;
use nodelife_release::target;
use nodelife_tests::program::GoProgram;

/// Runs of each program.
const ROUNDS: usize = 100;

/// Help comes within this time.
const HELP: Duration = Duration::from_millis(20);
/// The first sign of progress comes within this time.
const PROGRESS: Duration = Duration::from_millis(100);
/// The stripped program is smaller, in bytes.
const SIZE: u64 = 12_000_000;

fn main() -> ExitCode {
    let plugin = plugin();
    let kubectl = GoProgram::Kubectl.path().unwrap();
    let mut holds = true;
    let mut out = std::io::stdout();

    let program = |path: &Path, words: &[&str]| {
        let mut command = Command::new(path);
        command.args(words).env_clear().env("HOME", "/nonexistent");
        command
    };
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (slot, mut command) in [
            program(Path::new("true"), &[]),
            program(&plugin, &["--help"]),
            program(&kubectl, &["drain", "--help"]),
        ]
        .into_iter()
        .enumerate()
        {
            times[slot].push(run(&mut command));
        }
    }
    let [floor, help, kubectl] = times.map(median);
    writeln!(
        out,
        "help: {:.1} ms; true {:.1} ms, ratio {:.1}; kubectl drain --help {:.1} ms, ratio {:.2}",
        ms(help),
        ms(floor),
        help.as_secs_f64() / floor.as_secs_f64(),
        ms(kubectl),
        help.as_secs_f64() / kubectl.as_secs_f64(),
    )
    .unwrap();
    holds &= help < HELP;

    // A server that takes the connection and then says nothing: progress is all there is.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("--server=https://{}", silent.local_addr().unwrap());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        times[0].push(first_byte(program(Path::new("echo"), &["x"])));
        times[1].push(first_byte(program(&plugin, &["audit", &server])));
    }
    let [floor, progress] = times.map(median);
    writeln!(
        out,
        "first progress: {:.1} ms; echo {:.1} ms, ratio {:.1}",
        ms(progress),
        ms(floor),
        progress.as_secs_f64() / floor.as_secs_f64(),
    )
    .unwrap();
    holds &= progress < PROGRESS;

    let size = fs::metadata(&plugin).unwrap().len();
    let peer = fs::metadata(GoProgram::Kubectl.path().unwrap())
        .unwrap()
        .len();
    writeln!(out, "size: {:.1} MB; kubectl {:.1} MB", mb(size), mb(peer)).unwrap();
    holds &= size < SIZE;
    if holds {
        ExitCode::SUCCESS
    } else {
        writeln!(
            out,
            "the limits are {HELP:?}, {PROGRESS:?} and {} MB",
            mb(SIZE)
        )
        .unwrap();
        ExitCode::FAILURE
    }
}

/// The program that people download, built if it is not there.
fn plugin() -> PathBuf {
    if let Some(path) = std::env::var_os("NODELIFE_BENCH_PLUGIN") {
        return path.into();
    }
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let folder = target::build("build", "kubectl-nodelife", "dist", &target).unwrap();
    folder.join("kubectl-nodelife")
}

fn run(command: &mut Command) -> Duration {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    command.status().unwrap();
    start.elapsed()
}

/// How long it takes until something stands on the terminal.
fn first_byte(mut command: Command) -> Duration {
    let terminal = openpty(None, None).unwrap();
    let (slave, mut master) = (File::from(terminal.slave), File::from(terminal.master));
    command
        .stdin(Stdio::null())
        .stdout(slave.try_clone().unwrap())
        .stderr(slave);
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut byte = [0];
    master.read_exact(&mut byte).unwrap();
    let took = start.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[allow(clippy::cast_precision_loss)]
fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
