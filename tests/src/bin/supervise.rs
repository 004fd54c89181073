//! Runs a program for a test and ends it when the test process is gone.
//!
//! `supervise --log FILE [--remove DIR] [--cgroup NAME] -- PROGRAM [ARGUMENT…]`: the program's
//! process id goes to stdout. Orders come on stdin, one a line: signals for the program's process
//! group, by name (`SIGTERM`). When stdin ends, the group is killed and DIR is removed. When the
//! program has ended, the cgroup NAME is removed. The exit status is the program's, or 128 and the
//! number of the signal that ended it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use nodelife_tests::cgroup;

/// Runs a program for a test and ends it when the test process is gone.
#[derive(Parser)]
struct Arguments {
    /// Where the program's output goes.
    #[arg(long)]
    log: PathBuf,
    /// A folder to remove when stdin ends.
    #[arg(long)]
    remove: Option<PathBuf>,
    /// A cgroup to remove from every hierarchy when the program has ended.
    #[arg(long)]
    cgroup: Option<String>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            // The test process reads this line in place of the process id.
            let _ = writeln!(io::stdout(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&arguments.log)
        .with_context(|| format!("failed to open {}", arguments.log.display()))?;
    let (program, rest) = arguments
        .command
        .split_first()
        .context("no program is named")?;
    let mut child = start(program, rest, log)?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    writeln!(io::stdout(), "{pid}")?;
    io::stdout().flush()?;

    let group = Arc::new(Group {
        leader: Mutex::new(Some(pid)),
        orphaned: AtomicBool::new(false),
    });
    let orders = Arc::clone(&group);
    std::thread::spawn(move || listen(&orders));

    // Waits without reaping: as long as the leader is a zombie its number is nobody else's.
    waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    group.signal(Signal::SIGKILL);
    group
        .leader
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let status = child.wait()?;
    if let Some(cgroup) = &arguments.cgroup {
        // What the program had started may take a moment to end. There is nobody to tell an error.
        let _ = cgroup::remove(cgroup);
    }
    if let Some(folder) = &arguments.remove
        && group.orphaned.load(Ordering::SeqCst)
    {
        remove(folder);
    }
    let code = status
        .code()
        .or_else(|| status.signal().map(|number| 128 + number))
        .unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// The process group of the program.
struct Group {
    /// None once the program is reaped: afterwards the number may be another's.
    leader: Mutex<Option<Pid>>,
    /// Whether the test process is gone.
    orphaned: AtomicBool,
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = *self.leader.lock().unwrap_or_else(PoisonError::into_inner) {
            // The only error there can be: the group is gone already.
            let _ = killpg(leader, signal);
        }
    }
}

fn start(program: &str, arguments: &[String], log: File) -> Result<std::process::Child> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("failed to run {program}"))
}

/// Carries out the orders of the test process until it is gone, then ends the program.
fn listen(group: &Group) {
    for order in io::stdin().lock().lines() {
        let signal = order.ok().and_then(|name| name.parse().ok());
        group.signal(signal.unwrap_or(Signal::SIGKILL));
    }
    group.orphaned.store(true, Ordering::SeqCst);
    group.signal(Signal::SIGKILL);
}

/// Removes a folder that other programs, which are ending at this moment, may still write to.
fn remove(folder: &Path) {
    for _ in 0..250 {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            _ => return,
        }
    }
}
