//! A drain process that runs in the background of a test.

use std::ops::{Deref, DerefMut};
use std::process::Stdio;

use nix::sys::signal::Signal;
use nodelife_tests::TIMEOUT;
use tokio::process::{Child, Command};

use super::environment::TestEnvironment;

pub(in crate::drain) struct DrainProcess {
    child: Child,
    arguments: Vec<String>,
}

impl Deref for DrainProcess {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for DrainProcess {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

pub(in crate::drain) fn start(env: &TestEnvironment, arguments: &[&str]) -> DrainProcess {
    start_command(arguments, env.command(arguments))
}

/// Starts a command with these arguments.
pub(in crate::drain) fn start_command(arguments: &[&str], mut command: Command) -> DrainProcess {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    DrainProcess {
        child: piped.stderr(Stdio::piped()).spawn().unwrap(),
        arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
    }
}

pub(in crate::drain) async fn end(
    env: &TestEnvironment,
    drain: DrainProcess,
) -> (Option<i32>, String) {
    let arguments = drain.arguments.clone();
    let output = outcome(drain).await;
    let status = output.status.code();
    env.check_end(&arguments, status).await;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), env.said(&stderr))
}

/// All that it wrote, when it ends.
pub(in crate::drain) async fn outcome(drain: DrainProcess) -> std::process::Output {
    tokio::time::timeout(TIMEOUT, drain.child.wait_with_output())
        .await
        .expect("the drain did not end")
        .unwrap()
}

pub(in crate::drain) fn interrupt(drain: &Child) {
    send(drain, Signal::SIGINT);
}

pub(in crate::drain) fn send(drain: &Child, signal: Signal) {
    let pid = i32::try_from(drain.id().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}
