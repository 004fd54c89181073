//! What the user can choose. Nothing runs beside the API server.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::pod::running;
use nodelife_tests::fixture::{BudgetFixture, BudgetStatus, PodFixture};
use nodelife_tests::{AuditEvent, PATIENCE, wait_until};
use serde_json::{Value, json};

use super::bench::{Bench, bench_with_node, conforms, report};
use super::defects::{end, open, start};

#[tokio::test]
async fn a_partial_drain_leaves_what_is_impossible_and_ends_with_7() {
    let (bench, node) = bench_with_node("partial").await;
    let ns = &bench.namespace;
    let held = PodFixture::new("held")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    let free = PodFixture::new("free")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    let status = BudgetStatus {
        expected: 1,
        healthy: 1,
        desired: 0,
        allowed: 1,
    };
    for name in ["one", "two"] {
        BudgetFixture::min_available(name, "held", json!(0))
            .create_with_status(ns, status)
            .await
            .unwrap();
    }
    let output = bench
        .drain(&[&node, "--force", "--on-impossible=partial", "-o", "json"])
        .await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let report = report(&output);
    assert_eq!(report["nodes"][0]["drained"], false);
    let left = bench.pods_on(&node).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].metadata.name.as_deref(), Some("held"));
    bench.check(&[held, free]).await;
}

#[tokio::test]
async fn a_pod_that_stays_blocked_holds_up_nobody_else() {
    let (bench, node) = bench_with_node("left-behind").await;
    let ns = &bench.namespace;
    let held = PodFixture::new("held")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    PodFixture::new("held-2")
        .app("held")
        .create(ns)
        .await
        .unwrap();
    let free = PodFixture::new("free")
        .running_on(&node)
        .create(ns)
        .await
        .unwrap();
    let status = BudgetStatus {
        expected: 2,
        healthy: 1,
        desired: 1,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "held", json!(1))
        .create_with_status(ns, status)
        .await
        .unwrap();
    let output = bench
        .drain(&[&node, "--force", "--blocked-timeout=2s", "--events=jsonl"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let lines: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        conforms(line, "DrainEvent");
    }
    let last = |name: &str| lines.iter().rfind(|line| line["name"] == name).unwrap();
    assert_eq!(last("free")["outcome"], "evicted");
    assert_eq!(last("held")["outcome"], "blocked");
    assert_eq!(last("held")["budget"], format!("{}/held", ns.name));
    assert_eq!(bench.pods_on(&node).await.len(), 1);
    bench.check(&[held, free]).await;
}

/// Number 7: what is not Ready costs its budget nothing and goes first, by the API server's own
/// word (`canIgnorePDB` and the policies of unhealthy pods in
/// pkg/registry/core/pod/storage/eviction.go, v1.36.3).
#[tokio::test]
async fn what_is_not_ready_goes_though_its_budget_allows_nothing() {
    let (bench, node) = bench_with_node("unready").await;
    let ns = &bench.namespace;
    let mut pods = Vec::new();
    // The budget of the one has as many healthy pods as it wants; that of the other has too few,
    // and lets such pods go all the same.
    for (app, healthy, policy) in [("web", 2, "IfHealthyBudget"), ("db", 1, "AlwaysAllow")] {
        for (name, ready) in [("ready", true), ("unready", false)] {
            let pod = PodFixture::new(&format!("{app}-{name}")).app(app);
            let pod = pod.bound_to(&node).create(ns).await.unwrap();
            let status = Patch::Merge(json!({"status": running(&pod, ready)}));
            let (name, how) = (
                pod.metadata.name.as_deref().unwrap(),
                PatchParams::default(),
            );
            let patched = bench.pods().patch_status(name, &how, &status).await;
            pods.push(patched.unwrap());
        }
        let elsewhere = PodFixture::new(&format!("{app}-elsewhere")).app(app);
        elsewhere.create(ns).await.unwrap();
        let status = BudgetStatus {
            expected: 3,
            healthy,
            desired: 2,
            allowed: 0,
        };
        BudgetFixture::min_available(app, app, json!(2))
            .patch(json!({"spec": {"unhealthyPodEvictionPolicy": policy}}))
            .create_with_status(ns, status)
            .await
            .unwrap();
    }
    let output = bench
        .drain(&[&node, "--force", "--blocked-timeout=1s"])
        .await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let left: Vec<_> = bench.pods_on(&node).await;
    let left: Vec<_> = left
        .iter()
        .filter_map(|p| p.metadata.name.as_deref())
        .collect();
    assert_eq!(left, ["db-ready", "web-ready"], "{}", output.stderr);
    bench.check(&pods).await;
}

/// Two pods of each of three priorities, of which the first of the lowest is under a budget that
/// allows nothing now; all take a while to go.
async fn three_tiers(bench: &Bench, node: &str) -> Vec<Pod> {
    let classes = ["", "system-cluster-critical", "system-node-critical"];
    let mut pods = Vec::new();
    for (tier, class) in classes.into_iter().enumerate() {
        for i in [1, 2] {
            let pod = PodFixture::new(&format!("tier-{tier}-{i}")).running_on(node);
            let pod = pod.spec(json!({
                "priorityClassName": class,
                "terminationGracePeriodSeconds": 30,
            }));
            pods.push(pod.create(&bench.namespace).await.unwrap());
        }
    }
    let status = BudgetStatus {
        expected: 3,
        healthy: 2,
        desired: 2,
        allowed: 0,
    };
    BudgetFixture::min_available("held", "tier-0-1", json!(2))
        .create_with_status(&bench.namespace, status)
        .await
        .unwrap();
    pods
}

/// Plays the kubelet until this pod is the last.
pub(super) async fn end_all_but(bench: &Bench, node: &str, last: Option<&str>) {
    wait_until("the pods gone", PATIENCE, async || {
        let mut left = bench.pods_on(node).await;
        left.retain(|pod| pod.metadata.name.as_deref() != last);
        for pod in &left {
            if pod.metadata.deletion_timestamp.is_some() {
                let name = pod.metadata.name.as_deref().unwrap();
                let now = DeleteParams::default().grace_period(0);
                bench.pods().delete(name, &now).await?;
            }
        }
        Ok(left.is_empty().then_some(()))
    })
    .await
    .unwrap();
}

/// Number 13: no tier begins before the one below is gone, whatever that waits for.
#[tokio::test]
async fn a_strict_order_waits_for_what_a_budget_blocks() {
    let (bench, node) = bench_with_node("strict").await;
    let pods = three_tiers(&bench, &node).await;
    let drain = start(
        &bench,
        &[&node, "--force", "--order=strict", "--on-impossible=wait"],
    );
    let kubelet = async {
        wait_until("the pod that nothing blocks gone", PATIENCE, async || {
            let pod = bench.pods().get("tier-0-2").await?;
            Ok(pod.metadata.deletion_timestamp.map(drop))
        })
        .await
        .unwrap();
        let now = DeleteParams::default().grace_period(0);
        bench.pods().delete("tier-0-2", &now).await.unwrap();
        write_status(&bench.namespace, "held", open())
            .await
            .unwrap();
        end_all_but(&bench, &node, None).await;
    };
    let (ended, ()) = tokio::join!(end(&bench, drain), kubelet);
    assert_eq!(ended.0, Some(0), "{}", ended.1);
    bench.check(&pods).await;

    let events = bench.plane.audit_events().unwrap();
    let own = |event: &&AuditEvent| event.namespace() == bench.namespace.name;
    let times = |tier: usize, verb: &str, resource: &str| {
        let tier = format!("tier-{tier}-");
        let of_tier = |event: &&AuditEvent| event.name().starts_with(&tier);
        let is_it = |event: &&AuditEvent| event.is(verb, resource) && event.code() < 300;
        let events = events.iter().filter(own).filter(of_tier).filter(is_it);
        let mut times: Vec<_> = events.filter_map(|event| event.received).collect();
        times.sort_unstable();
        times
    };
    for tier in [0, 1] {
        // The test's own, with which a pod is gone.
        let gone = times(tier, "delete", "pods");
        let begun = times(tier + 1, "create", "pods/eviction");
        assert_eq!((gone.len(), begun.len()), (2, 2));
        assert!(gone[1] <= begun[0], "{tier}: {gone:?}, {begun:?}");
    }
    let is_opening = |event: &&AuditEvent| event.is("patch", "poddisruptionbudgets/status");
    let opened = events.iter().filter(own).rfind(is_opening);
    let upper = times(1, "create", "pods/eviction");
    assert!(opened.unwrap().received.unwrap() <= upper[0]);
}

/// And without `strict` what only a budget blocks holds up nobody.
#[tokio::test]
async fn an_order_by_priority_passes_by_what_a_budget_blocks() {
    let (bench, node) = bench_with_node("priority").await;
    let pods = three_tiers(&bench, &node).await;
    let drain = start(
        &bench,
        &[&node, "--force", "--order=priority", "--on-impossible=wait"],
    );
    end_all_but(&bench, &node, Some("tier-0-1")).await;
    write_status(&bench.namespace, "held", open())
        .await
        .unwrap();
    let (ended, ()) = tokio::join!(end(&bench, drain), end_all_but(&bench, &node, None));
    assert_eq!(ended.0, Some(0), "{}", ended.1);
    bench.check(&pods).await;
}

#[tokio::test]
async fn the_higher_priority_goes_when_the_lower_is_gone() {
    let (bench, node) = bench_with_node("order").await;
    let ns = &bench.namespace;
    let mut pods = Vec::new();
    for (name, class) in [("a-high", "system-cluster-critical"), ("b-low", "")] {
        let pod = PodFixture::new(name)
            .running_on(&node)
            .spec(json!({"priorityClassName": class}))
            .create(ns);
        pods.push(pod.await.unwrap());
    }
    let output = bench.drain(&[&node, "--force", "--order=strict"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let order: Vec<String> = bench
        .evictions()
        .await
        .iter()
        .map(|event| event.name().to_owned())
        .collect();
    assert_eq!(order, ["b-low", "a-high"]);
    bench.check(&pods).await;
}
