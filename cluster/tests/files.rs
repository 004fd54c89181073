//! Tests of snapshot files: kubectl's output, our own format, broken files.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use nodelife_cluster::snapshot::{self, FileError};
use nodelife_core::object::{Labels, Node, Pod};
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use tempfile::TempDir;

/// As `kubectl get nodes,pods -A -o json` prints it: keys sorted, so `kind` comes last.
const LIST: &str = r#"{
    "apiVersion": "v1",
    "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
         "status": {"capacity": {"cpu": "4"}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "namespace": "a",
         "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "x": "y",
            "nodelife.dev/drain": "skip"}},
         "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    ],
    "kind": "List",
    "metadata": {"resourceVersion": ""}
}"#;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read(name: &str, bytes: &[u8]) -> Result<Snapshot, FileError> {
    let files = Files::new();
    let path = files.put(name, bytes);
    Ok(snapshot::read(&[path])?.snapshot)
}

#[test]
fn kubectl_output_is_read_and_what_it_lacks_is_named() {
    let snapshot = read("list.json", LIST.as_bytes()).unwrap();
    assert_eq!(snapshot.nodes[0].status.capacity["cpu"], "4");
    assert_eq!(snapshot.pods[0].spec.containers[0].name, "c");
    let annotations: Vec<_> = snapshot.pods[0].metadata.annotations.keys().collect();
    assert_eq!(annotations, [&Str::from("nodelife.dev/drain")]);
    let here: Vec<Source> = Source::ALL
        .into_iter()
        .filter(|source| snapshot.why_missing(*source).is_none())
        .collect();
    assert_eq!(here, [Source::Nodes, Source::Pods]);
    assert!(snapshot.missing[&Source::Leases].contains("kubectl get leases"));
}

#[test]
fn raw_lists_without_item_kinds_are_read() {
    let raw = r#"{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"n"}}]}"#;
    let sorted = r#"{"apiVersion":"v1","items":[{"metadata":{"name":"n"}}],"kind":"NodeList"}"#;
    for text in [raw, sorted] {
        let snapshot = read("nodes.json", text.as_bytes()).unwrap();
        assert_eq!(snapshot.nodes[0].metadata.name, "n");
    }
}

/// `jq -S` sorts the keys of a snapshot, and of an object, too.
#[test]
fn a_kind_may_come_last() {
    let node = r#"{"apiVersion":"v1","metadata":{"name":"n"},"status":{"capacity":{"cpu":4}},"kind":"Node"}"#;
    let snapshot = read("node.json", node.as_bytes()).unwrap();
    assert_eq!(snapshot.nodes[0].metadata.name, "n");
    assert_eq!(snapshot.nodes[0].status.capacity["cpu"], "4");

    let sorted = r#"{"apiVersion":"nodelife.dev/v1alpha1","counts":{"nodes":2},
        "nodes":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],
        "kind":"Snapshot","workloads":[]}"#;
    assert_eq!(read("s.json", sorted.as_bytes()).unwrap().nodes.len(), 2);
    let cut = sorted.replace(r#",{"metadata":{"name":"b"}}"#, "");
    let error = read("s.json", cut.as_bytes()).unwrap_err().to_string();
    assert!(
        error.contains("its counts say 2 nodes, but it has 1"),
        "{error}"
    );
}

#[test]
fn an_empty_list_is_an_answer() {
    let text = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#;
    let snapshot = read("pods.json", text.as_bytes()).unwrap();
    assert!(!snapshot.missing.contains_key(&Source::Pods));
}

#[test]
fn yaml_with_several_documents_is_read() {
    let text = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n    labels:\n      a: \"1\"\n  status:\n    capacity:\n      cpu: 4\nkind: List\n---\napiVersion: v1\nkind: Node\nmetadata:\n  name: n2\n";
    let snapshot = read("nodes.yaml", text.as_bytes()).unwrap();
    let names: Vec<_> = snapshot.nodes.iter().map(|n| &*n.metadata.name).collect();
    assert_eq!(names, ["n1", "n2"]);
    assert_eq!(snapshot.nodes[0].status.capacity["cpu"], "4");
}

#[test]
fn a_folder_is_read_with_the_kubelets_configurations() {
    let files = Files::new();
    files.put("nodes.json", LIST.as_bytes());
    files.put("again.json.gz", &gzip(LIST.as_bytes()));
    files.put("notes.txt", b"not a document");
    files.put(
        "configz/n1.json",
        br#"{"kubeletconfig":{"maxPods":50,"evictionHard":{"memory.available":"1Gi"}}}"#,
    );
    let snapshot = snapshot::read(&[files.0.path().to_owned()])
        .unwrap()
        .snapshot;
    assert_eq!(snapshot.nodes.len(), 1, "the same node counts once");
    assert_eq!(
        snapshot.kubelet_configs["n1"].eviction_hard["memory.available"],
        "1Gi"
    );
}

#[test]
fn an_object_of_any_kind_in_two_files_counts_once() {
    let files = Files::new();
    let list = br#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"}},
        {"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"namespace":"x","name":"a"}},
        {"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"namespace":"x","name":"a"}}]}"#;
    files.put("one.json", list);
    files.put("two.json", list);
    let read = snapshot::read(&[files.0.path().to_owned()]).unwrap();
    assert_eq!(read.snapshot.count(Source::Volumes), 1);
    assert_eq!(read.snapshot.count(Source::Workloads), 2);
}

#[test]
fn a_snapshot_comes_back_as_it_was_written() {
    let mut snapshot = Snapshot {
        server_version: Some(Str::from("v1.36.3")),
        nodes: vec![Node::default()],
        pods: vec![Pod::default()],
        ..Snapshot::default()
    };
    snapshot.nodes[0].metadata.labels = Labels::from([(Str::from("a"), Str::from("b"))]);
    snapshot
        .missing
        .insert(Source::Budgets, Str::from("forbidden"));
    let files = Files::new();
    for name in ["s.json", "s.json.gz"] {
        let path = files.0.path().join(name);
        snapshot::write(&snapshot, &path).unwrap();
        assert_eq!(snapshot::read(&[path]).unwrap().snapshot, snapshot);
    }
    assert_eq!(files.0.path().read_dir().unwrap().count(), 2);
}

#[test]
fn broken_files_say_what_and_where() {
    let cut = &LIST[..LIST.len() / 2];
    let packed = gzip(LIST.as_bytes());
    let cases: [(&str, &[u8], &str); 11] = [
        (
            "cut.json",
            cut.as_bytes(),
            "is truncated: it ends at line 7 column",
        ),
        (
            "cut.json.gz",
            &packed[..packed.len() - 12],
            "the compressed stream is truncated",
        ),
        (
            "wrong.json",
            br#"{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":7}]}"#,
            "line 1 column",
        ),
        (
            "services.json",
            br#"{"kind":"ServiceList","apiVersion":"v1","items":[{}]}"#,
            "it has v1 Service;",
        ),
        (
            "later.json",
            br#"{"kind":"Snapshot","apiVersion":"nodelife.dev/v2"}"#,
            "nodelife.dev/v2; this program reads nodelife.dev/v1alpha1",
        ),
        ("empty.json", b"", "it is empty"),
        (
            "number.json",
            b"7",
            "it has no snapshot, list or object of Kubernetes;",
        ),
        (
            "taints.json",
            b"{\"kind\": \"Pod\", \"apiVersion\": \"v1\",\n \"metadata\": {\"name\": \"p\", \"namespace\": \"a\"},\n \"spec\": {\"tolerations\": 7}}",
            "Pod a/p: invalid type: integer `7`",
        ),
        (
            "taints.yaml",
            b"apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\nspec:\n  taints: 7\n",
            "Node n1: invalid type: integer `7`",
        ),
        (
            "none.json",
            br#"{"items":[]}"#,
            "it has a list without apiVersion and kind;",
        ),
        (
            "cut.yaml",
            b"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n",
            "the list ends before its kind; it is truncated",
        ),
    ];
    for (name, bytes, expected) in cases {
        let error = read(name, bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(error.contains(name), "{name}: {error}");
        assert!(!error.contains('\n'), "{name}: {error}");
    }
    let error = snapshot::read(&[PathBuf::from("/nowhere.json")]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("failed to read /nowhere.json: No such file")
    );
}

/// YAML does not show that its end is missing: at the end of a line everything before is well
/// formed. The head of a snapshot says how much is to come.
#[test]
fn yaml_cut_at_a_line_end_is_truncated() {
    let text = "apiVersion: nodelife.dev/v1alpha1\nkind: Snapshot\n\
        counts: {nodes: 2, pods: 1, volumes: 1}\ntakenAt: 2026-01-01T00:00:00Z\n\
        nodes:\n- metadata:\n    name: a\n- metadata:\n    name: b\n\
        pods:\n- metadata:\n    name: p\n\
        volumes:\n- metadata:\n    name: v\n";
    let whole = read("whole.yaml", text.as_bytes()).unwrap();
    assert_eq!((whole.nodes.len(), whole.pods.len()), (2, 1));
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    // Two lines make an empty snapshot, whose audit fails for want of a node. The first line of
    // the last object makes it count: what is behind it cannot be missed.
    for end in 3..lines.len() - 1 {
        let cut = lines[..end].concat();
        assert!(read("cut.yaml", cut.as_bytes()).is_err(), "{end}: {cut}");
    }
    let edited = text.replace("counts: {nodes: 2, pods: 1, volumes: 1}\n", "");
    let edited = edited.split_once("pods:").unwrap().0;
    assert_eq!(
        read("edited.yaml", edited.as_bytes()).unwrap().nodes.len(),
        2
    );
}

/// What is wrong with a cluster is wrong with its redacted snapshot, and no name is left in it.
#[test]
fn redaction_takes_names_out_and_leaves_what_is_wrong() {
    for example in ["faulty", "healthy"] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../examples/{example}-cluster.json"));
        let original = snapshot::read(&[path]).unwrap().snapshot;
        let mut redacted = original.clone();
        snapshot::redact(&mut redacted).unwrap();
        let mut bytes = Vec::new();
        snapshot::write_to(&redacted, &mut bytes).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();

        // Names that Kubernetes gives.
        let common = ["default", "kube-system", "kube-node-lease", "kube-proxy"];
        let metas = (original.nodes.iter().map(|node| &node.metadata))
            .chain(original.pods.iter().map(|pod| &pod.metadata))
            .chain(original.budgets.iter().map(|budget| &budget.metadata))
            .chain(original.workloads.iter().map(|workload| &workload.metadata));
        for name in metas.flat_map(|meta| [&meta.name, &meta.namespace]) {
            let is_common = name.is_empty() || common.contains(&name.as_str());
            assert!(
                is_common || !text.contains(&format!("\"{name}\"")),
                "{name} is left in the {example} snapshot"
            );
        }

        let redacted = read("redacted.json", &bytes).unwrap();
        let found = |snapshot: &Snapshot| {
            let now = snapshot.taken_at.unwrap();
            let audit = nodelife_audit::audit(snapshot, &nodelife_audit::Selection::default(), now);
            let findings = audit.findings.iter();
            let mut lines: Vec<_> = findings
                .map(|f| format!("{:?} {} {}", f.severity, f.rule, f.subject.kind))
                .collect();
            lines.sort();
            lines
        };
        assert_eq!(found(&redacted), found(&original), "{example}");
    }
}

#[test]
fn redaction_keeps_the_options_of_a_kubelet_and_hides_its_owners_words() {
    let files = Files::new();
    files.put("nodes.json", LIST.as_bytes());
    files.put(
        "configz/n1.json",
        br#"{"kubeletconfig":{
            "hairpinMode": "hairpin-veth", "imageMinimumGCAge": "2m0s", "clusterDomain": "acme.local",
            "registerWithTaints": [{"key": "acme.com/team", "value": "payment", "effect": "NoSchedule"}],
            "staticPodURLHeader": {"X-Token": ["12345"]}}}"#,
    );
    let mut snapshot = snapshot::read(&[files.0.path().to_owned()])
        .unwrap()
        .snapshot;
    snapshot::redact(&mut snapshot).unwrap();
    let text = serde_json::to_string(&snapshot.kubelet_configs).unwrap();
    for kept in ["hairpin-veth", "2m0s", "NoSchedule"] {
        assert!(text.contains(kept), "{kept} is gone: {text}");
    }
    for hidden in ["acme.local", "payment", "12345"] {
        assert!(!text.contains(hidden), "{hidden} is left: {text}");
    }
}

/// As `kubectl cluster-info dump --output-directory`, must-gather and support bundles write them.
#[test]
fn a_folder_may_have_files_of_other_kinds() {
    let files = Files::new();
    files.put("nodes.json", LIST.as_bytes());
    files.put(
        "services.json",
        br#"{"kind":"ServiceList","apiVersion":"v1","items":[{}]}"#,
    );
    files.put(
        "errors.json",
        br#"{"default": "the server has no such resource"}"#,
    );
    files.put("etcd/members.json", br#"[{"name": "a"}]"#);
    files.put("values.yaml", b"name: {{ .Values.name }}\nlist:\n- [\n");
    files.put("kube_get_-o_json_pods", LIST.as_bytes());
    files.put("default/web/logs.txt", b"{ no JSON");
    let read = snapshot::read(&[files.0.path().to_owned()]).unwrap();
    assert_eq!(read.snapshot.nodes.len(), 1);
    assert_eq!(read.foreign.len(), 4);

    files.put("pods.json", &LIST.as_bytes()[..300]);
    let error = snapshot::read(&[files.0.path().to_owned()]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("pods.json is truncated"), "{text}");
}

#[cfg(unix)]
#[test]
fn links_to_folders_are_not_followed() {
    use std::os::unix::fs::symlink;
    let files = Files::new();
    let nodes = files.put("cluster/nodes.json", LIST.as_bytes());
    let folder = nodes.parent().unwrap();
    // Two links to the folder itself would be 2⁴⁰ folders.
    symlink(".", folder.join("current")).unwrap();
    symlink(".", folder.join("latest")).unwrap();
    symlink("..", folder.join("parent.json")).unwrap();
    symlink("/not/there", folder.join("pods.json")).unwrap();
    symlink("nodes.json", folder.join("link.json")).unwrap();
    let read = snapshot::read(&[files.0.path().to_owned()]).unwrap();
    assert_eq!(read.snapshot.nodes.len(), 1);
    assert!(read.foreign.is_empty());
}

#[test]
fn a_folder_without_a_single_object_is_an_error() {
    let files = Files::new();
    files.put(
        "services.json",
        br#"{"kind":"ServiceList","apiVersion":"v1","items":[{}]}"#,
    );
    let error = snapshot::read(&[files.0.path().to_owned()]).unwrap_err();
    assert!(error.to_string().contains("no file in"), "{error}");
}

/// Programs in Go that write typed objects leave apiVersion and kind empty.
#[test]
fn objects_without_api_version_and_kind_are_recognised() {
    let node = r#"{"metadata":{"name":"n"},"status":{"nodeInfo":{"kubeletVersion":"v1.30.1"}}}"#;
    let pod = r#"{"metadata":{"name":"p","namespace":"a"},"spec":{"containers":[]}}"#;
    let list = format!(r#"{{"metadata":{{}},"items":[{node},{pod}]}}"#);
    for text in [node, &list] {
        let snapshot = read("typed.json", text.as_bytes()).unwrap();
        assert_eq!(snapshot.nodes[0].metadata.name, "n", "{text}");
    }
    assert_eq!(read("typed.json", list.as_bytes()).unwrap().pods.len(), 1);
    let error = read("other.json", br#"{"metadata":{"name":"x"}}"#).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("it has an object without apiVersion and kind;"),
        "{error}"
    );
}

#[test]
fn the_logs_of_cluster_info_dump_are_passed() {
    let text = format!(
        "{LIST}\n==== START logs for container c of pod a/p1 ====\n{{\"kind\":\"Pod\n\
         ====\n==== END logs for container c of pod a/p1 ====\n{}\n",
        LIST.replace("\"n1\"", "\"n2\"")
    );
    assert_eq!(read("dump.txt", text.as_bytes()).unwrap().nodes.len(), 2);
    let cut = text.split("==== END").next().unwrap();
    let error = read("dump.txt", cut.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("is truncated"), "{error}");
}

#[test]
fn several_snapshots_are_not_one_cluster() {
    let files = Files::new();
    let text = r#"{"apiVersion":"nodelife.dev/v1alpha1","kind":"Snapshot","nodes":[]}"#;
    let paths = ["a.json", "b.json"].map(|name| files.put(name, text.as_bytes()));
    for paths in [paths.to_vec(), vec![files.0.path().to_owned()]] {
        let error = snapshot::read(&paths).unwrap_err().to_string();
        assert!(error.starts_with("2 snapshots ("), "{error}");
        assert!(error.contains("a.json"), "{error}");
    }
}

#[test]
fn a_node_with_two_uids_is_named() {
    let node = |uid: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n","uid":"{uid}"}}}}"#)
    };
    let files = Files::new();
    let paths = ["u1", "u2"].map(|uid| files.put(&format!("{uid}.json"), node(uid).as_bytes()));
    let read = snapshot::read(&paths).unwrap();
    assert_eq!(read.contradictory_nodes, ["n"]);
    assert_eq!(read.snapshot.nodes[0].metadata.uid, "u1");
}

/// As of `kubectl get nodes -w -o json`, or of two dumps.
#[test]
fn of_two_versions_of_a_node_the_newer_is_read() {
    let node = |version: u32, cordoned: bool| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n","uid":"u",
            "resourceVersion":"{version}"}},"spec":{{"unschedulable":{cordoned}}}}}"#
        )
    };
    for versions in [[100, 99, 200], [200, 100, 99], [99, 200, 100]] {
        let files = Files::new();
        let paths = versions.map(|version| {
            let name = format!(
                "{}.json",
                versions.iter().position(|v| *v == version).unwrap()
            );
            files.put(&name, node(version, version == 200).as_bytes())
        });
        let read = snapshot::read(&paths).unwrap();
        assert_eq!(read.snapshot.nodes.len(), 1);
        assert!(read.snapshot.nodes[0].spec.unschedulable, "{versions:?}");
    }
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn an_archive_is_read_as_a_folder() {
    let services = br#"{"apiVersion":"v1","kind":"ServiceList","items":[]}"#;
    let bundle = tar(&[
        ("bundle/version.yaml", b"- 1\n"),
        ("bundle/cluster-resources/nodes.json", LIST.as_bytes()),
        ("bundle/cluster-resources/services.json", services),
        ("bundle/pod-logs/web.log", b"{ not json"),
    ]);
    let files = Files::new();
    for (name, bytes) in [
        ("bundle.tar", bundle.clone()),
        ("bundle.tar.gz", gzip(&bundle)),
        ("bundle.tgz", gzip(&bundle)),
    ] {
        let read = snapshot::read(&[files.put(name, &bytes)]).unwrap();
        assert_eq!(read.snapshot.nodes.len(), 1, "{name}");
        assert_eq!(read.foreign.len(), 2, "{name}");
    }
}

#[test]
fn a_broken_archive_is_named() {
    let whole = gzip(&tar(&[("nodes.json", LIST.as_bytes())]));
    let files = Files::new();
    let path = files.put("cut.tar.gz", &whole[..whole.len() / 2]);
    let error = snapshot::read(&[path]).unwrap_err().to_string();
    assert!(error.contains("cut.tar.gz"), "{error}");
    let path = files.put("logs.tar", &tar(&[("web.log", b"hello")]));
    let error = snapshot::read(&[path]).unwrap_err();
    assert!(matches!(error, FileError::Nothing { .. }), "{error}");
}
