//! Tests of `kubectl nodelife audit` on a live cluster, with and without faults.

use std::collections::BTreeSet;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, PostParams};
use nodelife_tests::fixture::{
    BudgetCounts, BudgetFixture, NodeFixture, PodFixture, WorkloadFixture,
};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{Identity, Part, Parts, PlaneLease, TestNamespace, until};
use serde_json::{Value, json};

/// A finding: which rule, about what.
type Found = (String, String);

#[tokio::test]
async fn finds_each_planted_fault_and_none_on_a_healthy_cluster() {
    let plane = PlaneLease::take(Parts::All).await.unwrap();
    let kubectl = Kubectl::new(&plane, &Identity::Admin).unwrap();
    let namespace = TestNamespace::create(&plane, "shop").await.unwrap();
    build_healthy(&namespace).await;

    let (status, found) = audit(&kubectl).await;
    assert_eq!((status, found), (Some(0), BTreeSet::new()));

    // Nobody is to repair what is broken next, nor to react to it.
    plane.stop(Part::ControllerManager).await.unwrap();
    plane.stop(Part::Scheduler).await.unwrap();
    let expected = plant(&namespace).await;
    let found = until("all planted faults", async || {
        let (status, found) = audit(&kubectl).await;
        let missing: Vec<_> = expected.difference(&found).collect();
        anyhow::ensure!(
            missing.is_empty(),
            "{missing:?} are missing, exit status {status:?}; found: {found:?}"
        );
        assert_eq!(status, Some(3));
        Ok(Some(found))
    })
    .await;
    // What was healthy before still is.
    for healthy in ["node-a", "node-b", "node-c"] {
        assert!(
            !found.iter().any(|(_, subject)| subject == healthy),
            "{found:?}"
        );
    }
}

/// Three nodes in three zones with something reserved, and workloads under budgets.
async fn build_healthy(namespace: &TestNamespace) {
    for zone in ["a", "b", "c"] {
        ready_node(&format!("node-{zone}"), zone, namespace).await;
    }
    let web = WorkloadFixture::deployment("web", 3).pod_spec(spread("web"));
    web.create_ready(namespace, 3).await.unwrap();
    let db = WorkloadFixture::stateful_set("db", 2).pod_spec(spread("db"));
    db.create_ready(namespace, 2).await.unwrap();
    WorkloadFixture::daemon_set("agent")
        .create_ready(namespace, 3)
        .await
        .unwrap();
    BudgetFixture::min_available("web", "web", json!(2))
        .create_counted(namespace, 3)
        .await
        .unwrap();
    BudgetFixture::max_unavailable("db", "db", json!(1))
        .create_counted(namespace, 2)
        .await
        .unwrap();
}

/// One replica a node.
fn spread(app: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }]})
}

async fn ready_node(name: &str, zone: &str, namespace: &TestNamespace) {
    kwok(name, zone).create(namespace.client()).await.unwrap();
}

fn kwok(name: &str, zone: &str) -> NodeFixture {
    NodeFixture::kwok(name)
        .zone(zone)
        .allocatable(json!({"cpu": "3800m", "memory": "14Gi"}))
}

fn plain(name: &str, zone: &str) -> NodeFixture {
    NodeFixture::new(name)
        .zone(zone)
        .allocatable(json!({"cpu": "3800m", "memory": "14Gi"}))
}

/// Runs the audit and gives its exit status and what it found.
async fn audit(kubectl: &Kubectl) -> (Option<i32>, BTreeSet<Found>) {
    // Advice of the severity info is no fault.
    let arguments = [
        "nodelife",
        "audit",
        "-o",
        "json",
        "--severity",
        "warning",
        "--fail-on",
        "warning",
        // Support for the older versions has ended.
        "--skip-rule",
        "NL-VER-003",
    ];
    let output = kubectl.run(arguments).await.unwrap();
    let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {:?}\n{}\n{}",
            output.status, output.stdout, output.stderr
        )
    });
    assert_eq!(report["kind"], "AuditReport");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap();
    let found = findings
        .iter()
        .map(|one| (text(&one["rule"]), text(&one["subject"]["name"])))
        .collect();
    (output.status, found)
}

/// Plants a fault of each kind and gives what is to be found.
async fn plant(namespace: &TestNamespace) -> BTreeSet<Found> {
    let mut expected = BTreeSet::new();
    let mut expect = |rule: &str, subject: &str| {
        expected.insert((rule.to_owned(), subject.to_owned()));
    };
    plant_nodes(namespace, &mut expect).await;
    plant_pods(namespace, &mut expect).await;
    plant_budgets(namespace, &mut expect).await;
    expected
}

async fn plant_nodes(namespace: &TestNamespace, expect: &mut impl FnMut(&str, &str)) {
    let client = namespace.client();
    let create = async |node: NodeFixture| node.create(client).await.unwrap();

    let unlabelled = json!({"metadata": {"labels": {
        "topology.kubernetes.io/zone": null, "topology.kubernetes.io/region": null,
    }}});
    create(kwok("without-zone", "a").patch(unlabelled)).await;
    expect("NL-LBL-001", "without-zone");

    create(kwok("nothing-reserved", "a").allocatable(json!({"cpu": "4", "memory": "16Gi"}))).await;
    expect("NL-RES-001", "nothing-reserved");

    create(plain("stale-lease", "b")).await;
    lease("stale-lease", SignedDuration::from_mins(10), namespace).await;
    expect("NL-HB-001", "stale-lease");

    // All of the zone d: it is disrupted as well.
    create(plain("lost", "d").patch(ready_is("Unknown", "NodeStatusUnknown"))).await;
    expect("NL-HB-002", "lost");
    create(plain("broken", "d").patch(ready_is("False", "KubeletNotReady"))).await;
    lease("broken", SignedDuration::ZERO, namespace).await;
    expect("NL-HB-003", "broken");
    expect("NL-ZON-001", "test/d");

    // No taint follows from the condition: who would set it is stopped.
    let pressed = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady"},
        {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure",
         "lastTransitionTime": ago(SignedDuration::from_mins(10))},
    ]}});
    create(plain("pressed", "b").patch(pressed)).await;
    lease("pressed", SignedDuration::ZERO, namespace).await;
    expect("NL-TNT-001", "pressed");

    let cordoned = json!({"spec": {"unschedulable": true, "taints": [{
        "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
        "timeAdded": ago(SignedDuration::from_hours(2)),
    }]}});
    create(kwok("half-drained", "b").patch(cordoned)).await;
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "left", "uid": "left", "controller": true,
    }]}});
    PodFixture::new("left")
        .patch(owner)
        .running_on("half-drained")
        .create(namespace)
        .await
        .unwrap();
    expect("NL-OPS-002", "half-drained");

    let twin = json!({
        "spec": {"providerID": "test:///a/i-1"},
        "status": {
            "nodeInfo": {"machineID": "11111111111111111111111111111111"},
            "addresses": [{"type": "InternalIP", "address": "10.9.9.9"}],
        },
    });
    create(kwok("twin-1", "a").patch(twin.clone())).await;
    create(kwok("twin-2", "a").patch(twin)).await;
    for rule in ["NL-REG-001", "NL-REG-003", "NL-REG-004"] {
        expect(rule, "twin-1");
    }
}

async fn plant_pods(namespace: &TestNamespace, expect: &mut impl FnMut(&str, &str)) {
    let create = async |pod: PodFixture| pod.create(namespace).await.unwrap();

    kwok("crowded", "c")
        .allocatable(json!({"pods": "2"}))
        .create(namespace.client())
        .await
        .unwrap();
    let greedy = json!({"containers": [{
        "name": "main", "image": "registry.test/pause:1", "resources": {"requests": {"cpu": "3"}},
    }]});
    create(
        PodFixture::new("greedy-1")
            .spec(greedy.clone())
            .bound_to("crowded"),
    )
    .await;
    create(PodFixture::new("greedy-2").spec(greedy).bound_to("crowded")).await;
    expect("NL-CAP-001", "crowded");
    expect("NL-CAP-005", "crowded");

    let for_ever = json!({"tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    ]});
    create(
        PodFixture::new("for-ever")
            .spec(for_ever)
            .bound_to("node-a"),
    )
    .await;
    expect("NL-TOL-001", "for-ever");

    let odd = json!({"tolerations": [{
        "key": "node.kubernetes.io/not-ready", "operator": "Equal", "value": "true",
        "effect": "NoExecute", "tolerationSeconds": 300,
    }]});
    create(
        PodFixture::new("odd-toleration")
            .spec(odd)
            .bound_to("node-a"),
    )
    .await;
    expect("NL-TOL-006", "odd-toleration");

    create(PodFixture::new("stray").bound_to("no-such-node")).await;
    expect("NL-POD-001", "stray");
}

async fn plant_budgets(namespace: &TestNamespace, expect: &mut impl FnMut(&str, &str)) {
    let two = BudgetCounts {
        expected: 2,
        healthy: 2,
        desired: 2,
        allowed: 0,
    };
    let never = BudgetFixture::max_unavailable("never", "greedy-1", json!(0));
    never.create_with_status(namespace, two).await.unwrap();
    expect("NL-PDB-001", "never");

    for name in ["one-of-two", "two-of-two"] {
        let one = BudgetCounts {
            expected: 1,
            healthy: 1,
            desired: 0,
            allowed: 1,
        };
        let budget = BudgetFixture::max_unavailable(name, "for-ever", json!(1));
        budget.create_with_status(namespace, one).await.unwrap();
    }
    expect("NL-PDB-002", "one-of-two");

    let none = BudgetCounts {
        expected: 0,
        healthy: 0,
        desired: 0,
        allowed: 0,
    };
    let empty = BudgetFixture::max_unavailable("empty", "nobody", json!(1));
    empty.create_with_status(namespace, none).await.unwrap();
    expect("NL-PDB-003", "empty");
}

fn ready_is(status: &str, reason: &str) -> Value {
    let since = ago(SignedDuration::from_mins(10));
    json!({"status": {"conditions": [{
        "type": "Ready", "status": status, "reason": reason, "message": reason,
        "lastHeartbeatTime": since, "lastTransitionTime": since,
    }]}})
}

fn ago(time: SignedDuration) -> String {
    let second = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (second - time).to_string()
}

/// Gives a node a Lease that was renewed some time ago.
async fn lease(node: &str, age: SignedDuration, namespace: &TestNamespace) {
    let leases: Api<Lease> = Api::namespaced(namespace.client().clone(), "kube-node-lease");
    let renewed = format!("{:.6}", Timestamp::now() - age);
    let lease = serde_json::from_value(json!({
        "metadata": {"name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": renewed},
    }));
    leases
        .create(&PostParams::default(), &lease.unwrap())
        .await
        .unwrap();
}
