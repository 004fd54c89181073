//! Tests of `kubectl nodelife nodes` on a live cluster.

use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::{ControlPlane, Identity, TestNamespace, until};
use serde_json::{Value, json};

use crate::json_schema;

/// A pod that requests so much, in its container, a sidecar, its init container and its overhead.
fn asking(name: &str, node: &str) -> PodFixture {
    let container = |name: &str, cpu: &str, memory: &str| {
        json!({"name": name, "image": "example.com/image", "resources": {
            "requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory},
        }})
    };
    let mut sidecar = container("sidecar", "50m", "64Mi");
    sidecar["restartPolicy"] = json!("Always");
    PodFixture::new(name)
        .spec(json!({
            "containers": [container("main", "100m", "128Mi")],
            "initContainers": [container("init", "300m", "32Mi"), sidecar],
        }))
        .running_on(node)
}

/// The report without what passes by itself: its time, and ages in messages.
fn steady(mut report: Value) -> Value {
    report["takenAt"].take();
    for row in report["nodes"].as_array_mut().unwrap() {
        if let Some(finding) = row.get_mut("finding") {
            finding["message"].take();
        }
    }
    report
}

#[tokio::test]
async fn live_nodes_equal_those_of_a_snapshot() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "nodes").await.unwrap();
    let names: Vec<String> = (1..=2)
        .map(|number| format!("{}-{number}", namespace.name))
        .collect();
    for name in &names {
        let node = NodeFixture::new(name).zone("a");
        node.create(namespace.client()).await.unwrap();
    }
    for (number, node) in [(1, &names[0]), (2, &names[0]), (3, &names[1])] {
        let pod = asking(&format!("pod-{number}"), node);
        pod.create(&namespace).await.unwrap();
    }
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json.gz");
    let file = file.to_str().unwrap();
    let report = async |more: &[&str]| {
        let words = ["nodelife", "nodes", &names[0], &names[1], "-o", "json"];
        let output = kubectl.run(words.iter().chain(more)).await.unwrap();
        serde_json::from_str::<Value>(&output.success().unwrap()).unwrap()
    };
    // Other tests change the same cluster; a finding may depend on their nodes.
    let live = until("two equal reports", async || {
        let before = steady(report(&[]).await);
        let words = ["nodelife", "snapshot", "-o", file];
        kubectl.run(words).await?.success()?;
        let after = report(&[]).await;
        Ok((before == steady(after.clone())).then_some(after))
    })
    .await;
    assert_eq!(steady(report(&["-f", file]).await), steady(live.clone()));

    let schema = include_str!("../../../docs/schema/NodesReport.json");
    let schema = serde_json::from_str(schema).unwrap();
    let faults = json_schema::faults(&live, &schema, "NodesReport");
    assert!(faults.is_empty(), "{faults:#?}");
    let row = &live["nodes"][0];
    assert_eq!(
        (&row["name"], &row["state"]),
        (&json!(names[0]), &json!("Ready"))
    );
    // 300m while the init container runs; 128Mi and the sidecar's 64Mi afterwards; twice each.
    assert_eq!(row["cpu"]["requests"], "600m");
    assert_eq!(row["memory"]["requests"], "384Mi");
    assert_eq!(row["memory"]["limits"], "384Mi");
    assert_eq!(row["pods"], json!({"allocatable": 110, "count": 2}));
    assert_eq!(live["total"]["cpu"]["requests"], "900m");
}

#[tokio::test]
async fn a_named_node_says_who_cordoned_it() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "cordoned").await.unwrap();
    let node = format!("{}-node", namespace.name);
    let fixture = NodeFixture::new(&node);
    fixture.create(namespace.client()).await.unwrap();
    let kubectl = Kubectl::new(plane, &Identity::Admin).unwrap();
    let run = async |words: &[&str]| kubectl.run(words).await.unwrap();
    let told = async || run(&["nodelife", "nodes", &node]).await.stderr;
    assert!(!told().await.contains("cordoned by"));
    run(&["cordon", &node]).await.success().unwrap();
    let by = format!("node/{node} was cordoned by kubectl at 20");
    assert!(told().await.contains(&by), "{}", told().await);
    run(&["uncordon", &node]).await.success().unwrap();
    assert!(!told().await.contains("cordoned by"));
    run(&["nodelife", "drain", &node]).await.success().unwrap();
    let user = [
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ];
    let user = run(&user).await.success().unwrap();
    let by = format!("node/{node} was cordoned by {user} at 20");
    assert!(told().await.contains(&by), "{}", told().await);
}

#[tokio::test]
async fn the_right_to_list_nodes_and_pods_is_enough() {
    let plane = ControlPlane::shared_api().await;
    let namespace = TestNamespace::create(plane, "nodes-rights").await.unwrap();
    let name = format!("{}-node", namespace.name);
    let node = NodeFixture::new(&name);
    node.create(namespace.client()).await.unwrap();
    asking("web", &name).create(&namespace).await.unwrap();
    let admin = Kubectl::new(plane, &Identity::Admin).unwrap();
    let user = format!("{}-user", namespace.name);
    let grant = async |resource: &str| {
        let role = format!("{user}-{resource}");
        let resource = format!("--resource={resource}");
        let create = ["create", "clusterrole", &role, "--verb=list", &resource];
        admin.run(create).await.unwrap().success().unwrap();
        let (of, to) = (format!("--clusterrole={role}"), format!("--user={user}"));
        let bind = ["create", "clusterrolebinding", &role, &of, &to];
        admin.run(bind).await.unwrap().success().unwrap();
    };
    let identity = Identity::User {
        name: user.clone(),
        groups: Vec::new(),
    };
    let kubectl = Kubectl::new(plane, &identity).unwrap();
    let words = ["nodelife", "nodes", &name, "-o", "json"];
    let refused = kubectl.run(words).await.unwrap();
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("kubectl auth can-i list nodes"),
        "{}",
        refused.stderr
    );
    // The authorizer learns of a role a moment later.
    let shown = async |resource: &str, is_shown: fn(&Value) -> bool| {
        grant(resource).await;
        let what = format!("the report with the right to list {resource}");
        until(&what, async || {
            let output = kubectl.run(words).await?;
            let Ok(report) = serde_json::from_str::<Value>(&output.stdout) else {
                return Ok(None);
            };
            Ok(is_shown(&report["nodes"][0]).then_some((report, output.stderr)))
        })
        .await
    };
    let (report, stderr) = shown("nodes", |_| true).await;
    assert_eq!(report["nodes"][0]["cpu"], json!({"allocatable": "4"}));
    assert!(stderr.contains("kubectl auth can-i list pods"), "{stderr}");
    let (report, stderr) = shown("pods", |row| row["cpu"]["requests"].is_string()).await;
    assert_eq!(report["nodes"][0]["cpu"]["requests"], "300m");
    assert_eq!(stderr.lines().count(), 1, "one note: {stderr}");
    assert!(stderr.starts_with("findings are of "), "{stderr}");
    // Whether a node can be drained is not known without budgets.
    let words = ["nodelife", "nodes", &name, "-o", "wide"];
    for (kubectl, is_known) in [(&kubectl, false), (&admin, true)] {
        let output = kubectl.run(words).await.unwrap();
        assert_eq!(output.status, Some(0), "{}", output.stderr);
        let has_column = output.stdout.contains("DRAINABLE");
        assert_eq!(has_column, is_known, "{}", output.stdout);
    }
}
