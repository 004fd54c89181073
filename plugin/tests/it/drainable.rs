//! Tests of `drainable -f`.

use std::fs;

use serde_json::{Value, json};

use crate::drain::DRAIN;
use crate::{nodelife, root, run, show, stdout};

#[test]
fn each_node_has_an_answer_and_a_next_command() {
    insta::assert_snapshot!(run(&["drainable", "-f", "examples/faulty-cluster.json"]));
}

#[test]
fn only_nodes_that_can_be_drained_are_named() {
    let names = stdout(
        &[
            "drainable",
            "-f",
            "examples/faulty-cluster.json",
            "-o",
            "name",
        ],
        0,
    );
    assert_eq!(
        names,
        "node/ip-10-0-16-28-old.eu-central-1.compute.internal\n"
    );
}

#[test]
fn a_selector_that_matches_nothing_prints_no_table() {
    for command in ["drainable", "nodes"] {
        let text = run(&[command, "-l", "no=node", "-f", DRAIN]);
        let empty = "status: 0\n--- stdout\n--- stderr\nno nodes found\n";
        assert!(text.starts_with(empty), "{text}");
        assert!(!text.contains("findings"), "{text}");
    }
}

/// Without them a yes would be a guess.
#[test]
fn without_budgets_there_is_no_answer() {
    let file = fs::read_to_string(root().join(DRAIN)).unwrap();
    let (before, rest) = file.split_once("\nbudgets:\n").unwrap();
    let (_, after) = rest.split_once("\nworkloads:\n").unwrap();
    let why = "missing: {budgets: 'not allowed to list poddisruptionbudgets.policy'}";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unseen.yaml");
    fs::write(&path, format!("{before}\n{why}\nworkloads:\n{after}")).unwrap();
    let output = nodelife(&["drainable", "-f", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(
        show(&output),
        "status: 1\n--- stdout\n--- stderr\nerror: cannot tell whether nodes can be drained without \
         disruption budgets: not allowed to list poddisruptionbudgets.policy\n"
    );
}

/// Every node of the file gets the answer that a plan of a drain of it alone gives.
#[test]
fn the_answers_are_those_of_the_plans() {
    for file in [
        DRAIN,
        "examples/faulty-cluster.json",
        "examples/healthy-cluster.json",
    ] {
        let report: Value =
            serde_json::from_str(&stdout(&["drainable", "-f", file, "-o", "json"], 0)).unwrap();
        for node in report["nodes"].as_array().unwrap() {
            let name = node["name"].as_str().unwrap();
            let flags = node["flags"].as_array().cloned().unwrap_or_default();
            let words: Vec<&str> = flags.iter().filter_map(Value::as_str).collect();
            let status = |flags: &[&str]| {
                let words = [&["drain", name, "-f", file, "-o", "json"], flags].concat();
                let output = nodelife(&words).output().unwrap();
                (
                    output.status.code(),
                    serde_json::from_slice::<Value>(&output.stdout).unwrap(),
                )
            };
            let (bare, _) = status(&[]);
            let (allowed, plan) = status(&words);
            let waits = plan["noEstimate"].as_array().is_some_and(|why| {
                why.iter()
                    .any(|why| !why.as_str().unwrap().starts_with("nothing tells"))
            });
            let answer = match (bare, allowed) {
                (_, Some(7)) => "never",
                (Some(4), Some(0 | 5)) => "needs",
                (Some(5), Some(5)) => "waits",
                (Some(0), Some(0)) if waits => "waits",
                (Some(0), Some(0)) => "yes",
                other => panic!("{file} {name}: {other:?}"),
            };
            assert_eq!(node["answer"], answer, "{file} {name}: {node:#}");
            assert_eq!(node["estimate"], plan["estimate"], "{file} {name}");
            if answer != "never" {
                let evicted = plan["pods"].as_array().unwrap().iter();
                let evicted = evicted.filter(|pod| pod["action"] == "evict").count();
                assert_eq!(node["pods"], json!(evicted), "{file} {name}");
            }
        }
    }
}

/// A file with a node for each of these pods, which one Deployment's ReplicaSet owns unless a pod says otherwise.
fn scene(pods: &[(&str, Value)]) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}]);
    let mut items = vec![
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 1},
               "metadata": {"name": "web", "namespace": "shop", "uid": "web"}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
               "metadata": {"name": "guard", "namespace": "shop", "generation": 1},
               "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}},
               "status": {"observedGeneration": 1, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1,
                          "disruptionsAllowed": 0}}),
        // Without one of another namespace the file would not have all pods.
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "dns", "namespace": "kube-system", "uid": "dns"}}),
    ];
    for (name, changes) in pods {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        items.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name},
                          "status": {"conditions": ready, "allocatable": {"pods": "110", "cpu": "4", "memory": "8Gi"}}}));
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": name}, "ownerReferences": owner},
            "spec": {"nodeName": name, "containers": [{"name": "c"}], "terminationGracePeriodSeconds": 30},
            "status": {"phase": "Running", "conditions": ready}});
        for (pointer, value) in changes.as_object().into_iter().flatten() {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        items.push(pod);
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// The rows of docs/drainers.md.
#[test]
fn each_drainer_has_answers_of_its_own() {
    let file = scene(&[
        ("plain", json!({})),
        ("lone", json!({"/metadata/ownerReferences": []})),
        (
            "data",
            json!({"/spec/volumes": [{"name": "cache", "emptyDir": {}}]}),
        ),
        ("guarded", json!({})),
        (
            "protected",
            json!({"/metadata/annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
        ),
        ("slow", json!({"/spec/terminationGracePeriodSeconds": 5400})),
        (
            "skipped",
            json!({"/metadata/labels": {"app": "guarded", "cluster.x-k8s.io/drain": "skip"}}),
        ),
        (
            "daemon",
            json!({"/metadata/ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet",
            "name": "agent", "uid": "agent", "controller": true}]}),
        ),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scene.json");
    fs::write(&path, file.to_string()).unwrap();
    let mut lines = Vec::new();
    for by in [
        "eks",
        "eks=2h",
        "gke",
        "aks",
        "karpenter",
        "karpenter=1h",
        "cluster-autoscaler",
        "cluster-api",
        "cluster-api=10m",
        "kubectl",
        "kubectl=1m",
    ] {
        let words = [
            "drainable",
            "-o",
            "json",
            "-f",
            path.to_str().unwrap(),
            "--by",
            by,
        ];
        let report: Value = serde_json::from_str(&stdout(&words, 0)).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let rows = list(&report["nodes"]).into_iter().map(|node| {
            let flags = list(&node["flags"]).iter().map(text).collect::<Vec<_>>();
            let said = |one: &Value| format!("{}: {}", text(&one["answer"]), text(&one["reason"]));
            let reasons = list(&node["reasons"]).iter().map(said).collect::<Vec<_>>();
            let warnings = list(&node["warnings"]).iter().map(text).collect::<Vec<_>>();
            let why = [flags, reasons, warnings].concat().join("; ");
            format!("  {} {}: {why}", text(&node["answer"]), text(&node["name"]))
        });
        lines.push(format!("{by} {}", report["by"]));
        lines.extend(rows);
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn an_unknown_drainer_is_refused_with_those_that_are_known() {
    let text = run(&["drainable", "--by", "openshift", "-f", DRAIN]);
    let expected =
        "expected one of eks, gke, aks, karpenter, cluster-autoscaler, cluster-api, kubectl";
    assert!(
        text.starts_with("status: 2\n") && text.contains(expected),
        "{text}"
    );
}
