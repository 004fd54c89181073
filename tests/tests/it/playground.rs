//! Tests of the playground, from its start to Ctrl-C.

use std::fs;
use std::path::Path;

use nodelife_tests::kubectl::{Kubectl, run};
use nodelife_tests::program::{self, GoProgram};
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{TIMEOUT, wait_until};
use tempfile::TempDir;
use tokio::process::Command;

const PLAYGROUND: &str = env!("CARGO_BIN_EXE_playground");

/// A running playground with its log and the kubeconfig that it printed.
struct Playground {
    program: Supervised,
    kubeconfig: String,
    folder: TempDir,
}

impl Playground {
    async fn start(flags: &[&str]) -> Self {
        Self::start_with(&[&["--slow-pods", "0"], flags].concat()).await
    }

    async fn start_with(flags: &[&str]) -> Self {
        // The deadline below is for the start, not for a build that may come before it.
        for program in [
            GoProgram::Etcd,
            GoProgram::KubeApiserver,
            GoProgram::KubeControllerManager,
            GoProgram::KubeScheduler,
            GoProgram::Kubectl,
            GoProgram::Kwok,
        ] {
            program.path().unwrap();
        }
        program::webhook().unwrap();
        nodelife_tests::kubectl::plugin_path().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("playground.log");
        let mut program = Spec::new(PLAYGROUND, &log)
            .args(flags.iter().copied())
            .start()
            .unwrap();
        let kubeconfig = wait_until("the KUBECONFIG line", TIMEOUT * 3, async || {
            program.check()?;
            let text = fs::read_to_string(&log)?;
            let (_, rest) = text
                .split_once("export KUBECONFIG=")
                .ok_or_else(|| anyhow::anyhow!("{text}"))?;
            Ok(rest.split_once('\n').map(|(path, _)| path.to_owned()))
        })
        .await
        .unwrap();
        Self {
            program,
            kubeconfig,
            folder,
        }
    }

    fn kubectl(&self) -> Kubectl {
        Kubectl::with_kubeconfig((&self.kubeconfig).into(), self.folder.path()).unwrap()
    }

    async fn end(mut self) {
        self.program.interrupt().unwrap();
        assert_eq!(self.program.wait(TIMEOUT).await.unwrap(), 0);
        assert!(
            !Path::new(&self.kubeconfig).exists(),
            "{} is left",
            self.kubeconfig
        );
    }
}

#[tokio::test]
async fn prints_its_kubeconfig_and_runs_until_interrupted() {
    let playground = Playground::start(&[]).await;
    let kubectl = playground.kubectl();
    let list = [
        "get",
        "nodes",
        "--output",
        "jsonpath={.items[*].metadata.labels.topology\\.kubernetes\\.io/zone}",
    ];
    let zones = kubectl.run(list).await.unwrap().success().unwrap();
    assert_eq!(zones, "a a b b c c");
    let budgets = [
        "get",
        "poddisruptionbudgets",
        "-A",
        "--output",
        "jsonpath={range .items[*]}{.metadata.name}={.status.disruptionsAllowed} {end}",
    ];
    let budgets = kubectl.run(budgets).await.unwrap().success().unwrap();
    assert_eq!(budgets, "db=1 frozen=0 lonely=0 web=1 ");

    playground.end().await;
}

#[tokio::test]
async fn real_nodes_run_the_playground_too() {
    if nodelife_tests::real_nodes::is_left_out() {
        return;
    }
    let _room = nodelife_tests::real_nodes::room(3).await.unwrap();
    let playground = Playground::start_with(&["--real"]).await;
    let kubectl = playground.kubectl();
    let runtimes = [
        "get",
        "nodes",
        "--output",
        "jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.containerRuntimeVersion} {end}",
    ];
    let runtimes = kubectl.run(runtimes).await.unwrap().success().unwrap();
    for node in ["node-1", "node-2", "node-3"] {
        let real = format!("{node} containerd://");
        assert!(runtimes.contains(&real), "{runtimes}");
    }
    playground.end().await;
}

/// The lines `kubectl …  # ends with N` of a page, in order.
fn commands(page: &str) -> Vec<(String, i32)> {
    let page = fs::read_to_string(page).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("kubectl "));
    lines
        .map(|line| {
            let (command, end) = line.split_once(" # ends with ").unwrap_or((line, "0"));
            let status = end.split(':').next().unwrap();
            (command.trim().to_owned(), status.parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn commands_of_readme_and_tour_exit_as_documented() {
    let playground = Playground::start(&["--with-webhook"]).await;
    let kubectl = playground.kubectl();
    let (readme, tour) = (commands("../README.md"), commands("../docs/tour.md"));
    assert!(readme.len() >= 3 && tour.len() >= 12, "{readme:?} {tour:?}");
    for (line, status) in readme.into_iter().chain(tour) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let mut command = kubectl.command(&words);
        command.current_dir(playground.folder.path());
        let output = run(command, "").await.unwrap();
        assert_eq!(output.status, Some(status), "{line}\n{output:?}");
    }
    playground.end().await;
}

#[tokio::test]
async fn help_shows_examples() {
    let mut command = Command::new(PLAYGROUND);
    command.arg("--help");
    let help = run(command, "").await.unwrap().success().unwrap();
    assert!(help.contains("kubectl nodelife drain node-a-1"), "{help}");
}
