//! What is said before anything happens.

use nodelife_tests::ControlPlane;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use serde_json::json;

use super::bench::{Bench, report};

/// §6, 16: a pod that fits nowhere else is told of in the plan, and before the drain acts.
#[tokio::test]
async fn a_pod_that_fits_nowhere_else_is_told_of_before_it_goes() {
    let bench = Bench::new(ControlPlane::shared().await, "nowhere").await;
    let (node, other) = (bench.node("a"), bench.node("b"));
    for name in [&node, &other] {
        let fixture = NodeFixture::kwok(name);
        fixture.create(bench.namespace.client()).await.unwrap();
    }
    let pinned = WorkloadFixture::deployment("pinned", 1)
        .pod_spec(json!({"nodeSelector": {"kubernetes.io/hostname": node}}))
        .create_ready(&bench.namespace, 1)
        .await
        .unwrap();
    let name = pinned[0].metadata.name.clone().unwrap();
    let free = PodFixture::new("free").bound_to(&node);
    free.create(&bench.namespace).await.unwrap();

    let plan = bench
        .drain(&[&node, "--force", "--dry-run=client", "-o", "json"])
        .await;
    let plan = report(&plan);
    let pods = plan["pods"].as_array().unwrap();
    let said = |name: &str| {
        let pod = pods.iter().find(|pod| pod["name"] == name).unwrap();
        pod["unschedulable"].as_str().map(str::to_owned)
    };
    let why = said(&name).unwrap();
    assert!(
        why.contains("not of its node selector or affinity"),
        "{why}"
    );
    // Nothing would replace it, so that it needs no place.
    assert_eq!(said("free"), None);
    assert!(plan["duration"]["leastSeconds"].is_u64(), "{plan:#}");
    bench.check_nothing_written().await;

    let before = bench.pods_on(&node).await;
    let output = bench.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let warned = output.stderr.find(&format!("{name}: its replacement"));
    let cordoned = output.stderr.find(": cordoned");
    assert!(warned.unwrap() < cordoned.unwrap(), "{}", output.stderr);
    bench.check(&before).await;
}
