//! Tests of missing permissions, with the API server alone.

use std::time::Instant;

use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{AuditEvent, ControlPlane, Identity, until};
use serde_json::json;

use nodelife_tests::Parts;

use super::support::{
    CORDON, EVENTS, EVICT, Permission, READ, Stderr, TestEnvironment, apart_with_node, blocked_pod,
    end, environment_with_node, open, report, start, two_nodes,
};

/// What a drain reads beside budgets.
const READ_OTHERS: Permission = ("read", "get,list,watch", "nodes,pods");

/// Defect a: kubectl goes on when the cordon failed.
#[tokio::test]
pub(crate) async fn nothing_is_evicted_if_the_cordon_is_forbidden() {
    let (mut env, node) = apart_with_node("no-patch").await;
    let pod = env.running("web", &node).await;
    // All that a drain needs but `patch nodes`.
    env.act_with(&[READ, EVICT]).await;
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    assert!(
        output.stderr.contains(&format!(
            "failed to cordon node {node}; nothing was evicted"
        )),
        "{}",
        output.stderr
    );
    assert!(env.evictions().await.is_empty());
    assert!(!env.is_cordoned(&node).await);
    env.check(&[pod]).await;
}

/// Number 20: the API server decides, and nothing is claimed of what is not seen.
#[tokio::test]
pub(crate) async fn a_drain_works_without_permission_to_read_budgets() {
    let (mut env, node) = apart_with_node("no-budgets").await;
    let web = blocked_pod(&env, &node).await;
    let free = env.running("free", &node).await;
    env.act_with(&[READ_OTHERS, EVICT, CORDON]).await;

    let output = env
        .drain(&[&node, "--force", "--dry-run", "-o", "json"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let plan = report(&output);
    assert_eq!((plan.get("waves"), plan.get("estimate")), (None, None));
    for pod in plan["pods"].as_array().unwrap() {
        assert_eq!(pod["action"], "evict");
        assert_eq!(pod["reason"], "unknown whether a budget protects it");
        assert_eq!((pod.get("wave"), pod.get("budget")), (None, None));
    }
    env.check_nothing_written().await;

    let begun = Instant::now();
    let text = drain_past_a_budget(&env, &node).await;
    // The API server says so in protobuf, in which budgets are asked for.
    for part in [
        "the API server says: The disruption budget web needs 2 healthy pods and has 2 currently",
        "cannot watch resource \"poddisruptionbudgets\"",
        "kubectl auth can-i watch poddisruptionbudgets.policy",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let garbled = |c: char| c == char::REPLACEMENT_CHARACTER || c.is_control() && c != '\n';
    assert!(!text.contains(garbled), "{text:?}");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(
        at("cannot read PodDisruptionBudgets") < at(": cordoned"),
        "{text}"
    );

    let mut tries = env.evictions().await;
    tries.retain(|event| event.name() == "web");
    let codes: Vec<_> = tries.iter().map(AuditEvent::code).collect();
    assert_eq!((codes[0], codes[codes.len() - 1]), (429, 201), "{codes:?}");
    // Between two tries lie 5 s at least.
    let most = 2 + begun.elapsed().as_secs() / 5;
    assert!(u64::try_from(codes.len()).unwrap() <= most, "{codes:?}");
    env.check(&[web, free]).await;
}

/// Who may list budgets and not watch them sees them once, and no more.
#[tokio::test]
pub(crate) async fn a_drain_works_without_permission_to_watch_budgets() {
    let (mut env, node) = apart_with_node("budgets-lost").await;
    let web = blocked_pod(&env, &node).await;
    let list = ("list", "list", "poddisruptionbudgets.policy");
    env.act_with(&[READ_OTHERS, list, EVICT, CORDON]).await;
    let text = drain_past_a_budget(&env, &node).await;
    let part = "cannot watch resource \"poddisruptionbudgets\"";
    assert!(text.contains(part), "{text}");
    env.check(&[web]).await;
}

/// Drains the node of a pod whose budget opens after the API server refused its eviction. Its output.
async fn drain_past_a_budget(env: &TestEnvironment, node: &str) -> String {
    let mut drain = start(env, &[node, "--force"]);
    let mut stderr = Stderr::of(env, &mut drain);
    until("a refused eviction", async || {
        let tries = env.evictions().await;
        Ok(tries.iter().find(|event| event.code() == 429).map(drop))
    })
    .await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    stderr.read_to_end().await;
    assert_eq!(end(env, drain).await.0, Some(0), "{}", stderr.text);
    let once = stderr
        .text
        .matches("cannot read PodDisruptionBudgets")
        .count();
    assert_eq!(once, 1, "{}", stderr.text);
    let blocked = format!("web: blocked by budget {}/web: ", env.namespace.name);
    assert!(stderr.text.contains(&blocked), "{}", stderr.text);
    assert!(!stderr.text.contains("no budget"), "{}", stderr.text);
    stderr.text
}

/// Number 20: nothing is changed by a user who may not evict, whichever way.
#[tokio::test]
pub(crate) async fn the_permission_to_evict_is_asked_before_the_cordon() {
    let (mut env, node) = apart_with_node("no-right").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    env.act_with(&[READ, CORDON, EVENTS]).await;
    let namespace = env.namespace.name.clone();
    for (flag, right, flags) in [
        (
            "--ignore-daemonsets",
            "create pods/eviction",
            "create pods --subresource=eviction",
        ),
        ("--disable-eviction", "delete pods", "delete pods"),
    ] {
        let output = env.drain(&[&node, "--force", flag]).await;
        assert_eq!(output.status, Some(7), "{}", output.stderr);
        let line = format!(
            "refused: not allowed to {right} in namespace {namespace}; nothing was changed; check \
             with: kubectl auth can-i {flags} -n {namespace}\n"
        );
        assert!(output.stderr.contains(&line), "{}", output.stderr);
    }
    env.check_nothing_written().await;

    // In that namespace alone is enough.
    let kubectl = Kubectl::new(env.plane, &Identity::Admin).unwrap();
    let user = format!("--user={namespace}-user");
    let role = [
        "create",
        "role",
        "evict",
        "--verb=create",
        "--resource=pods/eviction",
    ];
    let bound = [
        "create",
        "rolebinding",
        "evict",
        "--role=evict",
        user.as_str(),
    ];
    for words in [&role, &bound] {
        let words = words.iter().copied().chain(["-n", namespace.as_str()]);
        kubectl.run(words).await.unwrap().success().unwrap();
    }
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    env.check(&[pod]).await;
}

/// The ClusterRoles of the manifests are enough for a drain, and the optional one for all flags.
#[tokio::test]
async fn the_cluster_role_of_the_manifests_is_enough() {
    let mut env = TestEnvironment::new(ControlPlane::shared().await, "role").await;
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../manifests/drain/clusterrole.yaml"
    );
    let kubectl = Kubectl::new(env.plane, &Identity::Admin).unwrap();
    let applied = kubectl.run(["apply", "-f", file]).await.unwrap();
    applied.success().unwrap();
    env.make_lock_namespace().await;
    env.act_under("nodelife-drain").await;
    env.act_under("nodelife-drain-locks").await;
    // What it allows is asked for in vain otherwise, where pods are blocked for a while.
    env.act_under("nodelife-drain-operators").await;
    let (full, empty) = two_nodes(&env, 3).await;
    BudgetFixture::min_available("web", "web", json!("60%"))
        .create_counted(&env.namespace, 3)
        .await
        .unwrap();
    let before = env.pods_on(&full).await;
    let output = env.drain(&[&full, "--wait-ready", "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    // Events are optional.
    let missing: Vec<&str> = output
        .stderr
        .lines()
        .filter(|line| line.contains("not allowed") || line.contains("cannot"))
        .filter(|line| !line.contains("events"))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");

    env.act_under("nodelife-drain-optional").await;
    let undone = env.drain(&[&full, "--undo"]).await;
    assert_eq!(undone.status, Some(0), "{}", undone.stderr);
    let mut after = env.pods_on(&empty).await;
    let output = env
        .drain(&[&empty, "--wait-ready", "--wait-volumes", "--timeout=5m"])
        .await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let denied = env.requests().await;
    let denied = denied.iter().filter(|event| event.code() == 403);
    let denied: Vec<_> = denied
        .filter(|event| !event.is("create", "events"))
        .collect();
    assert!(denied.is_empty(), "{denied:#?}");
    after.extend(before);
    env.check(&after).await;
}

/// Number 20: nothing stays changed behind a user who loses the right to evict under way.
#[tokio::test]
async fn the_cordon_is_undone_without_permission_to_evict() {
    let mut env = TestEnvironment::apart(Parts::Api, "no-evict").await;
    let nodes = ["a", "b", "theirs"].map(|name| env.node(name));
    let mut pods = Vec::new();
    for node in &nodes {
        let client = env.namespace.client();
        NodeFixture::new(node).create(client).await.unwrap();
        let name = format!("on-{node}");
        let pod = PodFixture::new(&name).running_on(node);
        pods.push(pod.create(&env.namespace).await.unwrap());
    }
    let [a, b, theirs] = &nodes;
    let kubectl = Kubectl::new(env.plane, &Identity::Admin).unwrap();
    let cordon = kubectl.run(["cordon", theirs.as_str()]).await.unwrap();
    cordon.success().unwrap();
    let proxy = env.go_through_proxy();
    let namespace = env.namespace.name.clone();
    let forbidden = |what: &str| Fault::Answer {
        status: 403,
        headers: Vec::new(),
        body: json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!("pods is forbidden: User cannot {what}"), "reason": "Forbidden",
            "details": {"kind": "pods"}, "code": 403,
        })
        .to_string(),
    };
    proxy.fault(FaultRule::new(forbidden("evict")).path("/eviction"));
    let pods_here = format!("/namespaces/{namespace}/pods/");
    let deletes = FaultRule::new(forbidden("delete")).method(Method::DELETE);
    proxy.fault(deletes.path(&pods_here));

    let ways: [(&[&str], &str, &str); 2] = [
        (
            &[a, b, "--force", "-o", "json"],
            "create pods/eviction",
            "create pods --subresource=eviction",
        ),
        (
            &[a, "--force", "--disable-eviction", "-o", "json"],
            "delete pods",
            "delete pods",
        ),
    ];
    for (arguments, right, flags) in ways {
        let output = env.drain(arguments).await;
        assert_eq!(output.status, Some(7), "{}", output.stderr);
        assert!(!env.report(&output).await.is_drained(a));
        for node in arguments
            .iter()
            .filter(|word| nodes.iter().any(|n| n == *word))
        {
            for line in [
                format!(
                    "node/{node}: nothing was evicted, uncordoning it: not allowed \
                     to {right} in namespace {namespace}; check with: kubectl auth can-i {flags} \
                     -n {namespace}\n"
                ),
                format!("node/{node}: uncordoned\n"),
            ] {
                assert!(output.stderr.contains(&line), "{line}{}", output.stderr);
            }
            assert_eq!(marks(&env, node).await, Vec::<String>::new());
            assert!(!env.is_cordoned(node).await);
        }
        let kept = output.stderr.contains("still cordoned");
        assert!(!kept, "{}", output.stderr);
    }

    // What somebody else cordoned is not ours to take back.
    let output = env.drain(&[theirs, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let text = output.stderr.contains("nothing was evicted: not allowed");
    assert!(text, "{}", output.stderr);
    assert!(env.is_cordoned(theirs).await);
    assert_eq!(marks(&env, theirs).await, Vec::<String>::new());

    env.check(&pods).await;
}

/// Our annotations and taints on a node.
async fn marks(env: &TestEnvironment, node: &str) -> Vec<String> {
    let nodes: Api<Node> = Api::all(env.namespace.client().clone());
    let node = serde_json::to_value(nodes.get(node).await.unwrap()).unwrap();
    let annotations = node["metadata"]["annotations"].as_object();
    let annotations = annotations
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone());
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let taints = taints.filter_map(|taint| taint["key"].as_str().map(str::to_owned));
    let all = annotations.chain(taints);
    all.filter(|key| key.starts_with("nodelife.dev/")).collect()
}

/// kubectl's role: it may list pods, and not watch them.
#[tokio::test]
async fn a_right_that_is_missed_later_is_named_before_the_cordon() {
    let (mut env, node) = environment_with_node("no-watch").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let read = ("read", "get,list", "nodes,pods,poddisruptionbudgets.policy");
    env.act_with(&[read, EVICT, CORDON]).await;
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let missing = "not allowed to watch pods";
    assert!(output.stderr.contains(missing), "{}", output.stderr);

    let watch = ("watch", "watch", "nodes,pods,poddisruptionbudgets.policy");
    env.act_with(&[watch]).await;
    let output = env.drain(&[&node, "--force", "--wait-volumes"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let missing = "not allowed to list volumeattachments.storage.k8s.io";
    assert!(output.stderr.contains(missing), "{}", output.stderr);
    assert!(!env.is_cordoned(&node).await);
    assert!(env.evictions().await.is_empty());
    env.check(&[pod]).await;
}

#[tokio::test]
pub(crate) async fn wait_ready_is_refused_if_replicas_may_not_be_watched() {
    let mut env = TestEnvironment::apart(Parts::All, "no-replicas").await;
    let node = env.node_with_web(1).await;
    env.act_with(&[READ, EVICT, CORDON]).await;
    let output = env.drain(&[&node, "--wait-ready", "--timeout=5m"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let missing = "--wait-ready requires permission to list and watch ReplicaSets";
    assert!(output.stderr.contains(missing), "{}", output.stderr);
    assert!(!env.is_cordoned(&node).await);
    env.check(&[]).await;
}
