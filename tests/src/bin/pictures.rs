//! Draws docs/pictures: what audit, explain and drain look like on terminals of 80 and of 200
//! columns, dark and light, and through a pipe.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::picture::{THEMES, screen, svg};
use nodelife_tests::{Identity, play};

/// The workspace: commands name files as the documentation does.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Columns of the terminals.
const WIDTHS: [u16; 2] = [80, 200];

/// What is drawn, and the node that it is undone on.
const SCENES: [(&str, &str, Option<&str>); 3] = [
    (
        "audit",
        "nodelife audit -f examples/faulty-cluster.json --rule HB,PDB,NL-CAP-001",
        None,
    ),
    (
        "explain",
        "nodelife explain allocatable ip-10-0-16-11.eu-central-1.compute.internal -f examples/healthy-cluster.json",
        None,
    ),
    ("drain", "nodelife drain node-a-1", Some("node-a-1")),
];

/// Draws docs/pictures: audit, explain and drain at 80 and 200 columns, dark, light and piped.
/// drain is drawn in a playground that is started for it.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo run -p nodelife-tests --bin pictures
  cargo run -p nodelife-tests --bin pictures -- --only audit")]
struct Arguments {
    /// Draw this one alone: audit, explain or drain.
    #[arg(long, value_name = "SCENE")]
    only: Option<String>,
    /// Where the pictures go.
    #[arg(long, value_name = "FOLDER", default_value = "docs/pictures")]
    out: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let out = Path::new(ROOT).join(&arguments.out);
    fs::create_dir_all(&out)?;
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| only == name);
    let live = SCENES
        .iter()
        .any(|(name, _, node)| wanted(name) && node.is_some());
    let plane = if live {
        Some(play::start(Duration::from_secs(3)).await?)
    } else {
        None
    };
    let kubectl = match &plane {
        Some(plane) => Kubectl::new(plane, &Identity::Admin)?,
        None => Kubectl::with_kubeconfig("/nonexistent".into(), &std::env::temp_dir())?,
    };
    for (name, line, node) in SCENES.iter().filter(|(name, ..)| wanted(name)) {
        let words = line.split(' ');
        let title = format!("kubectl {line}");
        for columns in WIDTHS {
            let shown = screen(command(&kubectl, words.clone()), columns)?;
            for theme in THEMES {
                let path = out.join(format!("{name}-{columns}-{}.svg", theme.name));
                fs::write(path, svg(&shown, &title, theme)?)?;
            }
            undo(&kubectl, *node).await?;
        }
        let output = command(&kubectl, words).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = format!("$ {title} | cat\n{}", String::from_utf8(text)?);
        fs::write(out.join(format!("{name}-piped.txt")), text)?;
        undo(&kubectl, *node).await?;
    }
    Ok(())
}

fn command<'a>(kubectl: &Kubectl, words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = kubectl.command(words).into_std();
    command.current_dir(ROOT);
    command
}

/// The next picture begins as this one did.
async fn undo(kubectl: &Kubectl, node: Option<&str>) -> Result<()> {
    let Some(node) = node else {
        return Ok(());
    };
    kubectl.run(["uncordon", node]).await?.success()?;
    // Pods go back where there is room: those of one workload are made anew.
    let restart = [
        "rollout",
        "restart",
        "deployment/web",
        "-n",
        play::NAMESPACE,
    ];
    kubectl.run(restart).await?.success()?;
    let status = ["rollout", "status", "deployment/web", "-n", play::NAMESPACE];
    kubectl
        .run(status)
        .await
        .context("web does not come back")?;
    Ok(())
}
