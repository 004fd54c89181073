//! Large clusters: what is left on the screen.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::pty::all_on_terminal;
use crate::{root, stdout};

/// A healthy cluster of `nodes` nodes in two pools and three zones, without pods.
fn fleet(nodes: usize, change: impl Fn(usize, &mut Value)) -> Value {
    let healthy = fs::read_to_string(root().join("examples/healthy-cluster.json")).unwrap();
    let mut snapshot: Value = serde_json::from_str(&healthy).unwrap();
    let template = snapshot["nodes"][0].clone();
    let lease = snapshot["leases"][0].clone();
    let old = template["metadata"]["name"].as_str().unwrap().to_owned();
    let (mut all, mut leases) = (Vec::new(), Vec::new());
    for i in 0..nodes {
        let (pool, zone) = (["general", "batch"][i % 2], ["a", "b", "c"][i % 3]);
        let ip = format!("10.{}.{}.{}", i / 65_536, i / 256 % 256, i % 256);
        let name = format!("ip-{}.eu-central-1.compute.internal", ip.replace('.', "-"));
        let renamed = |value: &Value| -> Value {
            let text = value.to_string().replace(&old, &name);
            serde_json::from_str(&text).unwrap()
        };
        let mut node = renamed(&template);
        node["metadata"]["uid"] = json!(format!("uid-{i}"));
        node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] = json!(pool);
        let zone = format!("eu-central-1{zone}");
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!(zone);
        node["spec"]["providerID"] = json!(format!("aws:///{zone}/i-{i:017x}"));
        node["status"]["addresses"][0]["address"] = json!(ip);
        let info = &mut node["status"]["nodeInfo"];
        info["machineID"] = json!(format!("{i:032x}"));
        info["systemUUID"] = json!(format!("00000000-0000-0000-0000-{i:012x}"));
        info["bootID"] = json!(format!("00000000-0000-0000-0001-{i:012x}"));
        change(i, &mut node);
        all.push(node);
        let mut lease = renamed(&lease);
        lease["metadata"]["ownerReferences"][0]["uid"] = json!(format!("uid-{i}"));
        leases.push(lease);
    }
    snapshot["nodes"] = all.into();
    snapshot["leases"] = leases.into();
    for empty in [
        "pods",
        "budgets",
        "workloads",
        "volumes",
        "volumeAttachments",
        "csiNodes",
    ] {
        snapshot[empty] = json!([]);
    }
    snapshot["kubeletConfigs"] = json!({});
    snapshot
}

/// A snapshot in a file.
struct SnapshotFile {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl SnapshotFile {
    fn new(snapshot: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.json");
        fs::write(&path, snapshot.to_string()).unwrap();
        Self {
            path,
            _folder: folder,
        }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// One node in six reserves nothing for the system, and has a kubelet that is too old.
fn two_faults(i: usize, node: &mut Value) {
    if (i / 2).is_multiple_of(6) {
        for resource in ["cpu", "memory", "ephemeral-storage"] {
            node["status"]["allocatable"][resource] = node["status"]["capacity"][resource].clone();
        }
        node["status"]["nodeInfo"]["kubeletVersion"] = json!("v1.32.9-eks-113cf36");
    }
}

#[test]
fn a_thousand_faulty_nodes_fit_the_screen() {
    let fleet = SnapshotFile::new(&fleet(6000, two_faults));
    for columns in [80, 120, 200] {
        let (shown, status) = all_on_terminal(&["audit", "-f", fleet.path()], columns);
        assert_eq!(status, 3, "{shown}");
        let lines = lines(&shown, columns);
        assert!(lines.len() <= 60, "{} lines:\n{shown}", lines.len());
        let last = lines[lines.len() - 24..].join("\n");
        assert!(last.contains("NL-VER-001   1000"), "{shown}");
        assert!(last.contains(" findings on 6000 nodes"), "{shown}");
        assert!(last.contains("next: kubectl nodelife "), "{shown}");
        if columns != 80 {
            insta::assert_snapshot!(
                format!("a fleet on {columns} columns"),
                shown.replace(fleet.path(), "fleet.json")
            );
        }
    }
    let words = ["audit", "-f", fleet.path(), "--ungrouped", "-q"];
    let all = stdout(&words, 3);
    assert!(all.matches("NL-VER-001").count() == 1000, "{all}");
}

/// Each node has a pod of a DaemonSet and one of a ReplicaSet, and a third of them one without a
/// controller.
fn pods(snapshot: &Value) -> Value {
    let nodes = snapshot["nodes"].as_array().unwrap().iter().enumerate();
    let pods = nodes.flat_map(|(i, node)| {
        let node = &node["metadata"]["name"];
        let pod = move |namespace: &str, name: &str, owner: &str| {
            let owner = match owner {
                "" => json!([]),
                kind => json!([{"apiVersion": "apps/v1", "kind": kind, "name": name,
                    "uid": format!("uid-{name}"), "controller": true}]),
            };
            json!({
                "metadata": {"name": format!("{name}-{i}"), "namespace": namespace,
                    "uid": format!("uid-{name}-{i}"), "labels": {"app": name},
                    "ownerReferences": owner},
                "spec": {"nodeName": node, "containers": []},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            })
        };
        let mut pods = vec![
            pod("kube-system", "agent", "DaemonSet"),
            pod("shop", "web", "ReplicaSet"),
        ];
        if i % 3 == 0 {
            pods.push(pod("shop", "lone", ""));
        }
        pods
    });
    pods.collect()
}

#[test]
fn the_plan_of_500_nodes_fits_60_lines() {
    let mut snapshot = fleet(500, |_, _| {});
    snapshot["pods"] = pods(&snapshot);
    let workload = |kind: &str, namespace: &str, name: &str| {
        json!({"kind": kind, "metadata": {"name": name, "namespace": namespace,
            "uid": format!("uid-{name}")}, "spec": {"replicas": 500,
            "selector": {"matchLabels": {"app": name}}}, "status": {}})
    };
    snapshot["workloads"] = json!([
        workload("DaemonSet", "kube-system", "agent"),
        workload("ReplicaSet", "shop", "web"),
    ]);
    snapshot["budgets"] = json!([{
        "metadata": {"name": "web", "namespace": "shop", "uid": "web", "generation": 1},
        "spec": {"maxUnavailable": 100, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 100, "currentHealthy": 500,
            "desiredHealthy": 400, "expectedPods": 500},
    }]);
    let file = SnapshotFile::new(&snapshot);
    let drain = ["drain", "-l", "kubernetes.io/os=linux", "-f", file.path()];
    for columns in [80, 120, 200] {
        let words = [drain.as_slice(), &["--force"]].concat();
        let (shown, status) = all_on_terminal(&words, columns);
        assert_eq!(status, 0, "{shown}");
        let lines = lines(&shown, columns);
        assert!(lines.len() <= 60, "{} lines:\n{shown}", lines.len());
        insta::assert_snapshot!(format!("a plan on {columns} columns"), shown);
    }
    let (refused, status) = all_on_terminal(&drain, 120);
    assert_eq!(status, 4, "{refused}");
    assert!(lines(&refused, 120).len() <= 60, "{refused}");
    let all = [drain.as_slice(), &["--force", "-o", "json"]].concat();
    let plan: Value = serde_json::from_str(&stdout(&all, 0)).unwrap();
    assert_eq!(plan["pods"].as_array().unwrap().len(), 1167);
}

#[test]
fn equal_nodes_are_explained_together() {
    let mut snapshot = fleet(500, |i, node| {
        if i == 7 {
            node["status"]["allocatable"]["cpu"] = json!("3");
        }
    });
    let file = SnapshotFile::new(&snapshot);
    insta::assert_snapshot!(stdout(&["explain", "allocatable", "-f", file.path()], 0));
    snapshot["pods"] = pods(&snapshot);
    let nodes = snapshot["nodes"].as_array().unwrap().clone();
    for (i, node) in nodes.iter().enumerate() {
        let name = node["metadata"]["name"].as_str().unwrap();
        snapshot["kubeletConfigs"][name] = match i % 5 {
            0 => json!({}),
            _ => json!({"shutdownGracePeriod": "20s", "shutdownGracePeriodCriticalPods": "5s"}),
        };
    }
    let file = SnapshotFile::new(&snapshot);
    insta::assert_snapshot!(stdout(&["explain", "shutdown", "-f", file.path()], 0));
}

/// The lines as the terminal shows them.
fn lines(shown: &str, columns: u16) -> Vec<String> {
    let columns = usize::from(columns);
    let mut lines = Vec::new();
    for line in shown.lines() {
        let line: Vec<char> = line.chars().collect();
        if line.is_empty() {
            lines.push(String::new());
        }
        lines.extend(line.chunks(columns).map(|part| part.iter().collect()));
    }
    lines
}

/// At 120 columns long names left a message 31.
#[test]
fn a_report_fits_terminals_of_any_width() {
    for columns in [80, 100, 120, 140, 200] {
        let words = ["audit", "-f", "examples/faulty-cluster.json"];
        let (shown, _) = all_on_terminal(&words, columns);
        for line in shown.lines().filter(|line| !line.starts_with("next: ")) {
            assert!(line.chars().count() <= usize::from(columns), "{line}");
        }
        insta::assert_snapshot!(format!("a terminal of {columns} columns"), shown);
    }
}
