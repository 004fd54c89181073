//! Rescues of nodes that fall silent and come back at random moments, while commands are killed: no node has
//! the out-of-service taint whose lease was renewed within the grace period, and none that lives keeps it.
//!
//! `NODELIFE_RESCUES=300` has as many, `NODELIFE_SEED` selects others.

use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use nix::sys::signal::Signal;
use nodelife_core::taint::OUT_OF_SERVICE;
use nodelife_tests::installation::manifests;
use nodelife_tests::real_nodes::{Agent, NodeOptions, RealNode, RealNodes};
use nodelife_tests::supervise::Spec;
use nodelife_tests::{Identity, TIMEOUT, program, seed, until, wait_until};
use proptest::prelude::*;
use tokio::time::{Instant, sleep, sleep_until};

use super::support::kubectl;

/// kube-controller-manager's `--node-monitor-grace-period`, and what a look takes.
const GRACE: SignedDuration = SignedDuration::from_secs(39);
const LOOK: Duration = Duration::from_millis(100);
/// How many nodes fall silent at the same time, beside the two of the cluster.
const LANES: usize = 5;

#[derive(Clone, Copy, Debug)]
enum Fault {
    StandsStill,
    IsKilled,
    /// The kubelet lives behind the cut.
    IsCutOff,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    fault: Fault,
    /// When the node comes back, after its fault.
    back: Duration,
    /// When the command that runs then is killed, and no other one follows.
    killed: Option<Duration>,
}

fn cases(count: usize) -> Vec<Case> {
    let milliseconds = |from: u64, to: u64| (from..to).prop_map(Duration::from_millis);
    let killed = prop::option::weighted(0.4, milliseconds(45_000, 75_000));
    let drawn = seed::draw(count, &(milliseconds(38_000, 80_000), killed));
    let faults = [Fault::StandsStill, Fault::IsKilled, Fault::IsCutOff];
    let cases = drawn.into_iter().zip(faults.into_iter().cycle());
    let cases = cases.map(|((back, killed), fault)| Case {
        fault,
        back,
        killed,
    });
    cases.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_that_lives_has_the_taint() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let cases = cases(seed::number("NODELIFE_RESCUES", 3, 3));
    let definition = manifests().join("controller/crd-nodemaintenance.yaml");
    let definition = definition.display().to_string();
    let apply = kubectl(cluster).run(["apply", "-f", &definition]).await;
    apply.unwrap().success().unwrap();
    let admin = cluster.plane.kubeconfig_file(&Identity::Admin).unwrap();
    let log = cluster.plane.folder().join("rescues.log");
    let controller = Spec::new(program::controller().unwrap(), log).args([
        &*format!("--kubeconfig={}", admin.display()),
        "--health-listen=127.0.0.1:0",
        "--leader-elect-resource-namespace=default",
    ]);
    let _controller = controller.start().unwrap();
    let lanes = LANES.min(cases.len());
    let lanes = (0..lanes).map(async |lane| {
        let node = NodeOptions::default().zone(&format!("rescues-{lane}"));
        let node = cluster.add(node).await.unwrap();
        let client = cluster.plane.admin().await.unwrap();
        let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
        until("the first heartbeat", async || {
            Ok(leases.get_opt(&node.name).await?.map(drop))
        })
        .await;
        let mut tainted = 0;
        for case in cases.iter().skip(lane).step_by(lanes) {
            tainted += usize::from(rescued(cluster, &node, *case).await);
        }
        tainted
    });
    let tainted: usize = join_all(lanes).await.into_iter().sum();
    println!("{tainted} of {} nodes had the taint", cases.len());
}

/// Whether the node had the taint.
async fn rescued(cluster: &RealNodes, node: &RealNode, case: Case) -> bool {
    let begun = Instant::now();
    silence(node, case.fault, true).await;
    let watched = tokio::select! {
        tainted = watch(cluster, node, begun + case.back, case) => tainted,
        () = command(cluster, node, begun, case) => unreachable!("it waits for the other"),
    };
    cluster.ready(node).await.unwrap();
    watched
}

/// Looks at the node until it has come back and has no taint.
async fn watch(cluster: &RealNodes, node: &RealNode, back: Instant, case: Case) -> bool {
    let client = cluster.plane.admin().await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    let is_tainted = async || {
        let taints = nodes.get(&node.name).await?.spec.unwrap().taints;
        anyhow::Ok(taints.iter().flatten().any(|it| it.key == OUT_OF_SERVICE))
    };
    let renewed = async || {
        let lease = leases.get(&node.name).await?.spec.unwrap();
        anyhow::Ok(lease.renew_time.unwrap().0)
    };
    let (mut had, mut last) = (false, renewed().await.unwrap());
    while Instant::now() < back {
        let before = last;
        last = renewed().await.unwrap();
        if is_tainted().await.unwrap() && !had {
            had = true;
            let silent = Timestamp::now().duration_since(before);
            assert!(silent > GRACE, "{case:?}: tainted after {silent:#}");
        }
        sleep(LOOK).await;
    }
    silence(node, case.fault, false).await;
    let what = format!("{} without the taint after {case:?}", node.name);
    wait_until(&what, TIMEOUT, async || {
        let lives = renewed().await? > last;
        // One that comes after the first sign of life would stay.
        Ok((lives && !is_tainted().await?).then_some(()))
    })
    .await
    .unwrap();
    had
}

/// Somebody tries to rescue the node, again and again, and ends no more.
async fn command(cluster: &RealNodes, node: &RealNode, begun: Instant, case: Case) {
    let words = [
        "nodelife",
        "rescue",
        &node.name,
        "--machine-is-off",
        "--yes",
    ];
    let runs = async {
        loop {
            let mut command = kubectl(cluster).command(words);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut run = command.kill_on_drop(true).spawn().unwrap();
            run.wait().await.unwrap();
            sleep(LOOK).await;
        }
    };
    match case.killed {
        Some(killed) => tokio::select! {
            () = runs => {}
            () = sleep_until(begun + killed) => {}
        },
        None => runs.await,
    }
    std::future::pending::<()>().await;
}

/// Has the node fall silent, or speak again.
async fn silence(node: &RealNode, fault: Fault, silent: bool) {
    match (fault, silent) {
        (Fault::StandsStill, _) => {
            let signal = if silent {
                Signal::SIGSTOP
            } else {
                Signal::SIGCONT
            };
            node.signal(Agent::Kubelet, signal).await.unwrap();
        }
        (Fault::IsKilled, true) => node.stop(Agent::Kubelet).await.unwrap(),
        (Fault::IsKilled, false) => node.start(Agent::Kubelet).await.unwrap(),
        (Fault::IsCutOff, _) => {
            let change = if silent { "--insert" } else { "--delete" };
            for (chain, direction) in [("INPUT", "--in-interface"), ("OUTPUT", "--out-interface")] {
                let words = [
                    "iptables", "--wait", change, chain, direction, "eth0", "--jump", "DROP",
                ];
                node.run(&words).await.unwrap().success().unwrap();
            }
        }
    }
    if silent {
        return;
    }
    until("the kubelet's answer", async || {
        Ok(node.is_running(Agent::Kubelet).await?.then_some(()))
    })
    .await;
}
