//! Tests of evictions that operators, policies, webhooks, priority and fairness or an overloaded
//! API server refuse.

use std::convert::Infallible;
use std::path::Path;

use bytes::Bytes;
use futures::stream;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::client::ConfigExt as _;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{BudgetCounts, BudgetFixture, PodFixture};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{Identity, until};
use serde_json::json;

use super::support::{
    CORDON, EVICT, READ, Stderr, apart_with_node, blocked, blocked_pod, end, environment_with_node,
    open, start,
};

/// Operators keep a budget that never allows, and lift it when they see the cordon or the attempt:
/// it is no reason to refuse, it is tried once at once, and holds up nobody.
#[tokio::test]
pub(crate) async fn an_operators_pod_is_tried_once_and_evicted_when_allowed() {
    let (env, node) = environment_with_node("operated").await;
    let ns = &env.namespace;
    let operator = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "db",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true,
    }]}});
    let primary = PodFixture::new("db").running_on(&node);
    let primary = primary.patch(operator.clone()).create(ns).await.unwrap();
    let free = PodFixture::new("free").running_on(&node);
    let free = free.create(ns).await.unwrap();
    let status = |healthy| BudgetCounts {
        expected: healthy,
        healthy,
        desired: 1,
        allowed: healthy - 1,
    };
    BudgetFixture::min_available("db", "db", json!(1))
        .patch(operator)
        .create_with_status(ns, status(1))
        .await
        .unwrap();
    let drain = start(&env, &[&node, "--force"]);
    until("the attempt, and the other gone", async || {
        let evictions = env.evictions().await;
        let tried = evictions
            .iter()
            .any(|e| e.name() == "db" && e.code() == 429);
        let left = env.pods_on(&node).await.len();
        Ok((tried && left == 1).then_some(()))
    })
    .await;
    // The operator has another primary now.
    write_status(ns, "db", status(2)).await.unwrap();
    let (code, stderr) = end(&env, drain).await;
    assert_eq!(code, Some(0), "{stderr}");
    let evictions = env.evictions().await;
    let tries: Vec<_> = evictions.iter().filter(|e| e.name() == "db").collect();
    let (last, refused) = tries.split_last().unwrap();
    assert_eq!(last.code(), 201, "{tries:#?}");
    // Some begin anew at each attempt.
    for pair in refused.windows(2) {
        let apart = pair[1]
            .received
            .unwrap()
            .duration_since(pair[0].received.unwrap());
        assert!(apart >= SignedDuration::from_secs(30), "{apart:?}");
    }
    env.check(&[primary, free]).await;
}

/// A policy of the API server that denies: quoted, tried three times at most, and final.
#[tokio::test]
pub(crate) async fn a_policys_denial_is_final_and_quoted() {
    let (env, node) = environment_with_node("denied").await;
    let ns = &env.namespace;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(ns).await.unwrap();
    let name = ns.name.clone();
    let client = ns.client().clone();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["pods/eviction"],
                }],
            },
            "validations": [{"expression": "false", "message": "not before the backup"}],
        },
    });
    let how = PostParams::default();
    let policy = serde_json::from_value(policy).unwrap();
    policies.create(&how, &policy).await.unwrap();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    let binding = json!({
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&how, &binding).await.unwrap();
    // The API server learns of it by a watch of its own.
    until("the policy to be heeded", async || {
        let output = env.drain(&[&node, "--force", "--dry-run=server"]).await;
        let heeded = output.stderr.contains("not before the backup");
        anyhow::ensure!(heeded, "{:?}: {}", output.status, output.stderr);
        Ok(Some(()))
    })
    .await;
    let asked = env.evictions().await.len();
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let message = format!("{name}/web: cannot be evicted: ");
    assert!(
        output.stderr.contains(&message) && output.stderr.contains("not before the backup"),
        "{}",
        output.stderr
    );
    assert_eq!(env.evictions().await.len() - asked, 3);
    assert_eq!(env.pods_on(&node).await.len(), 1);
    let now = DeleteParams::default();
    bindings.delete(&name, &now).await.unwrap();
    policies.delete(&name, &now).await.unwrap();
    env.check(&[pod]).await;
}

/// 429 has many senders (facts of the eviction API: budgets, priority and fairness, webhooks,
/// filters of the API server, its storage), and each is called by its name.
#[tokio::test]
pub(crate) async fn every_429_is_reported_with_its_cause() {
    let (mut env, node) = apart_with_node("senders").await;
    let ns = env.namespace.name.clone();
    let proxy = env.go_through_proxy();
    let status = |message: &str| {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "TooManyRequests", "code": 429,
        })
    };
    let webhook = "admission webhook \"evict.kubevirt.io\" denied the request: it is moving";
    let json = "application/json";
    let plain = "text/plain; charset=utf-8";
    let mut pods = Vec::new();
    let senders = [
        (
            "hook",
            json,
            status(webhook).to_string(),
            "denied: admission webhook",
        ),
        (
            "filter",
            plain,
            "The apiserver is shutting down".to_owned(),
            "throttled: the API server",
        ),
        (
            "storage",
            json,
            status("etcdserver: too many requests").to_string(),
            "throttled: the API server",
        ),
        (
            "fair",
            plain,
            "Too many requests, please try again later.\n".to_owned(),
            "throttled by the API server's priority and fairness",
        ),
    ];
    for (name, kind, body, _) in &senders {
        let pod = PodFixture::new(name).running_on(&node);
        pods.push(pod.create(&env.namespace).await.unwrap());
        let fault = Fault::Answer {
            status: 429,
            headers: vec![
                ("content-type", (*kind).to_owned()),
                ("retry-after", "1".to_owned()),
            ],
            body: body.clone(),
        };
        let path = format!("/pods/{name}/eviction");
        proxy.fault(FaultRule::new(fault).path(&path).times(1));
    }
    let (code, stderr) = end(&env, start(&env, &[&node, "--force"])).await;
    assert_eq!(code, Some(0), "{stderr}");
    for (name, _, _, message) in senders {
        let line = format!("{ns}/{name}: {message}");
        if env.prints() {
            assert_eq!(stderr.matches(&line).count(), 1, "{line}\n{stderr}");
        }
    }
    assert_eq!(proxy.struck(), 4);
    assert!(!stderr.contains("blocked by budget"), "{stderr}");
    env.check(&pods).await;
}

/// Defect r: however often a budget refuses, that is one line.
#[tokio::test]
pub(crate) async fn a_block_is_reported_once_across_retries() {
    let (mut env, node) = apart_with_node("once-told").await;
    let pod = blocked_pod(&env, &node).await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let proxy = env.go_through_proxy();
    // The status that the watch shows allows what the server refuses, as in a race of several.
    let refusal = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests", "code": 429,
        "details": {"causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget web does not allow evicting pods currently",
        }]},
    });
    let tries = 3;
    let refuse = Fault::Answer {
        status: 429,
        headers: Vec::new(),
        body: refusal.to_string(),
    };
    proxy.fault(FaultRule::new(refuse).path("/eviction").times(tries));
    let mut drain = start(&env, &[&node, "--force"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    let ns = &env.namespace.name;
    let told = format!("{ns}/web: blocked by budget {ns}/web");
    // What is over before a line could be written about it is not told.
    stderr.wait_for(&[&told]).await;
    for done in 1..=tries {
        until("a refusal", async || {
            Ok((proxy.struck() >= done).then_some(()))
        })
        .await;
        // Another state of the budget is worth another try.
        for status in [blocked(), open()] {
            write_status(&env.namespace, "web", status).await.unwrap();
        }
    }
    stderr.read_to_end().await;
    let (code, _) = end(&env, drain).await;
    assert_eq!(code, Some(0), "{}", stderr.text);
    if env.prints() {
        assert_eq!(stderr.text.matches(&told).count(), 1, "{}", stderr.text);
    }
    assert_eq!(proxy.struck(), tries);
    env.check(&[pod]).await;
}

/// Keeps a request under way in the level: a request that finds nobody there is let in even where
/// the level has no room at all (`canAccommodateSeatsLocked` of k8s.io/apiserver v0.36.3,
/// `pkg/util/flowcontrol/fairqueuing/queueset/queueset.go`). Its body never ends; the API server
/// gives it up after a minute.
async fn occupy(kubeconfig: &Path, user: &str, namespace: &str) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options);
    let config = config.await.unwrap();
    let https = config.rustls_https_connector().unwrap();
    let client = legacy::Client::builder(TokioExecutor::new()).build(https);
    let path = format!("api/v1/namespaces/{namespace}/pods/nobody/eviction");
    loop {
        let never = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let request = Request::post(format!("{}{path}", config.cluster_url))
            .header("content-type", "application/json")
            .header("impersonate-user", user)
            .body(StreamBody::new(never));
        // However it ends, the next one takes its place.
        drop(client.request(request.unwrap()).await);
    }
}

/// Number 8: it is reported as throttled, and retried after `Retry-After`.
#[tokio::test]
pub(crate) async fn a_throttled_eviction_is_retried_and_not_called_blocked() {
    let (mut env, node) = apart_with_node("throttled").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    env.act_with(&[READ, EVICT, CORDON]).await;
    let name = env.namespace.name.clone();
    let client = env.namespace.client().clone();
    let levels: Api<PriorityLevelConfiguration> = Api::all(client.clone());
    let level = json!({
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let level = serde_json::from_value(level).unwrap();
    levels.create(&PostParams::default(), &level).await.unwrap();
    let schemas: Api<FlowSchema> = Api::all(client);
    let schema = json!({
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": 2,
            "priorityLevelConfiguration": {"name": name},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": format!("{name}-user")}}],
                "resourceRules": [{
                    "verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"],
                    "namespaces": [name],
                }],
            }],
        },
    });
    let schema = serde_json::from_value(schema).unwrap();
    schemas
        .create(&PostParams::default(), &schema)
        .await
        .unwrap();
    // The API server says so when it goes by it (pkg/util/flowcontrol/apf_controller.go,
    // `presyncFlowSchemaStatus`).
    until("the flow schema to be heeded", async || {
        let status = schemas.get(&name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        let heeded = conditions.any(|condition| {
            condition.type_ == "Dangling" && condition.status.as_deref() == Some("False")
        });
        Ok(heeded.then_some(()))
    })
    .await;
    let user = format!("{name}-user");
    let kubeconfig = env.plane.kubeconfig_file(&Identity::Admin).unwrap();
    // Without those of nobody.
    let evictions = async || {
        let all = env.evictions().await.into_iter();
        let ours = all.filter(|eviction| eviction.name() == "web");
        ours.collect::<Vec<_>>()
    };
    let story = async {
        // Until somebody is there an eviction is let in, and asked for in vain.
        until("the level to be full", async || {
            let output = env.drain(&[&node, "--force", "--dry-run=server"]).await;
            let full = output.stderr.contains("priority and fairness");
            Ok(full.then_some(()))
        })
        .await;

        let already = evictions().await.len();
        let drain = start(&env, &[&node, "--force"]);
        until("two evictions sent back", async || {
            let evictions = evictions().await;
            let sent_back = evictions.iter().skip(already).filter(|e| e.code() == 429);
            Ok((sent_back.count() >= 2).then_some(()))
        })
        .await;
        let now = DeleteParams::default();
        schemas.delete(&name, &now).await.unwrap();
        levels.delete(&name, &now).await.unwrap();
        (drain, already)
    };
    let (drain, already) = tokio::select! {
        told = story => told,
        () = occupy(&kubeconfig, &user, &name) => unreachable!("it never ends"),
    };
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stderr.contains("web: throttled by the API server's priority and fairness"),
        "{stderr} {:#?}",
        evictions().await
    );
    assert!(!stderr.contains("blocked by budget"), "{stderr}");
    let evictions = evictions().await;
    let times: Vec<_> = evictions
        .iter()
        .skip(already)
        .filter_map(|event| event.received)
        .collect();
    // `Retry-After: 1` (staging/src/k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go).
    for pair in times.windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(apart >= SignedDuration::from_millis(1000), "{apart:?}");
    }
    env.check(&[pod]).await;
}

/// A flapping authentication webhook, or a token that was just renewed.
#[tokio::test]
pub(crate) async fn an_eviction_answered_with_401_is_retried() {
    let (mut env, node) = apart_with_node("unauthorized").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let proxy = env.go_through_proxy();
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    let rule = FaultRule::new(Fault::Answer {
        status: 401,
        headers: Vec::new(),
        body: body.to_string(),
    });
    proxy.fault(rule.path("/eviction").times(1));
    let output = env.drain(&[&node, "--force", "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(proxy.struck(), 1);
    env.check(&[pod]).await;
}

/// What was refused for another reason before takes no try from a denial, which may pass.
#[tokio::test]
pub(crate) async fn a_denial_after_throttling_is_retried() {
    let (mut env, node) = apart_with_node("denied-late").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let proxy = env.go_through_proxy();
    let answer = |status: u16, reason: &str, message: &str| {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": status,
        });
        FaultRule::new(Fault::Answer {
            status,
            headers: vec![("retry-after", "1".to_owned())],
            body: body.to_string(),
        })
        .path("/eviction")
    };
    let slow = "too many requests, please try again later";
    proxy.fault(answer(429, "TooManyRequests", slow).times(3));
    let denied = "admission webhook \"backups.example.com\" denied the request: not now";
    proxy.fault(answer(403, "Forbidden", denied).times(1));
    let output = env.drain(&[&node, "--force", "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert_eq!(proxy.struck(), 4);
    env.check(&[pod]).await;
}

/// A script can tell a drain that the API server would deny from one that it would not.
#[tokio::test]
async fn a_dry_run_that_is_denied_ends_with_7_and_counts_nothing() {
    let (mut env, node) = apart_with_node("dry-denied").await;
    for name in ["web-1", "web-2", "web-3"] {
        env.running(name, &node).await;
    }
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "admission webhook \"days.example.com\" denied the request: not today",
        "reason": "Forbidden", "code": 403,
    });
    let denied = Fault::Answer {
        status: 403,
        headers: Vec::new(),
        body: body.to_string(),
    };
    let proxy = env.go_through_proxy();
    proxy.fault(FaultRule::new(denied).path("/eviction"));
    let output = env.drain(&[&node, "--force", "--dry-run=server"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let denials = output.stderr.matches("denied the request: not today");
    assert_eq!(denials.count(), 3, "{}", output.stderr);
    let rows = output.stdout.matches("impossible");
    assert_eq!(rows.count(), 3, "{}", output.stdout);
    assert!(!output.stdout.contains("evict "), "{}", output.stdout);
    let counted = output.stderr.contains("3 pods would be evicted");
    assert!(!counted, "{}", output.stderr);
    env.check_nothing_written().await;
}
