//! Inputs of clusters that nobody prepared for nodelife: foreign and broken files, and parts.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::Write as _;
use std::path::PathBuf;
use std::slice::from_ref;

use flate2::Compression;
use flate2::write::GzEncoder;
use nodelife_cluster::snapshot::{self, FileError, FromFiles};
use nodelife_core::snapshot::{Snapshot, Source};
use serde_json::{Value, json};
use tempfile::TempDir;

const NODES: &[u8] = br#"{"apiVersion":"v1","kind":"NodeList","items":[{"metadata":{"name":"n1"},
    "status":{"nodeInfo":{"kubeletVersion":"v1.34.3"}}}]}"#;

fn read(files: &[(&str, &[u8])]) -> Result<FromFiles, FileError> {
    let folder = TempDir::new().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    snapshot::read(&[folder.path().to_owned()])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// As redaction, limits of size and other programs leave them in support bundles.
#[test]
fn a_foreign_file_ends_nothing_and_is_named() {
    let cut = gzip(br#"{"apiVersion":"example.com/v1","kind":"ThingList","items":[{"a":"#);
    let cases: [(&str, &[u8]); 13] = [
        (
            "engines.yaml",
            b"apiVersion: longhorn.io/v1beta2\nitems:\n- apiVersion: longhorn.io/v1beta2\n  \
              kind: Engine\n  metadata:\n    managedFields:\n    - fieldsV1:\n        \
              f:tcp://***HIDDEN***:10000: {}\n        f:tcp://***HIDDEN***:10000: {}\nkind: List\n",
        ),
        (
            "im.yaml",
            b"apiVersion: longhorn.io/v1beta2\nkind: InstanceManager\nstatus:\n  ip: ***HIDDEN***\n",
        ),
        ("note.yaml", b"kind: Note\ntext: hello\n"),
        (
            "crd.json",
            br#"{"apiVersion":"example.com/v1","kind":"ThingList","items":[{"metadata":{"name":"a"#,
        ),
        ("list.yaml", b"apiVersion: example.com/v1\nitems:\n- a: 1\n"),
        ("schema.json", br#"{"apiVersion":"v1","kind":{"type":"string"}}"#),
        ("items.json", br#"{"kind":"Invoice","items":[{"metadata":{"name":"a"}}]}"#),
        ("cut.json.gz", &cut[..cut.len() - 9]),
        ("packed.json", b"\xfd7zXZ\0\0"),
        (
            "scale.yaml",
            b"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec:\n  scaleTargetRef:\n    \
              apiVersion: apps/v1\n    kind: Deployment\n    name: *web\n",
        ),
        (
            "hosts.yaml",
            b"apiVersion: v1\nkind: ConfigMap\ndata:\n  '***HIDDEN***': a\n  '***HIDDEN***': b\n",
        ),
        ("page.json", b"<html>404</html>"),
        ("snapshot.json", br#"{"apiVersion":"appstudio.redhat.com/v1","kind":"Snapshot"}"#),
    ];
    for (name, bytes) in cases {
        let read = read(&[("nodes.json", NODES), (name, bytes)]);
        let read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.snapshot.nodes.len(), 1, "{name}");
        let left_out = [read.broken, read.foreign].concat();
        assert!(left_out[0].contains(name), "{left_out:?}");
        assert!(left_out[0].len() < 200, "{left_out:?}");
        assert_eq!(left_out.len(), 1, "{left_out:?}");
    }
    let alone = read(&[("im.yaml", cases[1].1)]).unwrap_err().to_string();
    assert!(alone.contains("alias references unknown anchor"), "{alone}");
}

/// A link to itself cannot be opened, whoever asks; root reads a folder that has no permissions.
#[cfg(unix)]
#[test]
fn an_unreadable_file_or_folder_ends_nothing_and_is_named() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("nodes.json"), NODES).unwrap();
    symlink("loop.json", path("loop.json")).unwrap();
    std::fs::create_dir(path("locked")).unwrap();
    let set_mode = |mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path("locked"), permissions).unwrap();
    };
    set_mode(0);
    let is_root = std::fs::read_dir(path("locked")).is_ok();
    let read = snapshot::read(&[folder.path().to_owned()]);
    set_mode(0o700);
    let read = read.unwrap();
    assert_eq!(read.snapshot.nodes.len(), 1);
    let names = ["locked", "loop.json"];
    let expected = &names[usize::from(is_root)..];
    assert_eq!(read.broken.len(), expected.len(), "{:?}", read.broken);
    for (broken, name) in read.broken.iter().zip(expected) {
        let start = format!("failed to read {}: ", path(name).display());
        assert!(broken.starts_with(&start), "{broken}");
    }
}

#[test]
fn a_broken_file_of_nodes_or_pods_is_an_error() {
    let packed = gzip(NODES);
    let cases: [(&str, &[u8]); 8] = [
        ("list.json", &NODES[..NODES.len() - 20]),
        (
            "head.json",
            br#"{"apiVersion":"v1","kind":"PodList","metadata":{"#,
        ),
        (
            "typed.json",
            br#"{"metadata":{},"items":[{"metadata":{"name":"p"},"spec":{"containers":[]}},{"#,
        ),
        (
            "node.json",
            br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"#,
        ),
        ("nodes.json.gz", &packed[..packed.len() - 9]),
        (
            "cut.yaml",
            b"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p\n",
        ),
        (
            "hidden.yaml",
            b"apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p\n  \
              status:\n    podIP: ***HIDDEN***\nkind: List\n",
        ),
        (
            "later.json",
            br#"{"kind":"Snapshot","apiVersion":"nodelife.dev/v2"}"#,
        ),
    ];
    for (name, bytes) in cases {
        let error = read(&[("all/nodes.json", NODES), (name, bytes)]).unwrap_err();
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
}

#[test]
fn other_compressions_are_called_by_their_names() {
    let folder = TempDir::new().unwrap();
    for (name, bytes, format) in [
        ("bundle.tar.xz", b"\xfd7zXZ\0rest".as_slice(), "xz"),
        ("nodes.json.zst", b"\x28\xb5\x2f\xfdrest", "zstd"),
        ("nodes.json", b"PK\x03\x04rest", "zip"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = snapshot::read(&[path]).unwrap_err().to_string();
        let expected = format!("is compressed with {format}, which is not supported: unpack it");
        assert!(error.contains(&expected), "{error}");
    }
}

/// `kubectl cluster-info dump` up to v1.8.
#[test]
fn fields_with_their_names_in_go_are_read() {
    let nodes = br#"{"selfLink": "/api/v1/nodes", "resourceVersion": "7", "Items": [{
        "name": "n1", "labels": {"Team": "a"}, "creationTimestamp": "2018-01-02T03:04:05Z",
        "Spec": {"PodCIDR": "10.244.0.0/24", "ProviderID": "",
            "Taints": [{"Key": "a", "Value": "", "Effect": "NoSchedule", "TimeAdded": null}]},
        "Status": {"Capacity": {"cpu": "2"}, "Phase": "",
            "Conditions": [{"Type": "Ready", "Status": "True", "Reason": "KubeletReady"}],
            "NodeInfo": {"OSImage": "Ubuntu", "SystemUUID": "u", "KubeletVersion": "v1.8.3"}}}]}"#;
    let pods = br#"{"Items": [{"name": "p", "namespace": "kube-system",
        "Spec": {"NodeName": "n1", "Containers": [{"Name": "c", "Resources":
            {"Limits": null, "Requests": {"cpu": "100m"}}}]},
        "Status": {"Phase": "Running", "QOSClass": "Burstable"}}]}"#;
    let both = [nodes.as_slice(), pods].concat();
    let read = read(&[("dump.json", &both)]).unwrap().snapshot;
    let node = &read.nodes[0];
    assert_eq!(node.metadata.labels["Team"], "a");
    assert_eq!(node.spec.pod_cidr, "10.244.0.0/24");
    assert_eq!(node.spec.taints[0].effect, "NoSchedule");
    assert_eq!(node.status.node_info.os_image, "Ubuntu");
    assert!(node.is_ready());
    let pod = &read.pods[0];
    assert_eq!(pod.spec.node_name, "n1");
    assert_eq!(pod.spec.containers[0].resources.requests["cpu"], "100m");
}

#[test]
fn an_object_that_cannot_be_decoded_is_left_out_and_named() {
    let pods = json!({"apiVersion": "v1", "kind": "List", "items": [
        pod("a", "p1"), pod("b", "p2"),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "namespace": "b"},
         "spec": {"tolerations": 7}},
    ]});
    let files = [
        ("nodes.json", NODES),
        ("pods.json", &pods.to_string().into_bytes()),
    ];
    let read = read(&files).unwrap();
    assert_eq!(read.snapshot.pods.len(), 2);
    let named = &read.undecodable;
    assert!(
        named[0].contains("pods.json: Pod b/bad: invalid type"),
        "{named:?}"
    );
    // What is left out is not known to be absent.
    assert!(!read.snapshot.has(Source::AllPods));
    assert!(read.snapshot.has(Source::Pods) && read.snapshot.has(Source::AllNodes));
}

/// As `spec:` in YAML with nothing behind it, and as other programs than kubectl write it.
#[test]
fn a_null_is_a_field_that_is_not_there() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": null},
        "spec": null, "status": {"conditions": null, "nodeInfo": {"kernelVersion": null,
        "kubeletVersion": "v1.36.3"}}});
    let mut budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "n"}, "spec": {"maxUnavailable": null}});
    budget["status"] = json!({"disruptionsAllowed": null});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [node, budget]});
    let read = read(&[("all.json", &list.to_string().into_bytes())]).unwrap();
    assert!(read.undecodable.is_empty(), "{:?}", read.undecodable);
    let info = &read.snapshot.nodes[0].status.node_info;
    assert_eq!(info.kubelet_version, *"v1.36.3");
    assert_eq!(read.snapshot.budgets.len(), 1);
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"containers": []}})
}

fn node(name: &str, ready: Option<&str>, taint: Option<&str>) -> Value {
    let conditions = ready.map(|status| json!({"type": "Ready", "status": status}));
    let taints = taint.map(|key| json!({"key": key, "effect": "NoExecute"}));
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"taints": Vec::from_iter(taints)},
        "status": {"conditions": Vec::from_iter(conditions), "nodeInfo": {}}})
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List"})
}

/// A list of a known kind, as `kubectl cluster-info dump` and must-gather write it.
fn pod_list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "PodList"})
}

fn parts(files: &[(&str, Vec<Value>)]) -> Snapshot {
    let texts: Vec<(&str, Vec<u8>)> = files
        .iter()
        .map(|(name, documents)| {
            let texts = documents.iter().map(Value::to_string);
            (*name, texts.collect::<Vec<_>>().join("\n").into_bytes())
        })
        .collect();
    let files: Vec<_> = texts
        .iter()
        .map(|(name, text)| (*name, text.as_slice()))
        .collect();
    read(&files).unwrap().snapshot
}

#[test]
fn pods_of_some_namespaces_are_known_as_a_part() {
    let (system, app) = (pod("kube-system", "dns"), pod("shop", "web"));
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "bank"}, "status": {"expectedPods": 2}});
    let scale = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "bank"}, "status": {"replicas": 3}});
    let some = [
        (
            "one namespace",
            vec![("a.json", vec![list(from_ref(&app))])],
        ),
        (
            "cluster-info dump to a folder",
            vec![
                ("kube-system/pods.json", vec![pod_list(from_ref(&system))]),
                ("default/pods.json", vec![pod_list(&[])]),
            ],
        ),
        (
            "cluster-info dump to stdout",
            vec![(
                "dump.json",
                vec![pod_list(from_ref(&system)), pod_list(&[])],
            )],
        ),
        (
            "must-gather",
            vec![
                (
                    "namespaces/openshift-dns/core/pods.yaml",
                    vec![pod_list(from_ref(&system))],
                ),
                (
                    "namespaces/openshift-ingress/core/pods.yaml",
                    vec![pod_list(&[])],
                ),
                (
                    "namespaces/openshift-config/core/pods.yaml",
                    vec![pod_list(&[])],
                ),
                ("namespaces/default/pods/web/web.yaml", vec![app.clone()]),
            ],
        ),
        ("no pods", vec![("a.json", vec![pod_list(&[])])]),
        (
            "a budget counts pods",
            vec![("a.json", vec![list(&[system.clone(), app.clone(), budget])])],
        ),
        (
            "a workload counts pods",
            vec![("a.json", vec![list(&[system.clone(), app.clone(), scale])])],
        ),
    ];
    for (name, files) in some {
        let snapshot = parts(&files);
        let why = snapshot.why_missing(Source::AllPods);
        let why = why.unwrap_or_else(|| panic!("{name} is taken for all"));
        assert!(
            why.starts_with("the input has ") && why.contains("get pods -A"),
            "{name}: {why}"
        );
        assert!(snapshot.has(Source::Pods), "{name}");
    }
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"}});
    let all = [
        (
            "get pods -A",
            vec![("a.json", vec![list(&[system.clone(), app.clone()])])],
        ),
        (
            "get pods,leases -A of a new cluster",
            vec![("a.json", vec![list(&[system.clone(), lease])])],
        ),
        (
            "cluster-info dump -A to stdout",
            vec![(
                "dump.json",
                vec![
                    pod_list(&[]),
                    pod_list(&[]),
                    pod_list(&[]),
                    pod_list(from_ref(&system)),
                ],
            )],
        ),
        (
            "a bundle with a file for each namespace",
            vec![
                ("pods/default.json", vec![pod_list(&[app])]),
                (
                    "pods/kube-public.json",
                    vec![json!({"items": null, "kind": "PodList", "apiVersion": "v1"})],
                ),
                ("pods/kube-system.json", vec![pod_list(&[system])]),
            ],
        ),
    ];
    for (name, files) in all {
        assert_eq!(parts(&files).why_missing(Source::AllPods), None, "{name}");
    }
}

#[test]
fn nodes_of_a_part_of_a_cluster_are_no_cluster() {
    let unreachable = Some("node.kubernetes.io/unreachable");
    let lost = node("lost", Some("Unknown"), unreachable);
    let some = [
        (
            "one node",
            vec![("node.json", vec![node("a", Some("True"), None)])],
        ),
        (
            "a list of one lost node",
            vec![("a.json", vec![list(from_ref(&lost))])],
        ),
        (
            "a list of lost nodes",
            vec![(
                "a.json",
                vec![list(&[lost.clone(), node("b", Some("False"), None)])],
            )],
        ),
    ];
    for (name, files) in some {
        assert!(!parts(&files).has(Source::AllNodes), "{name}");
    }
    // As with a selector.
    let pods = |nodes: [&str; 2]| {
        let pods = nodes.map(|node| {
            let mut pod = pod("shop", &format!("on-{node}"));
            pod["spec"]["nodeName"] = node.into();
            pod
        });
        let nodes = list(&[node("a", Some("True"), None)]);
        parts(&[("a.json", vec![nodes, list(&pods)])])
    };
    let why = pods(["b", "c"])
        .why_missing(Source::AllNodes)
        .map(str::to_owned);
    assert!(
        why.unwrap()
            .starts_with("the input has 1 node, and pods of 2 others")
    );
    assert!(pods(["a", "b"]).has(Source::AllNodes));
    let whole = [
        (
            "a cluster of one",
            vec![("a.json", vec![list(&[node("a", Some("True"), None)])])],
        ),
        (
            "all nodes are lost",
            vec![("a.json", vec![list(&[node("a", Some("Unknown"), None)])])],
        ),
        (
            "one is ready",
            vec![(
                "a.json",
                vec![list(&[lost.clone(), node("b", Some("True"), None)])],
            )],
        ),
        (
            "a must-gather of a cluster of one",
            vec![(
                "cluster-scoped-resources/core/nodes/a.yaml",
                vec![node("a", Some("True"), None)],
            )],
        ),
        (
            "nobody knows who is ready",
            vec![("a.json", vec![list(&[lost, node("b", None, None)])])],
        ),
    ];
    for (name, files) in whole {
        assert_eq!(parts(&files).why_missing(Source::AllNodes), None, "{name}");
    }
}

/// As of `kubectl get leases -n kube-system`.
#[test]
fn leases_of_components_are_none_of_nodes() {
    let lease = |namespace: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "a", "namespace": namespace}, "spec": {}})
    };
    let of = |namespaces: &[&str]| {
        let leases: Vec<_> = namespaces
            .iter()
            .map(|namespace| lease(namespace))
            .collect();
        parts(&[("a.json", vec![list(&leases)])])
    };
    assert!(!of(&["kube-system"]).has(Source::Leases));
    assert!(of(&["kube-system", "kube-node-lease"]).has(Source::Leases));
}

/// `kubectl cluster-info dump` has no StatefulSets.
#[test]
fn pods_of_controllers_that_were_not_read_are_no_orphans() {
    let empty = |kind: &str| json!({"apiVersion": "apps/v1", "kind": kind, "items": []});
    let owned = |kind: &str| {
        let mut pod = pod("shop", "db-0");
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind,
            "name": "db", "uid": "u", "controller": true}]);
        list(&[pod, self::pod("kube-system", "dns")])
    };
    let lists = || vec![empty("ReplicaSetList"), empty("DaemonSetList")];
    let of = |kind| {
        let mut documents = lists();
        documents.push(owned(kind));
        parts(&[("a.json", documents)])
    };
    let why = of("StatefulSet")
        .why_missing(Source::Workloads)
        .map(str::to_owned);
    assert!(
        why.unwrap()
            .starts_with("the input has no StatefulSet of shop")
    );
    assert!(of("CatalogSource").has(Source::Workloads));
}

#[test]
fn archives_are_read_past_their_foreign_files() {
    let folder = TempDir::new().unwrap();
    let path: PathBuf = folder.path().join("bundle.tar");
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in [
        (
            "b/im.yaml",
            b"apiVersion: a/v1\nkind: A\nip: ***HIDDEN***\n".as_slice(),
        ),
        ("b/nodes.json", NODES),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).unwrap();
    }
    std::fs::write(&path, archive.into_inner().unwrap()).unwrap();
    let read = snapshot::read(&[path]).unwrap();
    assert_eq!((read.snapshot.nodes.len(), read.broken.len()), (1, 1));
}
