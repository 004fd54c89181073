//! Tests that kill `certs` at every write of a rotation, before the request and after it, before
//! the response.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::installation::{CA_SECRET, NAMESPACE};
use nodelife_tests::proxy::{Fault, FaultRule, Proxy};
use nodelife_tests::supervise::Supervised;
use nodelife_tests::{ControlPlane, Installation, until};
use serde_json::json;

use super::state::{State, state};

/// What a rotation writes.
const STEPS: [&str; 9] = [
    "stage",
    "promote",
    "issue",
    "retire",
    PUBLICATIONS[0],
    PUBLICATIONS[1],
    PUBLICATIONS[2],
    PUBLICATIONS[3],
    PUBLICATIONS[4],
];

/// In the order of [`State::bundles`].
const PUBLICATIONS: [&str; 5] = [
    "publish for exempt tokens",
    "publish for labelled tokens",
    "publish for tolerations",
    "publish for tokens",
    "publish for node restriction",
];

/// What `certs` writes, but for its Lease.
const WRITES: [(Method, &str); 3] = [
    (Method::PATCH, "configurations"),
    (Method::PATCH, "/secrets"),
    (Method::POST, "/secrets"),
];

/// How often `certs` was killed after each of its writes.
pub(super) type Kills = BTreeMap<&'static str, usize>;

/// Runs one `certs` after the other through a proxy that holds the first write of each,
/// and kills it there, until each step of a rotation was struck.
pub(super) async fn kill_at_every_step(
    plane: &ControlPlane,
    installation: &Installation<'_>,
    flags: &[&str],
    check: impl Fn(&str),
) -> Kills {
    let identity = installation.identity("nodelife-certs").await.unwrap();
    let proxy = Proxy::start(plane, &identity).unwrap();
    let kubeconfig = proxy.kubeconfig_file().unwrap();
    let run = || installation.certs_with(&kubeconfig, flags).unwrap();
    let leases: Api<Lease> = Api::namespaced(installation.admin.clone(), NAMESPACE);
    // The successor of a killed writer waits 15 s for its Lease, which is no protection,
    // only politeness; at every kill that would be long.
    let free = async || {
        let _ = leases
            .delete("nodelife-certs", &DeleteParams::default())
            .await;
    };
    let mut kills = Kills::new();
    let end = Instant::now() + Duration::from_mins(15);
    while !STEPS.iter().all(|step| kills.contains_key(step)) {
        assert!(Instant::now() < end, "killed only after {kills:?}");
        hold(&proxy, &Fault::Delay(Duration::from_hours(1)));
        let before = writes(&proxy);
        free().await;
        let mut certs = run();
        until("a write", async || {
            certs.check()?;
            Ok((writes(&proxy) > before).then_some(()))
        })
        .await;
        certs.kill().await.unwrap();
        check("killed before a write");

        let was = state(installation).await;
        hold(&proxy, &Fault::Throttle(1));
        free().await;
        let mut certs = run();
        let now = changed(installation, &was, &mut certs).await;
        certs.kill().await.unwrap();
        let step = step(&was, &now);
        *kills.entry(step).or_default() += 1;
        if step == "promote" {
            promoted_long_ago(installation).await;
        }
        check(step);
    }
    free().await;
    proxy.heal();
    kills
}

/// Moves the promotion back by so much that the former CA may be retired.
async fn promoted_long_ago(installation: &Installation<'_>) {
    let past = Timestamp::now() - SignedDuration::from_mins(20);
    let patch = Patch::Merge(json!({"stringData": {"promoted-at": past.to_string()}}));
    let secrets = installation.secrets();
    secrets
        .patch(CA_SECRET, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

fn hold(proxy: &Proxy, fault: &Fault) {
    proxy.heal();
    for (method, path) in WRITES {
        let rule = FaultRule::new(fault.clone());
        proxy.fault(rule.method(method).path(path).times(1));
    }
}

fn writes(proxy: &Proxy) -> usize {
    WRITES
        .iter()
        .map(|(method, path)| proxy.count(method, path))
        .sum()
}

async fn changed(installation: &Installation<'_>, was: &State, certs: &mut Supervised) -> State {
    until("what a write changes", async || {
        certs.check()?;
        let now = state(installation).await;
        Ok((now != *was).then_some(now))
    })
    .await
}

/// The one write between two states.
fn step(was: &State, now: &State) -> &'static str {
    let mut bundles = was.bundles.iter().zip(&now.bundles);
    if let Some(changed) = bundles.position(|(was, now)| was != now) {
        return PUBLICATIONS[changed];
    }
    if was.leaf != now.leaf {
        return if was.issuer == now.issuer {
            "renew"
        } else {
            "issue"
        };
    }
    if was.signer != now.signer {
        return "promote";
    }
    if was.next == now.next {
        "retire"
    } else {
        "stage"
    }
}
