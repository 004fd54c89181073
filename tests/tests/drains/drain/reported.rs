//! What people reported of their drains, each on a cluster that does it: by the command, and as a
//! NodeMaintenance.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::discovery::ApiResource;
use nodelife_tests::fixture::pod::is_ready;
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::kubectl::{Kubectl, Output};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{AuditEvent, ControlPlane, Identity, Parts, TestNamespace, until};
use serde_json::{Value, json};

use super::support::{Stderr, TestEnvironment, end, environment_with_node, report, start};

/// Nodes of kwok, for pods of this test alone.
pub(super) async fn with_nodes(what: &str, names: &[&str]) -> (TestEnvironment, Vec<String>) {
    let env = TestEnvironment::new(ControlPlane::shared().await, what).await;
    let nodes: Vec<String> = names.iter().map(|name| env.node(name)).collect();
    for node in &nodes {
        add_node(&env, node).await;
    }
    (env, nodes)
}

pub(super) async fn add_node(env: &TestEnvironment, node: &str) {
    let fixture = NodeFixture::kwok(node).label("pool", &env.namespace.name);
    let client = env.namespace.client();
    fixture.create_schedulable(client).await.unwrap();
}

/// A Deployment whose pods run on this test's nodes.
pub(super) fn deployment(env: &TestEnvironment, name: &str, replicas: u32) -> WorkloadFixture {
    let pool = json!({"nodeSelector": {"pool": env.namespace.name}});
    WorkloadFixture::deployment(name, replicas).pod_spec(pool)
}

/// A node with the only pod of a Deployment, and a budget over it.
async fn with_only_pod(what: &str, name: &str, budget: BudgetFixture) -> (TestEnvironment, String) {
    let (env, nodes) = with_nodes(what, &["a"]).await;
    let workload = deployment(&env, name, 1);
    workload.create_ready(&env.namespace, 1).await.unwrap();
    budget.create_counted(&env.namespace, 1).await.unwrap();
    let [node] = nodes.try_into().unwrap();
    (env, node)
}

/// Each line is in what the drain said.
#[track_caller]
pub(super) fn said(output: &Output, parts: &[&str]) {
    for part in parts {
        let found = output.stderr.contains(part);
        assert!(found, "{part:?} is not in:\n{}", output.stderr);
    }
}

/// The plan's entry of a pod whose name begins so.
async fn planned(env: &TestEnvironment, node: &str, pod: &str) -> Value {
    let plan = report(&env.drain(&[node, "--dry-run=client", "-o", "json"]).await);
    let mut pods = plan["pods"].as_array().unwrap().iter();
    let of = |one: &&Value| one["name"].as_str().unwrap().starts_with(pod);
    pods.find(of)
        .unwrap_or_else(|| panic!("{pod}: {plan:#}"))
        .clone()
}

/// A custom resource of a kind that nodelife does not know, without the subresource scale, as the owner of
/// others.
pub(super) async fn unknown_owner(ns: &TestNamespace, plane: &ControlPlane, name: &str) -> Value {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.reported.test"},
        "spec": {
            "group": "reported.test", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    kubectl.apply(&definition.to_string()).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("reported.test", "v1", "Thing");
    let things: Api<DynamicObject> =
        Api::namespaced_with(ns.client().clone(), &ns.name, &ApiResource::from_gvk(&kind));
    let thing =
        json!({"apiVersion": "reported.test/v1", "kind": "Thing", "metadata": {"name": name}});
    let thing: DynamicObject = serde_json::from_value(thing).unwrap();
    let thing = until("the owner", async || {
        match things.create(&PostParams::default(), &thing).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            created => Ok(Some(created?)),
        }
    })
    .await;
    json!({
        "apiVersion": "reported.test/v1", "kind": "Thing", "name": name, "controller": true,
        "uid": thing.metadata.uid,
    })
}

/// A Job of one pod on the test's node, with this in its spec.
pub(super) async fn with_job(what: &str, spec: Value) -> (TestEnvironment, String, Api<Job>) {
    let (env, nodes) = with_nodes(what, &["a"]).await;
    let mut job = json!({"metadata": {"name": "train"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"pool": env.namespace.name},
        "containers": [{"name": "c", "image": "i"}],
    }}}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    let jobs: Api<Job> = env.namespace.api();
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    let [node] = nodes.try_into().unwrap();
    until("the Job's pod", async || {
        let pods = env.pods_on(&node).await;
        Ok(pods.iter().any(is_ready).then_some(()))
    })
    .await;
    (env, node, jobs)
}

/// Waits until the Job of [`with_job`] has failed.
pub(super) async fn has_failed(jobs: &Api<Job>) {
    until("the Job to fail", async || {
        let status = jobs.get("train").await?.status.unwrap_or_default();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        Ok(conditions.find(|one| one.type_ == "Failed" && one.status == "True"))
    })
    .await;
}

/// kubernetes/kubernetes#106127: the cordoned node is a domain of the spread.
#[tokio::test]
pub(crate) async fn a_spread_that_counts_the_cordoned_node_is_foretold() {
    let (env, nodes) = with_nodes("spread", &["a", "b", "c"]).await;
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    let web = deployment(&env, "web", 3).pod_spec(spread);
    web.create_ready(&env.namespace, 3).await.unwrap();
    let budget = BudgetFixture::max_unavailable("web", "web", json!(1));
    budget.create_counted(&env.namespace, 3).await.unwrap();
    let node = nodes[0].as_str();
    let pod = planned(&env, node, "web").await;
    let why = pod["unschedulable"].as_str().unwrap();
    assert!(why.contains("topology spread"), "{why}");
    let output = env.drain(&[node, "--wait-ready", "--timeout=40s"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    said(&output, &["topology spread constraints", "is Pending: "]);
    let both = [node, &nodes[1], "--timeout=30s"];
    let output = env.drain(&both).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    said(&output, &["topology spread constraints"]);
    env.check_nodes(|node| nodes[..2].iter().any(|one| one == node))
        .await;
}

/// bucketeer-io/bucketeer#2609: a percentage, and a Job's pod that the budget selects too.
#[tokio::test]
pub(crate) async fn a_job_that_spoils_a_budget_is_waited_for() {
    let (env, nodes) = with_nodes("spoilt", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    deployment(&env, "api", 4)
        .create_ready(ns, 4)
        .await
        .unwrap();
    let other = env.node("b");
    add_node(&env, &other).await;
    let job = json!({
        "metadata": {"name": "nightly"},
        "spec": {"template": {
            "metadata": {"labels": {"app": "api"}},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "nodeSelector": {"kubernetes.io/hostname": other},
                "containers": [{"name": "c", "image": "i"}],
            },
        }},
    });
    let jobs: Api<Job> = ns.api();
    let job = serde_json::from_value(job).unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    wait_ready(ns, "api", 5).await.unwrap();
    let budget = BudgetFixture::max_unavailable("api", "api", json!("25%"));
    budget.create(ns).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = ns.api();
    until("the budget's verdict", async || {
        let status = budgets.get("api").await?.status.unwrap_or_default();
        let mut conditions = status.conditions.unwrap_or_default().into_iter();
        Ok(conditions.find(|one| one.reason == "SyncFailed"))
    })
    .await;
    let output = env.drain(&[node, "--timeout=30s"]).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    let mut drain = start(&env, &[node, "--timeout=5m"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    stderr.wait_for(&["without a scale (nightly-"]).await;
    let background = DeleteParams::background();
    jobs.delete("nightly", &background).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    assert_eq!(status, Some(0), "{}", stderr.text);
}

/// kelos-dev/kelos#522: an eviction ends the Job for good.
#[tokio::test]
pub(crate) async fn a_job_that_fails_for_good_is_foretold() {
    let (env, node, jobs) = with_job("job", json!({"backoffLimit": 0})).await;
    let node = node.as_str();
    let before = env.pods_on(node).await;
    let output = env.drain(&[node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    said(&output, &["backoffLimit is 0", "wait-completed"]);
    has_failed(&jobs).await;
    env.check(&before).await;
}

/// kubevirt/kubevirt#13523: a hotplug pod belongs to another pod, and goes with it.
#[tokio::test]
pub(crate) async fn a_pod_that_belongs_to_a_pod_goes_with_it() {
    let (env, nodes) = with_nodes("hotplug", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let machine = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm1",
        "uid": "1", "controller": true,
    });
    let launcher = PodFixture::new("virt-launcher").bound_to(node);
    let launcher = launcher.patch(json!({"metadata": {"ownerReferences": [machine]}}));
    let launcher = launcher.create(ns).await.unwrap();
    let plug = PodFixture::new("hp-volume").owned_by(&launcher);
    let volume = json!({"volumes": [{"name": "hotplug", "emptyDir": {}}]});
    let plug = plug.spec(volume).bound_to(node);
    plug.create(ns).await.unwrap();
    let before = env.pods_on(node).await;
    let output = env.drain(&[node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let evicted = env.evictions().await;
    let evicted: Vec<&str> = evicted.iter().map(AuditEvent::name).collect();
    assert_eq!(evicted, ["virt-launcher"]);
    env.check(&before).await;
}

/// loft-sh/vcluster#273: the pods of a tenant belong to a Service.
#[tokio::test]
pub(crate) async fn siblings_of_an_unknown_workload_go_one_after_the_other() {
    let (env, node) = environment_with_node("tenant").await;
    let ns = &env.namespace;
    let services: Api<Service> = ns.api();
    let service = json!({"metadata": {"name": "v"}, "spec": {"ports": [{"port": 443}]}});
    let service = serde_json::from_value(service).unwrap();
    let service = services.create(&PostParams::default(), &service).await;
    let service = service.unwrap();
    for i in 0..4 {
        let pod = PodFixture::new(&format!("shop-{i}")).owned_by(&service);
        let pod = pod.spec(json!({"terminationGracePeriodSeconds": 30}));
        pod.running_on(&node).create(ns).await.unwrap();
    }
    let before = env.pods_on(&node).await;
    let drain = start(&env, &[&node, "--timeout=5m"]);
    for sent in 1..=4 {
        let goes = until("a pod on its way", async || {
            let mut pods = env.pods_on(&node).await.into_iter();
            Ok(pods.find(|pod| pod.metadata.deletion_timestamp.is_some()))
        })
        .await;
        // The others would have followed by now.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(env.evictions().await.len(), sent);
        let now = DeleteParams::default().grace_period(0);
        let name = goes.metadata.name.unwrap();
        env.pods().delete(&name, &now).await.unwrap();
    }
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&before).await;
}

/// operator-framework/operator-lifecycle-manager#1514: the owner is no controller, and is named.
#[tokio::test]
pub(crate) async fn an_owner_that_is_no_controller_is_named() {
    let (env, nodes) = with_nodes("catalog", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let mut owner = unknown_owner(ns, env.plane, "community").await;
    owner["controller"] = json!(false);
    let pod = PodFixture::new("community-x").bound_to(node);
    let pod = pod.patch(json!({"metadata": {"ownerReferences": [owner]}}));
    pod.create(ns).await.unwrap();
    let output = env.drain(&[node]).await;
    assert_eq!(output.status, Some(4), "{}", output.stderr);
    said(&output, &["--force", "Thing community"]);
    env.check_nothing_written().await;
}

/// jaseci-labs/jac#7938: a budget that allows the only pod is no protection.
#[tokio::test]
pub(crate) async fn the_only_ready_pod_of_a_workload_is_named() {
    let budget = BudgetFixture::max_unavailable("shop", "shop", json!(1));
    let (env, node) = with_only_pod("only", "shop", budget).await;
    add_node(&env, &env.node("b")).await;
    let before = env.pods_on(&node).await;
    let output = env.drain(&[&node, "--timeout=5m"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    said(&output, &["nothing serves until its replacement is Ready"]);
    env.check(&before).await;
}

/// pingcap/tidb-operator#6912: a percentage over pods of a custom resource that has no scale.
#[tokio::test]
pub(crate) async fn a_budget_that_cannot_be_counted_is_refused_before_the_cordon() {
    let (env, nodes) = with_nodes("scaleless", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let owner = unknown_owner(ns, env.plane, "b").await;
    for i in 0..3 {
        let pod = PodFixture::new(&format!("tikv-{i}"))
            .app("tikv")
            .bound_to(node);
        let pod = pod.patch(json!({"metadata": {"ownerReferences": [owner]}}));
        pod.create(ns).await.unwrap();
    }
    let budget = BudgetFixture::max_unavailable("tikv", "tikv", json!(1));
    budget.create(ns).await.unwrap();
    let scaleless = "does not implement the scale subresource";
    // The disruption controller knows a new kind after half a minute, and looks when a pod changes.
    until("the budget's verdict", async || {
        let now = Timestamp::now().to_string();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"looked": now}}}));
        let how = PatchParams::default();
        env.pods().patch("tikv-0", &how, &patch).await?;
        let plan = env.drain(&[node, "--dry-run=client"]).await;
        Ok(plan.stderr.contains(scaleless).then_some(()))
    })
    .await;
    let output = env.drain(&[node]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    said(&output, &[scaleless, "minAvailable to a number"]);
    env.check_nothing_written().await;
}

/// A Deployment of a custom resource (Knative's Revision): a user's budget is judged as over any other.
#[tokio::test]
pub(crate) async fn a_budget_over_an_unknown_operators_deployment_never_allows() {
    let (env, nodes) = with_nodes("revision", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let owner = unknown_owner(ns, env.plane, "hello-00001").await;
    let hello = deployment(&env, "hello", 1);
    let hello = hello.patch(json!({"metadata": {"ownerReferences": [owner]}}));
    hello.create_ready(ns, 1).await.unwrap();
    let budget = BudgetFixture::min_available("hello", "hello", json!(1));
    budget.create_counted(ns, 1).await.unwrap();
    let output = env.drain(&[node]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    said(&output, &["/hello", "never allow"]);
    env.check_nothing_written().await;
    add_node(&env, &env.node("b")).await;
    let before = env.pods_on(node).await;
    let surge = [node, "--surge=restart", "--timeout=5m"];
    let output = env.drain(&surge).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    env.check(&before).await;
}

/// openshift/machine-api-operator#1066: two nodes at once would hold each other.
#[tokio::test]
pub(crate) async fn nodes_that_need_each_other_go_one_after_the_other() {
    let (env, nodes) = with_nodes("pair", &["a", "b", "c", "d"]).await;
    let ns = &env.namespace;
    let apart = json!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        }],
    }}});
    let x = deployment(&env, "x", 3).pod_spec(apart);
    x.create_ready(ns, 3).await.unwrap();
    let budget = BudgetFixture::max_unavailable("x", "x", json!(1));
    budget.create_counted(ns, 3).await.unwrap();
    let mut full = Vec::new();
    for node in &nodes {
        if !env.pods_on(node).await.is_empty() {
            full.push(node.as_str());
        }
    }
    let output = env
        .drain(&[full[0], full[1], "--concurrency=2", "--timeout=60s"])
        .await;
    // The fourth node takes the first pod; the second one has nowhere to go but the first node.
    said(&output, &["one node is drained at a time"]);
    assert_ne!(output.status, Some(7), "{}", output.stderr);
    env.check_nodes(|node| full.contains(&node)).await;
}

/// kubernetes-sigs/kubespray#10748: another pod has no place, so that a rollout would stay half-way.
#[tokio::test]
pub(crate) async fn a_surge_that_has_no_place_changes_nothing() {
    let (env, _) = with_nodes("no-place", &[]).await;
    let ns = &env.namespace;
    // Each has room for one of them.
    let (node, other) = (&*env.node("a"), env.node("b"));
    for name in [node, &other] {
        let large = NodeFixture::kwok(name).label("pool", &ns.name);
        let large = large.allocatable(json!({"cpu": "16", "memory": "8Gi", "pods": "110"}));
        large.create_schedulable(ns.client()).await.unwrap();
    }
    for name in ["dns", "big"] {
        let large = json!({"containers": [{
            "name": "main", "image": "i", "resources": {"requests": {"cpu": "10"}},
        }]});
        let large = deployment(&env, name, 1).pod_spec(large);
        large.create_ready(ns, 1).await.unwrap();
    }
    let pods = env.pods_on(node).await;
    let is_here = pods.iter().any(|pod| pod.name_any().starts_with("dns-"));
    let node = if is_here { node } else { &*other };
    let budget = BudgetFixture::min_available("dns", "dns", json!(1));
    budget.create_counted(ns, 1).await.unwrap();
    for words in [&["--dry-run=client"] as &[&str], &[]] {
        let words = [&[node, "--surge=restart"], words].concat();
        let output = env.drain(&words).await;
        assert_eq!(output.status, Some(7), "{}", output.stderr);
        let against = format!(
            "--surge does not help Deployment {}/dns: its replacement",
            ns.name
        );
        said(&output, &[&against]);
    }
    env.check_nothing_written().await;
}

/// kubernetes-sigs/karpenter#3013: the last rollout has not ended.
#[tokio::test]
pub(crate) async fn a_surge_into_a_broken_rollout_changes_nothing() {
    let budget = BudgetFixture::min_available("api", "api", json!(1));
    let (env, node) = with_only_pod("broken", "api", budget).await;
    let ns = &env.namespace;
    let deployments: Api<Deployment> = ns.api();
    // Nobody runs the new pod on this node, so that it is never Ready.
    let other = NodeFixture::new(&env.node("b")).label("pool", &ns.name);
    other.create_schedulable(ns.client()).await.unwrap();
    let broken = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
    let patch = Patch::Merge(broken);
    let how = PatchParams::default();
    let patched = deployments.patch("api", &how, &patch).await;
    patched.unwrap();
    until("a pod of the new rollout", async || {
        let status = deployments.get("api").await?.status;
        Ok(status.filter(|status| status.replicas == Some(2)))
    })
    .await;
    let output = env.drain(&[&node, "--surge=restart"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let against = format!(
        "--surge does not help Deployment {}/api: its last rollout is not complete",
        ns.name
    );
    said(&output, &[&against]);
    env.check_nothing_written().await;
}

/// aws/zone-aware-controllers-for-k8s#28, grafana/rollout-operator#194: a webhook that will allow soon.
#[tokio::test]
pub(crate) async fn a_webhook_that_will_allow_soon_is_asked_again() {
    for status in [403, 429] {
        let mut env = TestEnvironment::apart(Parts::All, &format!("soon-{status}")).await;
        let node = env.node("a");
        add_node(&env, &node).await;
        let ns = &env.namespace;
        deployment(&env, "ing", 1)
            .create_ready(ns, 1)
            .await
            .unwrap();
        let before = env.pods_on(&node).await;
        let reason = if status == 403 {
            "Forbidden"
        } else {
            "TooManyRequests"
        };
        let denial = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "admission webhook \"zones.example.com\" denied the request: zone b is down",
            "reason": reason, "code": status,
        });
        let fault = Fault::Answer {
            status,
            headers: Vec::new(),
            body: denial.to_string(),
        };
        let proxy = env.go_through_proxy();
        let rule = FaultRule::new(fault).method(Method::POST).path("/eviction");
        // What denies is asked again as long as the drain may take.
        proxy.fault(rule.times(if status == 403 { 4 } else { 2 }));
        let output = env.drain(&[&node, "--timeout=5m"]).await;
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        said(&output, &["zone b is down"]);
        env.check(&before).await;
    }
}

/// openshift/machine-api-operator#1066: what goes from either node has no place, and holds the other.
#[tokio::test]
pub(crate) async fn one_of_two_nodes_that_hold_each_other_is_finished() {
    let (env, nodes) = with_nodes("holding", &["a", "b", "c"]).await;
    let ns = &env.namespace;
    for app in ["x", "y"] {
        let apart = json!({"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": app}},
            }],
        }}});
        let workload = deployment(&env, app, 3).pod_spec(apart);
        workload.create_ready(ns, 3).await.unwrap();
        let budget = BudgetFixture::max_unavailable(app, app, json!(1));
        budget.create_counted(ns, 3).await.unwrap();
    }
    let both = &nodes[..2];
    let (first, second) = (&*both[0], &*both[1]);
    let words = [
        first,
        second,
        "--concurrency=2",
        "--timeout=40s",
        "-o",
        "json",
    ];
    let output = env.drain(&words).await;
    assert_eq!(output.status, Some(5), "{}", output.stderr);
    said(&output, &["one node is drained at a time"]);
    let report = env.report(&output).await;
    let drained = both.iter().filter(|node| report.is_drained(node)).count();
    assert_eq!(drained, 1, "{}", output.stderr);
    env.check_nodes(|node| both.iter().any(|one| one == node))
        .await;
}

/// Longhorn takes the budget of its csi-attacher away when no volume is attached any more.
#[tokio::test]
pub(crate) async fn a_budget_that_longhorn_lifts_is_waited_for() {
    let (env, nodes) = with_nodes("attacher", &["a"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let writer = deployment(&env, "writer", 1);
    writer.create_ready(ns, 1).await.unwrap();
    let labels = json!({"longhorn.io/managed-by": "longhorn-manager"});
    let attacher = deployment(&env, "csi-attacher", 1);
    let attacher = attacher.patch(json!({"spec": {"template": {"metadata": {"labels": labels}}}}));
    attacher.create_ready(ns, 1).await.unwrap();
    let budget = BudgetFixture::min_available("csi-attacher", "csi-attacher", json!(1));
    budget.create_counted(ns, 1).await.unwrap();
    let before = env.pods_on(node).await;
    let drain = start(&env, &[node, "--timeout=5m"]);
    until("the writer gone from a cordoned node", async || {
        let pods = env.pods_on(node).await;
        let is_used = pods.iter().any(|pod| pod.name_any().starts_with("writer-"));
        Ok((env.is_cordoned(node).await && !is_used).then_some(()))
    })
    .await;
    let budgets: Api<PodDisruptionBudget> = ns.api();
    let how = DeleteParams::default();
    budgets.delete("csi-attacher", &how).await.unwrap();
    let (status, stderr) = end(&env, drain).await;
    assert_eq!(status, Some(0), "{stderr}");
    env.check(&before).await;
}

/// A rollout moves no pod that is bound to its node.
#[tokio::test]
pub(crate) async fn a_surge_of_a_pod_that_is_bound_to_its_node_changes_nothing() {
    let (env, nodes) = with_nodes("bound", &["a", "b"]).await;
    let (ns, node) = (&env.namespace, nodes[0].as_str());
    let own = json!({"nodeSelector": {"kubernetes.io/hostname": node}});
    let web = deployment(&env, "web", 1).pod_spec(own);
    web.create_ready(ns, 1).await.unwrap();
    let budget = BudgetFixture::min_available("web", "web", json!(1));
    budget.create_counted(ns, 1).await.unwrap();
    let output = env.drain(&[node, "--surge=restart"]).await;
    assert_eq!(output.status, Some(7), "{}", output.stderr);
    let against = format!(
        "--surge does not help Deployment {}/web: its replacement",
        ns.name
    );
    said(&output, &[&against, "excluded by its node selector"]);
    env.check_nothing_written().await;
}
