//! Tests with several nodes: their order, and where replacements are scheduled.

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{AuditEvent, ControlPlane, until};
use serde_json::json;

use super::support::{
    CORDON, EVENTS, EVICT, READ, TestEnvironment, blocked_pod, end, end_all_but,
    environment_with_node, events_on, interrupt, open, start, wait_for_cordon,
};

/// Whether the node has the soft taint of a node whose drain has not started.
async fn waits(env: &TestEnvironment, node: &str) -> bool {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let node = nodes.get(node).await.unwrap();
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let ours = |taint: &k8s_openapi::api::core::v1::Taint| {
        taint.key == "nodelife.dev/drain-waiting" && taint.effect == "PreferNoSchedule"
    };
    taints.iter().any(ours)
}

/// Defect n: kubectl cordons all nodes at once, so that all their room is gone at once.
#[tokio::test]
async fn each_node_is_cordoned_when_its_drain_starts() {
    let (env, first) = environment_with_node("turns").await;
    let second = env.node("b");
    NodeFixture::new(&second)
        .create(env.namespace.client())
        .await
        .unwrap();
    let held = blocked_pod(&env, &first).await;
    let drain = start(&env, &[&first, &second, "--force"]);
    wait_for_cordon(&env, &first).await;
    assert!(!env.is_cordoned(&second).await);
    assert!(waits(&env, &second).await);
    interrupt(&drain);
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(130), "{stderr}");
    // What was not begun is as it was, and there is nothing to take back.
    assert!(!env.is_cordoned(&second).await);
    assert!(!waits(&env, &second).await);
    assert!(
        stderr.contains(&format!(
            "to give up: kubectl nodelife drain {first} --undo\n"
        )),
        "{stderr}"
    );

    write_status(&env.namespace, "web", open()).await.unwrap();
    let output = env.drain(&[&first, &second, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let sum = format!(
        "2 nodes drained: 1 pod evicted\nto undo: kubectl nodelife drain {first} {second} --undo\n"
    );
    assert!(output.stderr.ends_with(&sum), "{}", output.stderr);
    // `--undo` would leave a node cordoned that somebody else had cordoned.
    let third = env.node("c");
    let cordoned = NodeFixture::new(&third).patch(json!({"spec": {"unschedulable": true}}));
    cordoned.create(env.namespace.client()).await.unwrap();
    let output = env.drain(&[&third]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(!output.stderr.contains("to undo"), "{}", output.stderr);
    assert!(env.is_cordoned(&second).await);
    assert!(!waits(&env, &second).await);
    env.check(&[held]).await;
}

/// Number 14: two nodes at a time and one of each zone, and nothing that moved has to move again
/// as long as there is room elsewhere.
#[tokio::test]
pub(crate) async fn no_pod_moves_twice_and_no_zone_loses_two_nodes_at_once() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "four").await;
    let client = env.namespace.client();
    let pool = &env.namespace.name;
    let node = |name: &str, zone: &str| NodeFixture::kwok(name).label("pool", pool).zone(zone);
    let victims: Vec<(String, &str)> = [("a", "one"), ("b", "one"), ("c", "two"), ("d", "two")]
        .map(|(name, zone)| (env.node(name), zone))
        .into();
    for (name, zone) in &victims {
        node(name, zone).create(client).await.unwrap();
    }
    let web =
        WorkloadFixture::deployment("web", 8).pod_spec(json!({"nodeSelector": {"pool": pool}}));
    web.create_ready(&env.namespace, 8).await.unwrap();
    for (name, zone) in [("spare-1", "one"), ("spare-2", "two")] {
        node(&env.node(name), zone).create(client).await.unwrap();
    }
    let before = env.pods().list(&ListParams::default()).await.unwrap().items;
    let mut arguments: Vec<&str> = victims.iter().map(|(name, _)| name.as_str()).collect();
    arguments.extend(["--concurrency=2", "--max-per-zone=1"]);
    let output = env.drain(&arguments).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    wait_ready(&env.namespace, "web", 8).await.unwrap();
    // A pod that moved twice would be one that was on no node before.
    env.check(&before).await;

    let requests = env.requests().await;
    let begun = |node: &str| {
        let is_it = |event: &AuditEvent| {
            let body = event.request_object.as_ref();
            let cordon = body.and_then(|body| body.pointer("/spec/unschedulable"));
            event.is("patch", "nodes") && event.name() == node && cordon == Some(&json!(true))
        };
        requests.iter().position(is_it).unwrap()
    };
    let done = |node: &str| {
        let is_it =
            |event: &AuditEvent| event.is("list", "pods") && event.request_uri.contains(node);
        requests.iter().rposition(is_it).unwrap()
    };
    for pair in [&victims[..2], &victims[2..]] {
        let (first, second) = (&pair[0].0, &pair[1].0);
        assert!(
            done(first) < begun(second) || done(second) < begun(first),
            "{first} and {second} were drained at once: {requests:#?}"
        );
    }
}

/// Number 13: order, skip and wait-completed, by an annotation and by a flag.
#[tokio::test]
pub(crate) async fn annotations_and_rules_decide_which_pods_stay() {
    let (env, node) = environment_with_node("rules").await;
    let ns = &env.namespace;
    let annotated = |name: &str, text: &str| {
        let annotations = json!({"metadata": {"annotations": {"nodelife.dev/drain": text}}});
        PodFixture::new(name).running_on(&node).patch(annotations)
    };
    let labelled = |name: &str, text: &str| {
        let labels = json!({"metadata": {"labels": {"cluster.x-k8s.io/drain": text}}});
        PodFixture::new(name).running_on(&node).patch(labels)
    };
    let mut pods = Vec::new();
    for fixture in [
        annotated("a-last", "order=2"),
        annotated("b-first", "order=-1"),
        PodFixture::new("c-middle").running_on(&node),
        PodFixture::new("d-late").running_on(&node),
        annotated("e-stays", "skip"),
        labelled("f-stays", "skip"),
        PodFixture::new("g-stays").running_on(&node),
        labelled("h-ends", "wait-completed"),
        PodFixture::new("i-ends").running_on(&node),
    ] {
        pods.push(fixture.create(ns).await.unwrap());
    }
    let rules = [
        "--pod-rule=app in (d-late):order=1",
        "--pod-rule=app=g-stays:skip",
        "--pod-rule=app=i-ends:wait-completed",
    ];
    let arguments = [&[node.as_str(), "--force"], &rules[..]].concat();
    let drain = start(&env, &arguments);
    // Those that are waited for are waited for from the beginning, whatever goes before.
    wait_for_cordon(&env, &node).await;
    for name in ["h-ends", "i-ends"] {
        let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        let params = PatchParams::default();
        env.pods()
            .patch_status(name, &params, &ended)
            .await
            .unwrap();
    }
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    let evictions = env.evictions().await;
    let at = |name: &str| evictions.iter().position(|event| event.name() == name);
    let order = ["b-first", "c-middle", "d-late", "a-last"].map(|name| at(name).unwrap());
    assert!(order.is_sorted(), "{evictions:#?}");
    // What stays is named where that is not what everybody expects.
    let name = &env.namespace.name;
    let line = format!(
        "node/{node}: drained: 6 evicted; {name}/e-stays (skipped: its annotation \
         nodelife.dev/drain=skip), {name}/f-stays (skipped: its label \
         cluster.x-k8s.io/drain=skip), {name}/g-stays (skipped: --pod-rule=skip) stay\n"
    );
    assert!(stderr.contains(&line), "{stderr}");
    let left: Vec<_> = env.pods_on(&node).await;
    assert_eq!(left.len(), 3, "{stderr}");
    assert!(
        ["e-stays", "f-stays", "g-stays"]
            .iter()
            .all(|name| at(name).is_none())
    );
    env.check(&pods).await;
}

/// Number 6: as few requests as pods, and a budget that opens is used at once.
#[tokio::test]
async fn a_drain_of_100_pods_sends_20_requests_besides_evictions() {
    let (mut env, node) = environment_with_node("hundred").await;
    // So that all requests can be told from those of other tests.
    env.act_with(&[READ, EVICT, CORDON, EVENTS]).await;
    let ns = &env.namespace;
    let pods = futures::future::try_join_all((0..100).map(|i| {
        let pod = PodFixture::new(&format!("web-{i}"))
            .app("web")
            .running_on(&node)
            .spec(json!({"terminationGracePeriodSeconds": 30}));
        pod.create(ns)
    }));
    let pods = pods.await.unwrap();
    let status = |allowed| nodelife_tests::fixture::BudgetCounts {
        expected: 200,
        healthy: 100 + allowed,
        desired: 100,
        allowed,
    };
    nodelife_tests::fixture::BudgetFixture::min_available("web", "web", json!(100))
        .create_with_status(ns, status(0))
        .await
        .unwrap();
    // The budget counts more pods than there are: by those alone it could never allow.
    let drain = start(&env, &[&node, "--force", "--on-impossible=wait"]);
    wait_for_cordon(&env, &node).await;
    write_status(ns, "web", status(100)).await.unwrap();
    let kubelet = end_all_but(&env, &node, None);
    let ((code, stderr), ()) = tokio::join!(end(&env, drain), kubelet);
    assert_eq!(code, Some(0), "{stderr}");
    let requests = env.requests().await;
    let evictions: Vec<&AuditEvent> = requests
        .iter()
        .filter(|event| event.is("create", "pods/eviction"))
        .collect();
    assert_eq!(evictions.len(), 100);
    let others = requests.len() - evictions.len();
    assert!(others <= 20, "{others} others: {requests:#?}");
    env.check(&pods).await;
}

/// How often the budget opens.
const OPENINGS: usize = 5;

/// Number 6: from the status that allows to the eviction, by the API server's own clock. A watch
/// of the test itself, which asks for a pod at each opening, tells how fast this machine is.
#[tokio::test]
pub(crate) async fn an_opened_budget_is_used_within_a_second() {
    let (env, node) = environment_with_node("opens").await;
    let ns = &env.namespace;
    let mut pods = Vec::new();
    for i in 0..OPENINGS {
        let pod = PodFixture::new(&format!("web-{i}")).app("web");
        pods.push(pod.running_on(&node).create(ns).await.unwrap());
    }
    let status = |allowed| nodelife_tests::fixture::BudgetCounts {
        expected: 20,
        healthy: 10 + allowed,
        desired: 10,
        allowed,
    };
    nodelife_tests::fixture::BudgetFixture::min_available("web", "web", json!(10))
        .create_with_status(ns, status(0))
        .await
        .unwrap();
    let drain = start(&env, &[&node, "--force", "--on-impossible=wait"]);
    wait_for_cordon(&env, &node).await;
    for i in 1..=OPENINGS {
        let budgets: Api<PodDisruptionBudget> = ns.api();
        let listed = budgets.list(&ListParams::default()).await.unwrap();
        let version = listed.metadata.resource_version.unwrap();
        let seen = async {
            let watch = budgets.watch(&WatchParams::default(), &version).await;
            let mut watch = watch.unwrap().boxed();
            watch.try_next().await.unwrap();
            env.pods().get_opt(&format!("seen-{i}")).await.unwrap();
        };
        let open = async { write_status(ns, "web", status(1)).await.unwrap() };
        tokio::join!(seen, open);
        until("the eviction", async || {
            let left = env.pods_on(&node).await.len();
            Ok((left == OPENINGS - i).then_some(()))
        })
        .await;
    }
    let (code, stderr) = end(&env, drain).await;
    assert_eq!(code, Some(0), "{stderr}");
    env.check(&pods).await;

    let evictions = env.evictions().await;
    assert_eq!(evictions.len(), OPENINGS, "{evictions:#?}");
    let events = env.plane.audit_events().unwrap();
    let own = events.iter().filter(|event| event.namespace() == ns.name);
    let at = |wanted: &dyn Fn(&AuditEvent) -> bool| {
        let mut times: Vec<Timestamp> = own
            .clone()
            .filter(|event| wanted(event))
            .filter_map(|event| event.received)
            .collect();
        times.sort_unstable();
        times.dedup();
        times
    };
    let mut opened = at(&|event: &AuditEvent| event.is("patch", "poddisruptionbudgets/status"));
    // The first has set the budget up.
    opened.remove(0);
    let evicted = at(&|event: &AuditEvent| event.is("create", "pods/eviction"));
    let seen = at(&|event: &AuditEvent| event.name().starts_with("seen-"));
    let median = |times: &[Timestamp]| {
        let pairs = opened.iter().zip(times);
        let mut waits: Vec<i128> = pairs
            .map(|(opened, at)| at.duration_since(*opened).as_millis())
            .collect();
        waits.sort_unstable();
        waits[OPENINGS / 2]
    };
    assert_eq!((opened.len(), seen.len()), (OPENINGS, OPENINGS));
    let (ours, floor) = (median(&evicted), median(&seen));
    // The first try without a change would come after 5 s or more.
    assert!(ours <= 1000 + 10 * floor, "{ours} ms, the test {floor} ms");
}

/// The node's events say that it ended before it was empty.
#[tokio::test]
pub(crate) async fn an_aborted_drain_leaves_an_event() {
    let (env, node) = environment_with_node("ended").await;
    let pod = blocked_pod(&env, &node).await;
    let output = env.drain(&[&node, "--force", "--blocked-timeout=1s"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let events = until("the event", async || {
        let events = events_on(&env, &node).await;
        let reasons: Vec<String> = events.into_iter().map(|(_, reason, _)| reason).collect();
        Ok(reasons
            .contains(&"DrainStopped".to_owned())
            .then_some(reasons))
    })
    .await;
    assert!(!events.contains(&"Drained".to_owned()), "{events:?}");
    env.check(&[pod]).await;
}

/// A node whose turn had not come has no Event of a drain.
#[tokio::test]
async fn a_node_that_was_not_begun_has_no_event() {
    let (env, node) = environment_with_node("not-begun").await;
    let second = env.node("b");
    let fixture = NodeFixture::new(&second);
    fixture.create(env.namespace.client()).await.unwrap();
    let pod = blocked_pod(&env, &node).await;
    let words = [&*node, &*second, "--force", "--timeout=20s"];
    let output = env.drain(&words).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    until("the event", async || {
        let events = events_on(&env, &node).await;
        let mut reasons = events.iter().map(|(_, reason, _)| reason);
        Ok(reasons.any(|one| one == "DrainStopped").then_some(()))
    })
    .await;
    assert!(events_on(&env, &second).await.is_empty());
    env.check(&[pod]).await;
}
