//! Sets of namespaces: one for a cluster, and below it one for each node.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::kubectl::{self, Output};
use crate::supervise::{Spec, Supervised};
use crate::wait::{TIMEOUT, wait_until};

/// The kinds of namespace that a set has.
pub(super) const KINDS: [&str; 5] = ["--mount", "--pid", "--net", "--uts", "--ipc"];

/// A set of namespaces; when it is dropped, or the test process ends, everything in it ends.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// The init's process id, as the machine counts.
    init: i32,
    supervised: Supervised,
}

impl Namespaces {
    /// Makes a set, below that of the process `above` if there is one. Its init is `manners pause`;
    /// `finish` has what the supervisor does when all has ended.
    pub(super) async fn start(
        above: Option<&Self>,
        manners: &Path,
        log: &Path,
        finish: impl FnOnce(Spec) -> Spec,
    ) -> Result<Self> {
        let spec = Spec::new("unshare", log)
            .args(KINDS)
            // Its end is the init's: nothing survives the supervisor's SIGKILL.
            .args(["--fork", "--kill-child", "--mount-proc", "--"])
            .args([manners.display().to_string(), "pause".to_owned()]);
        let spec = match above {
            Some(above) => spec.run_by(&above.command(&["--pid"])),
            None => spec,
        };
        let name = manners.file_name().context("a program has a name")?;
        let mut supervised = finish(spec).start()?;
        let outermost = supervised.pid();
        let init = wait_until("an init of new namespaces", TIMEOUT, async || {
            supervised.check()?;
            let pid = innermost(outermost)?;
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"))?;
            Ok((comm.trim() == name).then_some(pid))
        })
        .await?;
        Ok(Self { init, supervised })
    }

    pub(super) fn init(&self) -> i32 {
        self.init
    }

    /// The command that runs another in all of these namespaces.
    pub(super) fn enter(&self) -> Vec<String> {
        self.command(&KINDS)
    }

    fn command(&self, kinds: &[&str]) -> Vec<String> {
        let mut words = vec!["nsenter".to_owned(), format!("--target={}", self.init)];
        words.extend(kinds.iter().map(|&kind| kind.to_owned()));
        words.push("--".to_owned());
        words
    }

    /// Runs a command in all of these namespaces to its end.
    pub(super) async fn run(&self, words: &[&str]) -> Result<Output> {
        self.run_with(words, "").await
    }

    /// Runs a command that reads `stdin`.
    pub(super) async fn run_with(&self, words: &[&str], stdin: &str) -> Result<Output> {
        let enter = self.enter();
        let (nsenter, flags) = enter.split_first().context("a command has a name")?;
        let mut command = Command::new(nsenter);
        command.args(flags).args(words);
        kubectl::run(command, stdin).await
    }

    /// Runs one of the scripts of `real-nodes/`.
    pub(super) async fn script(&self, text: &str, arguments: &[&str]) -> Result<()> {
        let output = self
            .run(&[&["sh", "-c", text, "sh"], arguments].concat())
            .await?;
        output.success().map(drop)
    }

    /// Kills the init, and with it every process in these namespaces.
    pub(super) async fn kill(self) -> Result<()> {
        self.supervised.kill().await
    }
}

/// The last of a chain of only children: nsenter, unshare and their command.
fn innermost(mut pid: i32) -> Result<i32> {
    loop {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let mut children = children.split_whitespace();
        match (children.next(), children.next()) {
            (None, _) => return Ok(pid),
            (Some(child), None) => pid = child.parse()?,
            (Some(_), Some(_)) => bail!("{pid} has several children"),
        }
    }
}
