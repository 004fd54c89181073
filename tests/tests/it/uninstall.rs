//! Tests of `install.yaml` and its removal in any order while the webhook is down: every request
//! gets a response, and nothing is left.

use std::fs;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::installation::{NAMESPACE, SELECTOR, manifests};
use nodelife_tests::{ControlPlane, Installation, Part, TIMEOUT, needs_kubernetes, until};

use serde_json::Value;

use crate::rotation::publish;

/// Every kind of the manifests.
const KINDS: [&str; 12] = [
    "validatingwebhookconfiguration",
    "mutatingwebhookconfiguration",
    "deployment",
    "service",
    "serviceaccount",
    "role",
    "rolebinding",
    "clusterrole",
    "clusterrolebinding",
    "poddisruptionbudget",
    "resourcequota",
    "namespace",
];

/// A webhook that does not answer costs its timeout of 2 s, once for each phase.
const ANSWER: Duration = Duration::from_secs(20);

#[tokio::test]
async fn applied_twice_in_each_way_and_removed_in_any_order() {
    if !needs_kubernetes(
        "1.34",
        "a node publishes a ResourceSlice of resource.k8s.io/v1",
    )
    .unwrap()
    {
        return;
    }
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        .start()
        .await
        .unwrap();
    let installation = Installation::prepare(&plane, "overlays/fail-closed")
        .await
        .unwrap();
    NodeFixture::new("writer")
        .create(&installation.admin)
        .await
        .unwrap();
    let node = plane.node("writer").await.unwrap();

    let file = manifests().join("install.yaml").display().to_string();
    apply_twice(&installation, &["-f", &file], &["--server-side"]).await;
    remove(&installation, &node, &["namespace"]).await;
    apply_twice(&installation, &["-f", &file], &["--server-side=false"]).await;
    for words in documented() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        kubectl(&installation, &words).await;
        // The first command deletes the webhook configurations.
        accepted(&node).await;
    }
    is_gone(&installation).await;
    // More orders: `NODELIFE_ORDERS=50`. A round takes a quarter of a minute.
    let rounds = std::env::var("NODELIFE_ORDERS").ok();
    let rounds: usize = rounds.and_then(|text| text.parse().ok()).unwrap_or(2);
    let overlay = installation.overlay().display().to_string();
    for round in 0..rounds {
        let way = [&["--server-side=false"][..], &["--server-side"]][round % 2];
        apply_twice(&installation, &["-k", &overlay], way).await;
        let order = shuffled(round);
        println!("removed in this order: {order:?}");
        remove(&installation, &node, &order).await;
    }
}

/// The commands of docs/webhook.md, without `kubectl`.
fn documented() -> Vec<Vec<String>> {
    let page = fs::read_to_string(manifests().join("../docs/webhook.md")).unwrap();
    let (_, section) = page.split_once("## Uninstall\n\n```\n").unwrap();
    let (block, _) = section.split_once("```").unwrap();
    let words = |line: &str| {
        let command = line.split(" #").next().unwrap();
        let words = command.split_whitespace().skip(1);
        words
            .map(|word| match word {
                "manifests" => manifests().display().to_string(),
                _ => word.to_owned(),
            })
            .collect()
    };
    block.lines().map(words).collect()
}

/// Applies, has the certificates made, and applies again: nothing differs, and no caBundle
/// was ever touched.
async fn apply_twice(installation: &Installation<'_>, what: &[&str], way: &[&str]) {
    let words = |verb: &'static str| [&[verb][..], way, what].concat();
    kubectl(installation, &words("apply")).await;
    kubectl(installation, &words("apply")).await;
    installation.granted().await.unwrap();
    let mut certs = installation.certs(&["--once"]).await.unwrap();
    assert_eq!(certs.wait(TIMEOUT).await.unwrap(), 0);
    let bundles = installation.bundles().await.unwrap();
    assert!(bundles.iter().all(|one| !one.is_empty()));
    quotas_are_counted(installation).await;
    let before = generations(installation).await;
    let diff = [&["diff", "--server-side"][..], what].concat();
    let diff = if way[0] == "--server-side" {
        diff
    } else {
        words("diff")
    };
    assert_eq!(kubectl(installation, &diff).await, "");
    kubectl(installation, &words("apply")).await;
    // It counts every change of a webhook, also one that was reverted.
    assert_eq!(generations(installation).await, before);
    assert_eq!(installation.bundles().await.unwrap(), bundles);
}

/// `kubectl diff` asks for each object twice: a status that is written in between would be a difference.
async fn quotas_are_counted(installation: &Installation<'_>) {
    let words = ["get", "resourcequota", "-n", NAMESPACE, "-o", "json"];
    until("the status of each quota", async || {
        let text = installation.kubectl.run(words).await?.success()?;
        let quotas: Value = serde_json::from_str(&text)?;
        let mut quotas = quotas["items"].as_array().into_iter().flatten();
        let is_counted = |quota: &Value| quota["status"]["used"].is_object();
        Ok(quotas.all(is_counted).then_some(()))
    })
    .await;
}

async fn kubectl(installation: &Installation<'_>, words: &[&str]) -> String {
    let output = installation.kubectl.run(words).await.unwrap();
    output.success().unwrap()
}

/// How often each configuration was changed.
async fn generations(installation: &Installation<'_>) -> Vec<Option<i64>> {
    let (mutating, validating) = installation.configurations().await.unwrap();
    let mutating = mutating.into_iter().map(|one| one.metadata.generation);
    let validating = validating.into_iter().map(|one| one.metadata.generation);
    mutating.chain(validating).collect()
}

/// Deletes these kinds and then the rest; a node's write is answered after each.
async fn remove(installation: &Installation<'_>, node: &Client, first: &[&str]) {
    let rest = KINDS.iter().filter(|kind| !first.contains(kind));
    for kind in first.iter().chain(rest) {
        let label = ["-l", SELECTOR, "-n", NAMESPACE];
        // A namespace need not be gone for the next kind to be deleted.
        let words = [&["delete", kind, "--wait=false"][..], &label].concat();
        kubectl(installation, &words).await;
        let answer = tokio::time::timeout(ANSWER, publish(node, "writer", 1)).await;
        if let Err(error) = answer.unwrap_or_else(|_| panic!("no answer after {kind}")) {
            let refused = error.to_string().contains("failed calling webhook");
            assert!(refused, "after {kind}: {error}");
        }
    }
    is_gone(installation).await;
    accepted(node).await;
}

/// Waits until the API server calls no webhook of ours.
async fn accepted(node: &Client) {
    until("an accepted write", async || {
        publish(node, "writer", 2).await?;
        Ok(Some(()))
    })
    .await;
}

/// Nothing of ours is left, in the whole cluster.
async fn is_gone(installation: &Installation<'_>) {
    let namespaces: Api<Namespace> = Api::all(installation.admin.clone());
    until("the namespace's end", async || {
        Ok(namespaces.get_opt(NAMESPACE).await?.is_none().then_some(()))
    })
    .await;
    let kinds = [&KINDS[..], &["secret", "lease", "configmap"]].concat();
    let ours = ["get", &kinds.join(","), "-A", "-l", SELECTOR, "-o", "name"];
    assert_eq!(kubectl(installation, &ours).await, "");
}

/// The kinds in an order of their own for each round.
fn shuffled(round: usize) -> Vec<&'static str> {
    let mut state = round as u64 + 1;
    let mut order = KINDS.to_vec();
    for last in (1..order.len()).rev() {
        // The constants of Knuth's MMIX.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(state >> 33).unwrap() % (last + 1);
        order.swap(last, other);
    }
    order
}
