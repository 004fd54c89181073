//! Inputs that have a part of a cluster, or nodes without status: not read is not zero.

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::{run, stdout};

fn node(name: &str, ready: Option<&str>, spec: &Value) -> Value {
    let conditions = ready.map(|status| {
        json!({"type": "Ready", "status": status, "lastHeartbeatTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2025-12-01T00:00:00Z",
            "labels": {"topology.kubernetes.io/zone": format!("z{name}"),
                "topology.kubernetes.io/region": "r", "node-role.kubernetes.io/worker": ""}},
        "spec": spec,
        "status": {"conditions": Vec::from_iter(conditions), "nodeInfo": {},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}})
}

fn pod(namespace: &str, name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"}})
}

struct Input(NamedTempFile);

impl Input {
    fn new(document: &Value) -> Self {
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        std::fs::write(file.path(), document.to_string()).unwrap();
        Self(file)
    }

    fn list(items: &[Value]) -> Self {
        Self::new(&json!({"apiVersion": "v1", "kind": "List", "items": items}))
    }

    fn run(&self, words: &[&str]) -> String {
        run(&[words, &["-f", self.0.path().to_str().unwrap()]].concat())
    }

    fn rules(&self) -> Vec<String> {
        let path = self.0.path().to_str().unwrap();
        let words = ["audit", "-f", path, "-o", "json", "--fail-on", "never"];
        let report: Value = serde_json::from_str(&stdout(&words, 0)).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| finding["rule"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// As `kubectl get nodes,pods` without -A: the pods of the pool's own namespace are not there.
#[test]
fn pods_of_one_namespace_make_no_node_empty() {
    let cordoned = json!({"unschedulable": true, "taints": [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
         "timeAdded": "2025-12-20T00:00:00Z"}]});
    let pool = json!({"taints": [{"key": "pool", "value": "db", "effect": "NoSchedule"}]});
    let nodes = [
        node("a", Some("True"), &json!({})),
        node("b", Some("True"), &cordoned),
        node("c", Some("True"), &pool),
    ];
    let pods = [pod("shop", "web-1", "a"), pod("shop", "web-2", "a")];
    let part = Input::list(&[nodes.as_slice(), &pods].concat());
    let found = part.rules();
    for rule in ["NL-OPS-001", "NL-TNT-006"] {
        assert!(!found.contains(&rule.to_owned()), "{found:?}");
    }
    assert!(found.contains(&"NL-PDB-005".to_owned()), "{found:?}");
    let reason = "the input has only the pods of shop; add `kubectl get pods -A -o json`";
    assert!(part.run(&["nodes"]).contains(reason));
    assert!(
        part.run(&["audit"])
            .contains(" need pods of all namespaces")
    );
    let plan = |node| part.run(&["drain", node, "--dry-run=client"]);
    let known = plan("a");
    assert!(known.starts_with("status: 4\n"), "{known}");
    assert!(
        known.contains(&format!(
            "the plan lacks pods of other namespaces: {reason}"
        )),
        "{known}"
    );
    let plan = plan("b");
    assert!(plan.starts_with("status: 1\n"), "{plan}");
    let refused = format!("cannot plan for node/b without pods of all namespaces: {reason}");
    assert!(plan.contains(&refused), "{plan}");

    let all = [nodes.as_slice(), &pods, &[pod("kube-system", "dns", "a")]].concat();
    let found = Input::list(&all).rules();
    for rule in ["NL-OPS-001", "NL-TNT-006"] {
        assert!(found.contains(&rule.to_owned()), "{found:?}");
    }
}

#[test]
fn some_nodes_are_no_cluster_for_zones() {
    let tainted = json!({"taints": [{"key": "node.kubernetes.io/unreachable",
        "effect": "NoExecute", "timeAdded": "2026-01-01T00:01:00Z"}]});
    let lost = node("a", Some("Unknown"), &tainted);
    for input in [Input::new(&lost), Input::list(&[lost])] {
        let found = input.rules();
        assert!(found.contains(&"NL-HB-002".to_owned()), "{found:?}");
        assert!(
            !found.iter().any(|rule| rule.starts_with("NL-ZON")),
            "{found:?}"
        );
        let zones = input.run(&["explain", "zones"]);
        assert!(zones.starts_with("status: 1\n"), "{zones}");
        assert!(
            zones.contains("cannot judge zones without all their nodes"),
            "{zones}"
        );
    }
}

#[test]
fn the_next_command_about_a_dead_node_needs_no_pods() {
    let tainted = json!({"taints": [{"key": "node.kubernetes.io/unreachable",
        "effect": "NoExecute", "timeAdded": "2026-01-01T00:01:00Z"}]});
    let lost = node("a", Some("Unknown"), &tainted);
    let input = Input::list(&[lost, node("b", Some("True"), &json!({}))]);
    let audit = input.run(&["audit"]);
    assert!(
        audit.contains("next: kubectl nodelife explain failure a -f "),
        "{audit}"
    );
    let timeline = input.run(&["explain", "failure", "a"]);
    assert!(timeline.starts_with("status: 0\n"), "{timeline}");
    assert!(
        timeline.contains("taint unreachable:NoExecute"),
        "{timeline}"
    );
    // No time says when: it has happened by now.
    let mut lost = node("a", Some("Unknown"), &tainted);
    lost["status"]["conditions"] = json!([{"type": "Ready", "status": "Unknown"}]);
    lost["spec"]["taints"][0]
        .as_object_mut()
        .unwrap()
        .remove("timeAdded");
    let input = Input::list(&[lost, node("b", Some("True"), &json!({}))]);
    let timeline = input.run(&["explain", "failure", "a"]);
    assert!(
        timeline.contains("node/a has failed, since when is not known"),
        "{timeline}"
    );
    assert!(
        timeline.contains("\n0s      taint unreachable:NoExecute"),
        "{timeline}"
    );
}

#[test]
fn nodes_without_status_are_unknown_and_in_no_sum() {
    let stripped = |name: &str| {
        let mut node = node(name, None, &json!({}));
        node["status"] = json!({});
        node
    };
    let all = Input::list(&["a", "b", "c", "d", "e"].map(stripped));
    assert_eq!(all.rules(), [""; 0]);
    let zones = all.run(&["explain", "zones"]);
    assert!(
        zones.contains("\nr/za   0 (+1 unknown)   0       -       -          0        -  "),
        "{zones}"
    );
    assert!(!zones.contains("full disruption:"), "{zones}");
    let nodes = all.run(&["nodes"]);
    assert!(nodes.contains("total (5)   - Ready"), "{nodes}");
    let note = "the input has no status of 5 nodes, so whether they are ready is not known: a, b";
    assert!(nodes.contains(note), "{nodes}");
    assert!(all.run(&["audit"]).contains(note));

    let some = Input::list(&[stripped("a"), node("b", Some("True"), &json!({}))]);
    assert!(some.run(&["nodes"]).contains("total (2)   1/1 Ready"));
}
