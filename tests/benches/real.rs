//! Bench of a drain of a real node with 20 pods of all manners, beside `kubectl drain`.
//!
//! ```console
//! # cargo bench -p nodelife-tests --bench real
//! ```
//!
//! It needs what real nodes need: root, containerd, runc, the CNI plugins and iptables. Each drain has
//! a node of its own; two other nodes take the replacements.

use std::io::{Write, stdout};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::real_nodes::{RealNodes, Scene};
use nodelife_tests::{ControlPlane, Identity};

/// How long a drain of a real node takes, beside kubectl's.
#[derive(Parser)]
struct Arguments {
    /// How often the two take turns
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cluster = RealNodes::start(ControlPlane::options(), 2).await?;
    let kubectl = Kubectl::new(&cluster.plane, &Identity::Admin)?;
    let contestants: [(&str, &[&str]); 2] = [
        (
            "nodelife drain",
            &["nodelife", "drain", "--delete-emptydir-data"],
        ),
        (
            "kubectl drain",
            &["drain", "--ignore-daemonsets", "--delete-emptydir-data"],
        ),
    ];
    let mut out = stdout();
    for turn in 1..=arguments.repeats {
        for (name, words) in contestants {
            let seconds = drain(&cluster, &kubectl, words)
                .await
                .with_context(|| name.to_owned())?;
            writeln!(out, "{turn}  {name:<14}  {seconds:5.1} s")?;
        }
    }
    Ok(())
}

/// Drains a node by a command, and gives the seconds until its containers are gone.
async fn drain(cluster: &RealNodes, kubectl: &Kubectl, words: &[&str]) -> Result<f64> {
    let scene = Scene::start(cluster).await?;
    scene.create_all_manners().await?;
    scene.open_other_nodes().await?;
    let begun = Instant::now();
    let output = kubectl.run([words, &[&scene.node.name]].concat()).await?;
    let seconds = begun.elapsed().as_secs_f64();
    output.success()?;
    let left = scene.node.containers().await?.len();
    ensure!(
        left == 4,
        "{left} containers run, and not the two of each pod that stays"
    );
    scene.node.power_off().await?;
    scene.namespace.delete().await?;
    Ok(seconds)
}
