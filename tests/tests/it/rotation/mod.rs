//! Tests that no admission fails during renewal, rotation, restarts, upgrades and crashes, and
//! that `certs` repairs damage within seconds.

mod calls;
mod kills;
mod state;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub(crate) use calls::{Calls, accepted, publish};
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::installation::{
    Balancer, Build, CA_SECRET, NODE_RESTRICTION, Replica, TLS_SECRET,
};
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, port, until, wait_until};
use serde_json::json;
use state::state;

/// Flags with which most of a certificate's life lies in the past when it is made: a leaf is renewed
/// after 30 s and has nine and a half minutes left then, which is enough for killed writers on the slowest
/// machine. A CA is replaced after half of what its life has more than the backdate.
const CLOCK: [&str; 8] = [
    "--leaf-life",
    "600s",
    "--backdate",
    "1110s",
    "--propagation",
    "3s",
    "--interval",
    "1",
];

/// The life of a CA that is replaced after two minutes.
const SHORT: [&str; 2] = ["--ca-life", "1350s"];

/// The life of its successor, which has to sign until the former CA is retired.
const LONG: [&str; 2] = ["--ca-life", "2400s"];

/// Seconds for a call, the longest that there is.
const PATIENT: u8 = 30;

/// Repairs have to be done within this time, on a machine that is busy with other tests: a pass takes 20 s at
/// most.
const REPAIR: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_during_renewal_upgrade_and_rotation() {
    let plane = ControlPlane::options().start().await.unwrap();
    let previous = Build::previous().unwrap();
    println!("upgrading from {}", previous.name);
    let mut installation = Installation::prepare_build(&plane, previous, "overlays/fail-closed")
        .await
        .unwrap()
        .timeout(PATIENT)
        .unwrap();
    installation.apply().await.unwrap();
    let certs = installation
        .certs(&[CLOCK.as_slice(), &SHORT].concat())
        .await
        .unwrap();
    let balancer = Balancer::listen(installation.address()).await.unwrap();
    let mut replicas = Vec::new();
    for _ in 0..2 {
        replicas.push(replica(&installation, &balancer).await);
    }
    installation.injected().await.unwrap();
    let first = state(&installation).await;
    let calls = Calls::start(&plane, &installation).await;

    // A rolling restart of the same build, while the leaf is renewed.
    let renewed = wait_until("a renewed leaf", TIMEOUT, async || {
        let now = state(&installation).await;
        Ok((now.leaf != first.leaf).then_some(now))
    });
    let restart = roll(&installation, &balancer, replicas);
    let (renewed, replicas) = tokio::join!(renewed, restart);
    let same_ca = renewed.unwrap().issuer == first.issuer;
    calls.assert_none_failed("a rolling restart and a renewal");

    // An upgrade as `kubectl apply -k` does it: the configurations at once, then one
    // replica after the other, then certs.
    installation.upgrade(Build::current().unwrap()).unwrap();
    installation.apply().await.unwrap();
    let replicas = roll(&installation, &balancer, replicas).await;
    certs.terminate(TIMEOUT).await.unwrap();
    calls.assert_none_failed("an upgrade");

    let check = |when: &str| calls.assert_none_failed(when);
    let clock = [CLOCK.as_slice(), &LONG].concat();
    let kills = kills::kill_at_every_step(&plane, &installation, &clock, check).await;

    // One more, which leaves its Lease behind: its successor waits for that, and works.
    let mut certs = installation.certs(&clock).await.unwrap();
    let old = state(&installation).await.leaf;
    until("a leaf of its own", async || {
        certs.check()?;
        Ok((state(&installation).await.leaf != old).then_some(()))
    })
    .await;
    certs.kill().await.unwrap();
    let mut certs = installation.certs(&clock).await.unwrap();
    let now = state(&installation).await;
    until("a write of the successor", async || {
        certs.check()?;
        Ok((state(&installation).await != now).then_some(()))
    })
    .await;

    calls.enough().await;
    calls.assert_none_failed("a Lease that was left behind");
    let (total, failures) = calls.stop().await;
    assert!(failures.is_empty(), "at the end: {:?}", failures.first());
    // A slow machine may have begun the rotation before the renewal was seen.
    assert!(same_ca || kills.contains_key("renew"), "{kills:?}");
    println!("{total} calls, 0 failed; certs was killed after {kills:?}");
    drop((replicas, certs));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outside_changes_are_repaired_within_seconds() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, "overlays/fail-closed")
        .await
        .unwrap();
    installation.apply().await.unwrap();
    let _certs = installation.certs(&["--interval", "1"]).await.unwrap();
    let _replica = installation.replica(None, &[]).await.unwrap();
    installation.injected().await.unwrap();
    let calls = Calls::start(&plane, &installation).await;
    let observer = plane.node("writer-0").await.unwrap();
    let mut windows = Vec::new();

    let secrets = installation.secrets();
    let good = state(&installation).await;
    for name in [TLS_SECRET, CA_SECRET] {
        let from = Instant::now();
        secrets
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        repaired(name, async || Ok(secrets.get_opt(name).await?.is_some())).await;
        accepted(&observer, "writer-0").await;
        windows.push((format!("{name} deleted"), from, Instant::now()));
    }

    let garbage = json!({"data": {"tls.crt": "", "signer.crt": ""}});
    for name in [TLS_SECRET, CA_SECRET] {
        let from = Instant::now();
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
        accepted(&observer, "writer-0").await;
        windows.push((format!("{name} damaged"), from, Instant::now()));
    }

    let foreign = nodelife_tests::pki::TestCa::new().unwrap();
    let foreign = foreign.certificate().into_bytes();
    for (what, bundle) in [("no caBundle", Vec::new()), ("a foreign CA", foreign)] {
        let encoded = k8s_openapi::ByteString(bundle.clone());
        let patch = json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": encoded}]);
        let from = Instant::now();
        installation.patch_validating(&patch).await.unwrap();
        repaired("the caBundle", async || {
            let bundles = installation.bundles().await?;
            Ok(bundles.iter().all(|one| !one.is_empty() && *one != bundle)
                && bundles.windows(2).all(|two| two[0] == two[1]))
        })
        .await;
        accepted(&observer, "writer-0").await;
        windows.push((what.to_owned(), from, Instant::now()));
    }
    assert_ne!(state(&installation).await.signer, good.signer);

    let (total, failures) = calls.stop().await;
    for (what, from, to) in &windows {
        let inside = failures
            .iter()
            .filter(|one| one.began <= *to && one.ended >= *from)
            .count();
        let long = to.duration_since(*from).as_secs_f32();
        println!("{what}: {long:.1} s until a call was accepted again, {inside} calls failed");
    }
    let outside = failures.iter().find(|one| {
        let within =
            |(_, from, to): &(String, Instant, Instant)| one.began <= *to && one.ended >= *from;
        !windows.iter().any(within)
    });
    assert!(
        outside.is_none(),
        "failed outside of every window: {outside:?}"
    );
    println!("{total} calls, {} failed", failures.len());
}

/// The next CA is due, and nobody may write the Secret that would hold it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_fails_stops_no_repair() {
    let plane = ControlPlane::options().start().await.unwrap();
    let installation = Installation::prepare(&plane, NODE_RESTRICTION)
        .await
        .unwrap();
    installation.apply().await.unwrap();
    let lives = ["--ca-life", "60s", "--leaf-life", "20s", "--backdate", "1s"];
    let fast = [lives.as_slice(), &CLOCK[4..]].concat();
    let certs = installation.certs(&fast).await.unwrap();
    installation.injected().await.unwrap();
    let immutable = Patch::Merge(json!({"immutable": true}));
    let secrets = installation.secrets();
    let params = PatchParams::default();
    secrets.patch(CA_SECRET, &params, &immutable).await.unwrap();
    until("a failed pass", async || {
        let log = std::fs::read_to_string(certs.log())?;
        Ok(log.contains("pass failed").then_some(()))
    })
    .await;
    let wiped = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    installation.patch_validating(&wiped).await.unwrap();
    repaired("the caBundle", async || {
        let bundles = installation.bundles().await?;
        Ok(bundles.iter().all(|one| !one.is_empty()))
    })
    .await;
    secrets
        .delete(TLS_SECRET, &DeleteParams::default())
        .await
        .unwrap();
    repaired("the leaf", async || {
        Ok(secrets.get_opt(TLS_SECRET).await?.is_some())
    })
    .await;
}

async fn replica(installation: &Installation<'_>, balancer: &Balancer) -> Replica {
    let listen = SocketAddr::from(([127, 0, 0, 1], port::free().unwrap()));
    let flags = ["--lame-duck", "3"];
    let replica = installation.replica(Some(listen), &flags).await.unwrap();
    balancer.add(replica.address, replica.health);
    replica
}

/// Replaces each replica, as the Deployment does it: one more, then one less.
async fn roll(
    installation: &Installation<'_>,
    balancer: &Balancer,
    old: Vec<Replica>,
) -> Vec<Replica> {
    let mut replicas = Vec::new();
    for one in old {
        replicas.push(replica(installation, balancer).await);
        let Replica {
            program,
            address,
            // The Secret stays mounted until the program has ended.
            mount: _mount,
            ..
        } = one;
        let ended = program.terminate(Duration::from_secs(15)).await.unwrap();
        assert_eq!(ended, 0);
        balancer.remove(address);
    }
    replicas
}

async fn repaired(what: &str, mut look: impl AsyncFnMut() -> anyhow::Result<bool>) {
    wait_until(what, REPAIR, async || Ok(look().await?.then_some(())))
        .await
        .unwrap();
}
