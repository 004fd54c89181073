//! Rights that are missing. Nothing runs beside the API server.

use std::time::Instant;

use nodelife_tests::fixture::PodFixture;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::{AuditEvent, PATIENCE, wait_until};

use super::bench::{Bench, CORDON, EVICT, READ, Right, bench_with_node, report};
use super::defects::{blocked_pod, end, open, start};
use super::said::Said;

/// What a drain reads beside budgets.
const READ_OTHERS: Right = ("read", "get,list,watch", "nodes,pods");

/// Defect a: kubectl goes on when the cordon failed.
#[tokio::test]
async fn nothing_is_evicted_when_the_cordon_is_not_allowed() {
    let (mut bench, node) = bench_with_node("no-patch").await;
    let pod = PodFixture::new("web")
        .running_on(&node)
        .create(&bench.namespace)
        .await
        .unwrap();
    // All that a drain needs but `patch nodes`.
    bench.act_with(&[READ, EVICT]).await;
    let output = bench.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    assert!(
        output.stderr.contains(&format!(
            "failed to cordon node {node}, so that nothing was evicted"
        )),
        "{}",
        output.stderr
    );
    assert!(bench.evictions().await.is_empty());
    assert!(!bench.is_cordoned(&node).await);
    bench.check(&[pod]).await;
}

/// Number 20: the API server decides, and nothing is claimed of what is not seen.
#[tokio::test]
async fn a_drain_goes_on_where_budgets_cannot_be_seen() {
    let (mut bench, node) = bench_with_node("no-budgets").await;
    let web = blocked_pod(&bench, &node).await;
    let free = PodFixture::new("free")
        .running_on(&node)
        .create(&bench.namespace)
        .await
        .unwrap();
    bench.act_with(&[READ_OTHERS, EVICT, CORDON]).await;

    let output = bench
        .drain(&[&node, "--force", "--dry-run", "-o", "json"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let plan = report(&output);
    assert_eq!((plan.get("waves"), plan.get("duration")), (None, None));
    for pod in plan["pods"].as_array().unwrap() {
        assert_eq!(pod["action"], "evict");
        assert_eq!(pod["reason"], "whether a budget protects it is not known");
        assert_eq!((pod.get("wave"), pod.get("budget")), (None, None));
    }
    bench.check_nothing_written().await;

    let begun = Instant::now();
    let said = drain_past_a_budget(&bench, &node).await;
    // The API server says so in protobuf, in which budgets are asked for.
    for part in [
        "the API server says: The disruption budget web needs 2 healthy pods and has 2 currently",
        "cannot list resource \"poddisruptionbudgets\"",
        "kubectl auth can-i list poddisruptionbudgets.policy",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let garbled = |c: char| c == char::REPLACEMENT_CHARACTER || c.is_control() && c != '\n';
    assert!(!said.contains(garbled), "{said:?}");
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("{part}: {said}"));
    assert!(at("cannot be seen") < at(": cordoned"), "{said}");

    let mut tries = bench.evictions().await;
    tries.retain(|event| event.name() == "web");
    let codes: Vec<_> = tries.iter().map(AuditEvent::code).collect();
    assert_eq!((codes[0], codes[codes.len() - 1]), (429, 201), "{codes:?}");
    // Between two tries lie 5 s at least.
    let most = 2 + begun.elapsed().as_secs() / 5;
    assert!(u64::try_from(codes.len()).unwrap() <= most, "{codes:?}");
    bench.check(&[web, free]).await;
}

/// Who may list budgets and not watch them sees them once, and no more.
#[tokio::test]
async fn a_drain_goes_on_that_loses_sight_of_budgets() {
    let (mut bench, node) = bench_with_node("budgets-lost").await;
    let web = blocked_pod(&bench, &node).await;
    let list = ("list", "list", "poddisruptionbudgets.policy");
    bench.act_with(&[READ_OTHERS, list, EVICT, CORDON]).await;
    let said = drain_past_a_budget(&bench, &node).await;
    let part = "cannot watch resource \"poddisruptionbudgets\"";
    assert!(said.contains(part), "{said}");
    bench.check(&[web]).await;
}

/// Drains the node of a pod whose budget opens when the API server has refused it. What was said.
async fn drain_past_a_budget(bench: &Bench, node: &str) -> String {
    let mut drain = start(bench, &[node, "--force"]);
    let mut said = Said::by(&mut drain);
    wait_until("a refused eviction", PATIENCE, async || {
        let tries = bench.evictions().await;
        Ok(tries.iter().find(|event| event.code() == 429).map(drop))
    })
    .await
    .unwrap();
    write_status(&bench.namespace, "web", open()).await.unwrap();
    said.rest().await;
    assert_eq!(end(bench, drain).await.0, Some(0), "{}", said.text);
    let once = said.text.matches("budgets cannot be seen").count();
    assert_eq!(once, 1, "{}", said.text);
    let blocked = format!("web: blocked by budget {}/web: ", bench.namespace.name);
    assert!(said.text.contains(&blocked), "{}", said.text);
    assert!(!said.text.contains("no budget"), "{}", said.text);
    said.text
}
