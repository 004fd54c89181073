//! Tests of `kubectl nodelife drainable`: a drain does what was answered.

use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::{ControlPlane, kubectl, until};
use serde_json::{Value, json};

use super::support::{TestEnvironment, conforms};

/// The answers for these nodes.
async fn answers(env: &TestEnvironment, nodes: &[&str]) -> Vec<Value> {
    let words = [&["drainable", "-o", "json"], nodes].concat();
    let output = kubectl::run(env.nodelife(&words), "").await.unwrap();
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    conforms(&report, "DrainableReport");
    report["nodes"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_drain_ends_as_was_answered() {
    let env = TestEnvironment::new(ControlPlane::shared().await, "drainable").await;
    let (client, ns) = (env.namespace.client(), &env.namespace.name);
    let [yes, waits, needs, never] = ["yes", "waits", "needs", "never"].map(|name| env.node(name));
    let pool = |node: &str| json!({"nodeSelector": {"pool": node}});
    for (node, name) in [(&yes, "yes"), (&needs, "needs"), (&never, "never")] {
        let fixture = NodeFixture::kwok(node).label("pool", node);
        fixture.create_schedulable(client).await.unwrap();
        let mut spec = pool(node);
        if name == "needs" {
            spec["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
        }
        let workload = WorkloadFixture::deployment(name, 1).pod_spec(spec);
        workload.create_ready(&env.namespace, 1).await.unwrap();
    }
    // Its second pod has no place yet.
    let fixture = NodeFixture::kwok(&waits).label("pool", &waits);
    let fixture = fixture.allocatable(json!({"pods": "1"}));
    fixture.create_schedulable(client).await.unwrap();
    let workload = WorkloadFixture::deployment("waits", 2).pod_spec(pool(&waits));
    workload.create(&env.namespace).await.unwrap();
    for name in ["waits", "never"] {
        let budget = BudgetFixture::min_available(name, name, json!(1));
        budget.create_counted(&env.namespace, 1).await.unwrap();
    }
    let nodes = [&*never, &*needs, &*waits, &*yes];
    let answers = until("the answers", async || {
        let answers = answers(&env, &nodes).await;
        let words: Vec<&str> = answers
            .iter()
            .filter_map(|one| one["answer"].as_str())
            .collect();
        let all = words == ["yes", "waits", "needs", "never"];
        Ok(all.then(|| answers.clone()))
    })
    .await;
    let names: Vec<&str> = answers
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, [&*yes, &*waits, &*needs, &*never], "the worst last");
    let reason = |at: usize| answers[at]["reasons"][0].clone();
    let text = |reason: &Value, field: &str| reason[field].as_str().unwrap().to_owned();
    let blocked = text(&reason(1), "reason");
    let expected = format!("budget {ns}/waits blocks its pods until 1 more of its pods is Ready");
    assert!(blocked.starts_with(&expected), "{blocked}");
    assert_eq!(answers[2]["flags"], json!(["--delete-emptydir-data"]));
    let change = text(&reason(3), "change");
    assert!(
        change.ends_with(&format!("kubectl edit pdb never -n {ns}")),
        "{change}"
    );

    let mut before = Vec::new();
    for node in nodes {
        before.extend(env.pods_on(node).await);
    }
    let status = async |arguments: &[&str]| env.drain(arguments).await.status;
    assert_eq!(status(&[&yes]).await, Some(0));
    assert_eq!(status(&[&never]).await, Some(7));
    assert_eq!(
        status(&[&never, "--force", "--delete-emptydir-data"]).await,
        Some(7)
    );
    assert_eq!(status(&[&needs]).await, Some(4));
    assert_eq!(status(&[&needs, "--delete-emptydir-data"]).await, Some(0));
    assert_eq!(status(&[&waits, "--once"]).await, Some(5));
    let spare = NodeFixture::kwok(&env.node("spare")).label("pool", &waits);
    spare.create(client).await.unwrap();
    assert_eq!(status(&[&waits]).await, Some(0));
    env.check(&before).await;
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let mut env = TestEnvironment::new(ControlPlane::shared_api().await, "drainable-right").await;
    env.act_with(&[("read", "get,list,watch", "nodes,pods")])
        .await;
    let output = kubectl::run(env.nodelife(&["drainable"]), "")
        .await
        .unwrap();
    assert_eq!(output.status, Some(1), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("cannot tell whether nodes can be drained without disruption budgets: ")
            && output.stderr.contains("poddisruptionbudgets"),
        "{}",
        output.stderr
    );
}
