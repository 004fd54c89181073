//! Several clusters at once, one of them dead, beside the slowest of them alone.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nodelife_tests::large_cluster::{Size, fill};
use nodelife_tests::{ControlPlane, Identity, port, wait_until};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::contest::{Contestant, Verdict, compete};
use super::floor;
use super::link::Link;
use super::{CATCH_UP, say};

/// The living ones.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const SIZE: Size = Size {
    nodes: 200,
    pods: 4000,
};
/// Bytes a second of each cluster's line: what the lines carry has to take longer than what the two
/// cores need for all five API servers.
const LINE: u32 = 1_000_000;
/// How much longer than the slowest alone all may take.
const OVER_SLOWEST: f64 = 1.2;

/// A cluster behind its line.
struct Remote {
    _plane: ControlPlane,
    _link: Link,
    kubeconfig: Value,
}

pub(super) fn run(
    runtime: &Runtime,
    nodelife: &Path,
    repeats: usize,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut remotes = Vec::new();
    for _ in NAMES {
        remotes.push(runtime.block_on(remote())?);
    }
    let folder = tempfile::tempdir()?;
    let all = folder.path().join("kubeconfig");
    std::fs::write(&all, merged(&remotes)?.to_string())?;
    let mut contestants: Vec<_> = NAMES
        .iter()
        .map(|name| Contestant::audit(name, nodelife, &all).with(&["--context", name]))
        .collect();
    let together = Contestant::audit("all and a dead one", nodelife, &all);
    contestants.push(together.with(&["--all-contexts"]).ending_with(&[1]));
    compete(
        &mut contestants,
        "several clusters, each over a line of 1 MB/s",
        repeats,
    )?;
    let walls = contestants.iter().map(Contestant::wall);
    let Some((together, alone)) = walls
        .collect::<Vec<_>>()
        .split_last()
        .map(|(last, others)| (*last, others.iter().copied().fold(f64::NAN, f64::max)))
    else {
        return Ok(());
    };
    verdict.at_most(
        "wall time of all beside the slowest alone",
        together / alone,
        OVER_SLOWEST,
    )
}

async fn remote() -> Result<Remote> {
    let plane = ControlPlane::options()
        .audit_policy(json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}],
        }))
        .start()
        .await?;
    fill(&plane, SIZE).await?;
    let direct: PathBuf = plane.kubeconfig_file(&Identity::Admin)?;
    wait_until("all lists to be there", CATCH_UP, async || {
        floor::download(direct.clone()).await.map(Some)
    })
    .await?;
    let url = plane.url();
    let server = url.trim_start_matches("https://").to_owned();
    let link = Link::start(server, LINE).await?;
    let text = link.kubeconfig(&plane.kubeconfig(&Identity::Admin)?, &url)?;
    Ok(Remote {
        kubeconfig: serde_json::from_str(&text)?,
        _plane: plane,
        _link: link,
    })
}

/// One kubeconfig for all of them, and for a server that does not listen.
fn merged(remotes: &[Remote]) -> Result<Value> {
    let mut dead = remotes
        .first()
        .map(|remote| remote.kubeconfig.clone())
        .unwrap_or_default();
    if let Some(server) = dead.pointer_mut("/clusters/0/cluster/server") {
        *server = json!(format!("https://127.0.0.1:{}", port::free()?));
    }
    let configs = remotes.iter().map(|remote| &remote.kubeconfig);
    let (mut contexts, mut clusters, mut users) = (Vec::new(), Vec::new(), Vec::new());
    for (name, config) in NAMES
        .iter()
        .copied()
        .chain(["dead"])
        .zip(configs.chain([&dead]))
    {
        contexts.push(json!({"name": name, "context": {"cluster": name, "user": name}}));
        let named = |list: &str, of: &str| {
            let value = config.pointer(&format!("/{list}/0/{of}")).cloned();
            json!({"name": name, of: value})
        };
        clusters.push(named("clusters", "cluster"));
        users.push(named("users", "user"));
    }
    say(&format!("{} clusters and a dead one", remotes.len()))?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": contexts, "clusters": clusters, "users": users,
    }))
}
