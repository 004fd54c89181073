//! Pictures of running drains in the playground's cluster.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use vt100::Screen;

use super::svg::svg;
use super::terminal::Terminal;
use super::{Picture, WIDTHS, piped};
use crate::control_plane::{ControlPlane, Identity};
use crate::fixture::pod::is_ready;
use crate::kubectl::Kubectl;
use crate::playground;
use crate::wait::{TIMEOUT, wait_until};

/// How long a pod takes to become ready, and to go: the playground's default.
const SLOW: Duration = Duration::from_secs(3);

/// The lines of the terminal.
const LINES: u16 = 24;

/// Replicas of web, a third of them in each zone. Its budget lets one be missing, so those of one
/// node have to wait for each other.
const REPLICAS: usize = 12;

/// The pictures of a drain: while it waits, at its end, and piped. The pods' names and the times
/// differ from run to run.
pub async fn pictures() -> Result<Vec<Picture>> {
    let plane = playground::start(SLOW).await?;
    let kubectl = Kubectl::new(&plane, &Identity::Admin)?;
    let run = async |words: &[&str]| kubectl.run(words.iter().copied()).await?.success();
    let web = pods_of_web(&plane).await?;
    let Some(namespace) = web.first().and_then(|pod| pod.metadata.namespace.clone()) else {
        bail!("the playground has no pods of web");
    };
    let replicas = format!("--replicas={REPLICAS}");
    run(&[
        "scale",
        "deployment",
        "web",
        "--namespace",
        &namespace,
        &replicas,
    ])
    .await?;
    settled(&plane).await?;
    // From here on all pods of the zone go to and fro between its two nodes.
    run(&["nodelife", "drain", "node-a-2"]).await?;
    run(&["uncordon", "node-a-2"]).await?;

    let mut pictures = Vec::new();
    let mut node = ["node-a-1", "node-a-2"].into_iter().cycle();
    for (width, node) in WIDTHS.into_iter().zip(&mut node) {
        settled(&plane).await?;
        pictures.extend(on_a_terminal(&kubectl, node, width)?);
        run(&["uncordon", node]).await?;
    }
    if let Some(node) = node.next() {
        settled(&plane).await?;
        let line = line(node);
        let content = piped(&line, command(&kubectl, &line))?;
        pictures.push(Picture {
            file: "drain-piped.txt".to_owned(),
            content,
        });
    }
    Ok(pictures)
}

/// Waits until every pod of web is ready: then the budget allows a first eviction.
async fn settled(plane: &ControlPlane) -> Result<()> {
    wait_until("all pods of web", TIMEOUT, async || {
        let pods = pods_of_web(plane).await?;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        if ready != REPLICAS || pods.len() != REPLICAS {
            bail!("{ready} of {} are ready", pods.len());
        }
        Ok(Some(()))
    })
    .await
}

async fn pods_of_web(plane: &ControlPlane) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::all(plane.admin().await?);
    Ok(pods
        .list(&ListParams::default().labels("app=web"))
        .await?
        .items)
}

fn on_a_terminal(kubectl: &Kubectl, node: &str, width: u16) -> Result<[Picture; 2]> {
    let line = line(node);
    let mut terminal = Terminal::new(width, LINES)?;
    terminal.prompt(&line);
    let mut best: Option<(usize, Screen)> = None;
    tokio::task::block_in_place(|| {
        terminal.run(command(kubectl, &line), |screen| {
            let shows = worth(screen);
            if shows > best.as_ref().map_or(0, |(most, _)| *most) {
                best = Some((shows, screen.clone()));
            }
        })
    })?;
    let end = terminal.screen();
    let Some((_, best)) = best else {
        bail!("nothing of {line} was seen:\n{}", end.contents());
    };
    if !end.contents().contains(&format!("node/{node}: drained")) {
        bail!("{line} ended badly:\n{}", end.contents());
    }
    let picture = |file: String, screen| Picture {
        file,
        content: svg(screen, &line),
    };
    Ok([
        picture(format!("drain-{width}.svg"), &best),
        picture(format!("drained-{width}.svg"), end),
    ])
}

/// How much there is to see: most where some pods wait for the budget, one goes by its grace
/// period and one is gone, and nothing where the head is still to be painted again.
fn worth(screen: &Screen) -> usize {
    let contents = screen.contents();
    let count = |what: &str| contents.lines().filter(|line| line.contains(what)).count();
    let gone = count(": gone after ");
    if !contents.contains(&format!("\n{gone} of ")) {
        return 0;
    }
    let kinds = [count("  blocked  "), count("s of grace period left"), gone];
    kinds.iter().map(|seen| seen.min(&1) * 1000 + seen).sum()
}

fn line(node: &str) -> String {
    format!("kubectl nodelife drain {node}")
}

fn command(kubectl: &Kubectl, line: &str) -> Command {
    kubectl.command(line.split(' ').skip(1)).into_std()
}
