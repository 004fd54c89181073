//! Tests of `audit` and `nodes` over several contexts, with an API server each.

use std::path::Path;
use std::process::Output;

use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::{ControlPlane, Identity, TestNamespace, port, program};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::json_schema;

const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// A cluster with a node and a pod, whose API server gives pods these seconds on a dead node.
async fn cluster(name: &str, seconds: &str) -> ControlPlane {
    let flag = format!("--default-unreachable-toleration-seconds={seconds}");
    let plane = ControlPlane::options()
        .api_server_flag(&flag)
        .start()
        .await
        .unwrap();
    let namespace = TestNamespace::create(&plane, "several").await.unwrap();
    let node = format!("{name}-1");
    let fixture = NodeFixture::new(&node).zone("a");
    fixture.create(namespace.client()).await.unwrap();
    let pod = PodFixture::new("pod").running_on(&node);
    pod.create(&namespace).await.unwrap();
    plane
}

/// One kubeconfig for all of them, and for a server that does not listen.
fn kubeconfig(planes: &[ControlPlane]) -> Value {
    let mut merged = json!({"apiVersion": "v1", "kind": "Config", "current-context": "alpha",
        "contexts": [], "clusters": [], "users": []});
    let mut add = |name: &str, mut config: Value| {
        for list in ["contexts", "clusters", "users"] {
            let mut entry = config[list][0].take();
            entry["name"] = json!(name);
            merged[list].as_array_mut().unwrap().push(entry);
        }
        let context = merged["contexts"].as_array_mut().unwrap().last_mut();
        context.unwrap()["context"] = json!({"cluster": name, "user": name});
    };
    for (name, plane) in NAMES.iter().zip(planes) {
        let text = plane.kubeconfig(&Identity::Admin).unwrap();
        add(name, serde_json::from_str(&text).unwrap());
    }
    let text = planes[0].kubeconfig(&Identity::Admin).unwrap();
    let mut dead: Value = serde_json::from_str(&text).unwrap();
    let closed = format!("https://127.0.0.1:{}", port::free().unwrap());
    dead["clusters"][0]["cluster"]["server"] = json!(closed);
    add("dead", dead);
    merged
}

async fn nodelife(kubeconfig: &Path, words: &[&str]) -> Output {
    Command::new(program::nodelife().unwrap())
        .args(words)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .await
        .unwrap()
}

fn faults(document: &Value, kind: &str) -> Vec<String> {
    let schema = match kind {
        "AuditReportList" => include_str!("../../../docs/schema/AuditReportList.json"),
        _ => include_str!("../../../docs/schema/NodesReportList.json"),
    };
    let schema = serde_json::from_str(schema).unwrap();
    assert_eq!(document["kind"], kind);
    json_schema::faults(document, &schema, kind)
}

#[tokio::test]
async fn a_dead_cluster_is_named_and_the_others_are_reported() {
    let planes = tokio::join!(
        cluster("alpha", "300"),
        cluster("beta", "30"),
        cluster("gamma", "300")
    );
    let planes = [planes.0, planes.1, planes.2];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig(&planes).to_string()).unwrap();

    let audit = nodelife(&path, &["audit", "--all-contexts", "-o", "json"]).await;
    let stderr = String::from_utf8(audit.stderr).unwrap();
    assert_eq!(audit.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: context dead: "), "{stderr}");
    let audit: Value = serde_json::from_slice(&audit.stdout).unwrap();
    assert_eq!(faults(&audit, "AuditReportList"), Vec::<String>::new());
    let clusters = audit["clusters"].as_array().unwrap();
    for (name, cluster) in NAMES.iter().zip(clusters) {
        assert_eq!(cluster["context"], *name);
        assert_eq!(cluster["report"]["input"]["context"], *name);
        assert_eq!(cluster["report"]["summary"]["nodes"], 1, "{cluster}");
        assert!(cluster["error"].is_null(), "{cluster}");
    }
    assert_eq!(clusters[3]["context"], "dead");
    assert!(clusters[3]["error"].is_string());
    assert_eq!(audit["summary"]["failed"], 1);
    let differences = audit["differences"].as_array().unwrap();
    let [difference] = differences.as_slice() else {
        panic!("{differences:#?}");
    };
    assert_eq!(difference["rule"], "NL-FLT-003");
    assert_eq!(difference["subject"]["name"], "beta");
    assert_eq!(
        difference["message"],
        "most pods tolerate an unreachable node for 30s; 300s in 2 of 3 clusters"
    );

    // Without the dead one: findings alone decide.
    let words = ["audit", "--context", "alpha,beta", "--rule", "FLT"];
    let table = nodelife(&path, &[&words[..], &["--fail-on", "warning"]].concat()).await;
    assert_eq!(table.status.code(), Some(3), "{table:?}");
    let stdout = String::from_utf8(table.stdout).unwrap();
    assert!(stdout.contains("NL-FLT-003"), "{stdout}");
    assert!(stdout.contains("context/alpha, beta"), "{stdout}");

    let nodes = nodelife(&path, &["nodes", "--all-contexts", "-o", "json"]).await;
    assert_eq!(nodes.status.code(), Some(1));
    let nodes: Value = serde_json::from_slice(&nodes.stdout).unwrap();
    assert_eq!(faults(&nodes, "NodesReportList"), Vec::<String>::new());
    for (name, cluster) in NAMES.iter().zip(nodes["clusters"].as_array().unwrap()) {
        let node = &cluster["report"]["nodes"][0]["name"];
        assert_eq!(*node, format!("{name}-1"), "{cluster}");
    }
    let table = nodelife(&path, &["nodes", "--context", "gamma,alpha"]).await;
    assert_eq!(table.status.code(), Some(0), "{table:?}");
    let stdout = String::from_utf8(table.stdout).unwrap();
    let place = |text: &str| {
        stdout
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {stdout}"))
    };
    assert!(place("Context gamma") < place("gamma-1"));
    assert!(place("gamma-1") < place("Context alpha"));
}
