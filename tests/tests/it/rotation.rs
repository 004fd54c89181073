//! No admission fails through a rotation, whoever dies in the middle of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::{Balancer, CA_SECRET, Replica, TLS_SECRET, WEBHOOK};
use nodelife_tests::{ControlPlane, Installation, port, wait_until};
use serde_json::json;
use tokio::task::JoinSet;

const WRITERS: usize = 20;

/// A clock on which a CA signs for a bit more than a minute. A leaf has twenty seconds
/// left when it is renewed, so that a killed writer's successor, which waits 15 s for the
/// Lease, is in time: the same proportions as thirty days, only tighter.
const FAST: [&str; 10] = [
    "--ca-life",
    "140s",
    "--leaf-life",
    "60s",
    "--propagation",
    "4s",
    "--backdate",
    "1s",
    "--interval",
    "1",
];

/// Repairs have to be done within this time.
const REPAIR: Duration = Duration::from_secs(5);

/// How long an API server may need to notice what was repaired.
const NOTICE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_fails_through_a_rotation_with_kills_and_restarts() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = install(&plane).await;
    let mut certs = installation.certs(&FAST).await.unwrap();
    let balancer = Balancer::listen(installation.address()).await.unwrap();
    let first = replica(&installation, &balancer).await;
    let second = replica(&installation, &balancer).await;
    installation.injected().await.unwrap();
    let calls = Calls::start(&plane, &installation).await;

    // Each write of the rotation is followed by a SIGKILL.
    let before = state(&installation).await;
    let mut seen = before.clone();
    let (mut kills, mut turned) = (0, false);
    let end = Instant::now() + Duration::from_mins(6);
    // A fast machine writes two steps between two looks, so one turn may show fewer than
    // five of them: then the next turn is followed too.
    while !turned || kills < 5 {
        assert!(
            Instant::now() < end,
            "a new CA signs: {turned}, {kills} kills; {}",
            calls.summary()
        );
        certs.check().unwrap();
        let now = state(&installation).await;
        if now != seen {
            certs.kill().await.unwrap();
            certs = installation.certs(&FAST).await.unwrap();
            kills += 1;
            seen = now.clone();
        }
        turned |= now.signer != before.signer && now.issuer == now.signer;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    calls.assert_none_failed();

    // A rolling restart, as the Deployment does it: one more, then one less.
    for old in [first, second] {
        let _new = Box::leak(Box::new(replica(&installation, &balancer).await));
        let Replica {
            program, address, ..
        } = old;
        let ended = program.terminate(Duration::from_mins(2)).await.unwrap();
        assert_eq!(ended, 0);
        balancer.remove(address);
    }
    let total = calls.stop().await;
    println!("{total} calls, {kills} kills of certs, 0 failed");
    assert!(total > 1_000, "only {total} calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_break_is_repaired_within_seconds() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = install(&plane).await;
    let _certs = installation.certs(&["--interval", "1"]).await.unwrap();
    let _replica = installation.replica(None, &[]).await.unwrap();
    installation.injected().await.unwrap();
    NodeFixture::new("caller")
        .create(&installation.admin)
        .await
        .unwrap();
    let node = plane.node("caller").await.unwrap();
    accepted(&node, "caller").await;

    let secrets = installation.secrets();
    let good = state(&installation).await;
    for name in [TLS_SECRET, CA_SECRET] {
        secrets
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        repaired(name, async || Ok(secrets.get_opt(name).await?.is_some())).await;
        accepted(&node, "caller").await;
    }

    let garbage = json!({"data": {"tls.crt": "", "signer.crt": ""}});
    for name in [TLS_SECRET, CA_SECRET] {
        let patch = Patch::Merge(&garbage);
        secrets
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        repaired(name, async || {
            let data = secrets.get(name).await?.data.unwrap_or_default();
            let key = if name == TLS_SECRET {
                "tls.crt"
            } else {
                "signer.crt"
            };
            Ok(data.get(key).is_some_and(|bytes| !bytes.0.is_empty()))
        })
        .await;
        accepted(&node, "caller").await;
    }

    let foreign = nodelife_tests::pki::Authority::new().unwrap();
    let foreign = foreign.certificate().into_bytes();
    for bundle in [Vec::new(), foreign] {
        let encoded = k8s_openapi::ByteString(bundle.clone());
        let patch = json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": encoded}]);
        let patch = patch.to_string();
        let words = [
            "patch",
            "validatingwebhookconfiguration",
            WEBHOOK,
            "--type=json",
            "-p",
            &patch,
        ];
        installation
            .kubectl
            .run(words)
            .await
            .unwrap()
            .success()
            .unwrap();
        repaired("the caBundle", async || {
            let bundles = installation.bundles().await?;
            Ok(bundles.iter().all(|one| !one.is_empty() && *one != bundle)
                && bundles.windows(2).all(|two| two[0] == two[1]))
        })
        .await;
        accepted(&node, "caller").await;
    }
    assert_ne!(state(&installation).await.signer, good.signer);
}

async fn install(plane: &ControlPlane) -> Installation<'_> {
    let installation = Installation::prepare(plane, "overlays/fail-closed")
        .await
        .unwrap();
    let apply = installation.apply_command();
    installation
        .kubectl
        .run(apply)
        .await
        .unwrap()
        .success()
        .unwrap();
    installation
}

async fn replica(installation: &Installation<'_>, balancer: &Balancer) -> Replica {
    let listen = SocketAddr::from(([127, 0, 0, 1], port::free().unwrap()));
    let flags = ["--lame-duck", "3"];
    let replica = installation.replica(Some(listen), &flags).await.unwrap();
    balancer.add(replica.address, replica.health);
    replica
}

/// What the rotation has written.
#[derive(Clone, PartialEq)]
struct State {
    signer: Vec<u8>,
    issuer: Vec<u8>,
    versions: [Option<String>; 2],
    bundles: Vec<Vec<u8>>,
}

async fn state(installation: &Installation<'_>) -> State {
    let secrets = installation.secrets();
    let ca = secrets.get(CA_SECRET).await.unwrap();
    let tls = secrets.get(TLS_SECRET).await.unwrap();
    let get = |secret: &Secret, key: &str| secret.data.as_ref().unwrap()[key].0.clone();
    State {
        signer: get(&ca, "signer.crt"),
        issuer: get(&tls, "ca.crt"),
        versions: [ca.metadata.resource_version, tls.metadata.resource_version],
        bundles: installation.bundles().await.unwrap(),
    }
}

/// Writes that the webhook is asked about.
struct Calls {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    failed: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Calls {
    async fn start(plane: &ControlPlane, installation: &Installation<'_>) -> Self {
        let mut calls = Self {
            tasks: JoinSet::new(),
            stop: Arc::default(),
            done: Arc::default(),
            failed: Arc::default(),
        };
        for writer in 0..WRITERS {
            let name = format!("writer-{writer}");
            NodeFixture::new(&name)
                .create(&installation.admin)
                .await
                .unwrap();
            let client = plane.node(&name).await.unwrap();
            if writer == 0 {
                accepted(&client, &name).await;
            }
            let (stop, done, failed) =
                (calls.stop.clone(), calls.done.clone(), calls.failed.clone());
            calls.tasks.spawn(async move {
                let mut round = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    if let Err(error) = relabel(&client, &name, round).await {
                        failed.lock().unwrap().push(error.to_string());
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        calls
    }

    fn summary(&self) -> String {
        let failed = self.failed.lock().unwrap();
        let done = self.done.load(Ordering::Relaxed);
        format!(
            "{done} calls, {} failed: {:?}",
            failed.len(),
            failed.first()
        )
    }

    fn assert_none_failed(&self) {
        assert!(self.failed.lock().unwrap().is_empty(), "{}", self.summary());
    }

    async fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        self.assert_none_failed();
        self.done.load(Ordering::Relaxed)
    }
}

/// A node changes a label that it may set: no filter lets that pass without a call. A
/// dry run takes the same way and stores nothing.
pub(crate) async fn relabel(client: &Client, node: &str, round: u64) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"metadata": {"labels": {"node.kubernetes.io/round": round.to_string()}}});
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    nodes.patch(node, &params, &Patch::Merge(&patch)).await
}

/// Waits until the API server has noticed and the webhook accepts.
pub(crate) async fn accepted(client: &Client, node: &str) {
    wait_until("an answer of the webhook", NOTICE, async || {
        relabel(client, node, 0).await?;
        Ok(Some(()))
    })
    .await
    .unwrap();
}

async fn repaired(what: &str, mut look: impl AsyncFnMut() -> anyhow::Result<bool>) {
    wait_until(what, REPAIR, async || Ok(look().await?.then_some(())))
        .await
        .unwrap();
}
