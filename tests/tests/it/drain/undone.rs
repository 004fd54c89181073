//! Taking back the cordon, and no other.

use nodelife_tests::fixture::{BudgetFixture, BudgetStatus, NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{ControlPlane, Identity};
use serde_json::json;

use super::bench::Bench;

async fn bench_with_nodes(what: &str) -> (Bench, String, String) {
    let bench = Bench::new(ControlPlane::shared_api().await, what).await;
    let (a, b) = (bench.node("a"), bench.node("b"));
    for name in [&a, &b] {
        let fixture = NodeFixture::new(name);
        fixture.create(bench.namespace.client()).await.unwrap();
    }
    (bench, a, b)
}

async fn kubectl(bench: &Bench, words: &[&str]) {
    let kubectl = Kubectl::new(bench.plane, &Identity::Admin).unwrap();
    kubectl.run(words).await.unwrap().success().unwrap();
}

/// §6, 11: a node that somebody else cordoned stays cordoned.
#[tokio::test]
async fn undo_uncordons_what_a_drain_cordoned_and_nothing_else() {
    let (bench, ours, theirs) = bench_with_nodes("undo").await;
    kubectl(&bench, &["cordon", &theirs]).await;
    let output = bench.drain(&[&ours, &theirs]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);

    let output = bench.drain(&[&ours, "--undo", "--dry-run"]).await;
    assert!(
        output.stderr.contains("would be uncordoned"),
        "{}",
        output.stderr
    );
    assert!(bench.is_cordoned(&ours).await);
    let output = bench.drain(&[&ours, &theirs, "--undo"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(!bench.is_cordoned(&ours).await);
    assert!(bench.is_cordoned(&theirs).await);
    assert!(
        output.stderr.contains(&format!(
            "node/{theirs}: left cordoned: it was not a drain of nodelife that cordoned it"
        )),
        "{}",
        output.stderr
    );

    // Ours was uncordoned and cordoned again by hand: that is not ours to take back.
    let output = bench.drain(&[&ours]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    kubectl(&bench, &["uncordon", &ours]).await;
    kubectl(&bench, &["cordon", &ours]).await;
    let output = bench.drain(&[&ours, "--undo"]).await;
    assert!(
        output.stderr.contains("somebody has cordoned it again"),
        "{}",
        output.stderr
    );
    assert!(bench.is_cordoned(&ours).await);
    bench.check(&[]).await;
}

#[tokio::test]
async fn a_drain_that_fails_takes_its_cordon_back_if_it_is_told_to() {
    let (bench, held, empty) = bench_with_nodes("undo-failed").await;
    let pod = PodFixture::new("held").running_on(&held);
    let pod = pod.create(&bench.namespace).await.unwrap();
    let other = PodFixture::new("held-2").app("held");
    other.create(&bench.namespace).await.unwrap();
    let status = BudgetStatus {
        expected: 2,
        healthy: 1,
        desired: 1,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "held", json!(1))
        .create_with_status(&bench.namespace, status)
        .await
        .unwrap();
    let arguments = [&*held, &empty, "--force", "--blocked-timeout=1s"];
    let output = bench
        .drain(&[&arguments[..], &["--undo-on-failure"]].concat())
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    assert!(!bench.is_cordoned(&held).await, "{}", output.stderr);
    assert!(
        !output.stderr.contains("still cordoned"),
        "{}",
        output.stderr
    );
    // That one was emptied.
    assert!(bench.is_cordoned(&empty).await, "{}", output.stderr);
    bench.check(&[pod]).await;
}
