//! Generator of cases: for each rule a request that passes, with random near misses in its fields.

mod certificate_request;
mod pod;
mod token;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nodelife_tests::Kubernetes;
use serde_json::{Value, json};

use super::random::Random;
use certificate_request::{changed_pem, pem};
use pod::{eviction, mirror_pod, pod_deletion, pod_status};
use token::{pod_certificate, token};

/// The node that asks, mostly.
const NODE: &str = "n1";
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(crate) fn case(random: &mut Random) -> Value {
    let mut case = match random.below(13) {
        0 => node(random),
        1 => mirror_pod(random),
        2 => pod_deletion(random),
        3 => pod_status(random),
        4 => eviction(random),
        5 => claim(random),
        6 | 7 => token(random),
        8 => pod_certificate(random).unwrap_or_else(|| token(random)),
        9 => named(random),
        10 => slice(random),
        11 => signing_request(random),
        _ => return tolerations(random),
    };
    case["plugin"] = json!("noderestriction");
    case["user"] = user(random);
    if random.chance(4) {
        let operation = random.pick(&["CREATE", "UPDATE", "DELETE", "CONNECT"]);
        with_operation(&mut case, operation);
    }
    case
}

/// A request of a node about a node.
pub(crate) fn node_case(random: &mut Random) -> Value {
    let mut case = node(random);
    case["plugin"] = json!("noderestriction");
    case["user"] = user(random);
    case
}

/// A request for a certificate, mostly one whose name is checked.
pub(super) fn certificate_request(random: &mut Random) -> Value {
    let mut case = signing_request(random);
    if random.chance(80) {
        case["object"]["spec"]["signerName"] = json!("kubernetes.io/kubelet-serving");
    }
    case["plugin"] = json!("noderestriction");
    case["user"] = user(random);
    case
}

/// A request of the node n1 for a certificate whose name is checked, with some octets changed.
pub(super) fn changed_certificate_request(random: &mut Random) -> Value {
    let mut case = signing_request(random);
    case["object"]["spec"] = json!({"signerName": "kubernetes.io/kubelet-serving",
        "request": BASE64_STANDARD.encode(changed_pem(random)), "usages": []});
    case["operation"] = json!("CREATE");
    case["features"] = json!({});
    case["plugin"] = json!("noderestriction");
    case["user"] = json!({"name": "system:node:n1", "groups": ["system:nodes"]});
    case
}

/// The case with another operation, and the objects that the API server sends with it.
fn with_operation(case: &mut Value, operation: &str) {
    let objects = [case["object"].take(), case["oldObject"].take()];
    let Some(object) = objects.into_iter().find(|object| !object.is_null()) else {
        return;
    };
    case["operation"] = json!(operation);
    if operation == "DELETE" && case["resource"]["resource"] == "pods" {
        // In-tree finds it in its lister, the webhook in the request.
        case["lookups"]["pods"] = json!([object]);
        case["namespace"] = object["metadata"]["namespace"].clone();
        case["name"] = object["metadata"]["name"].clone();
    }
    if operation != "CREATE" {
        case["oldObject"] = object.clone();
    }
    if operation != "DELETE" {
        case["object"] = object;
    }
}

fn user(random: &mut Random) -> Value {
    let name = random.mostly(
        "system:node:n1",
        &[
            "system:node:n2",
            "system:node:",
            "system:node:N1",
            "system:node:n 1\"\n",
            "system:nodes:n1",
            "admin",
            "system:node:é\u{200b}",
        ],
    );
    let groups = random.mostly(
        vec!["system:nodes", "system:authenticated"],
        &[
            vec!["system:nodes"],
            vec!["system:authenticated"],
            vec![],
            vec!["system:node"],
        ],
    );
    json!({"name": name, "groups": groups})
}

fn resource(group: &str, version: &str, resource: &str) -> Value {
    json!({"group": group, "version": version, "resource": resource})
}

fn label_key(random: &mut Random) -> &'static str {
    random.pick(&[
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/x",
        "foo.node.kubernetes.io/x",
        "kubelet.kubernetes.io/a",
        "a.kubelet.kubernetes.io/a",
        "xkubelet.kubernetes.io/a",
        "node-role.kubernetes.io/x",
        "node-restriction.kubernetes.io/x",
        "a.node-restriction.kubernetes.io/x",
        "xnode-restriction.kubernetes.io/x",
        "k8s.io/x",
        "a.k8s.io/x",
        "ak8s.io/x",
        "notkubernetes.io/x",
        "plain",
        "example.com/x",
        "kubernetes.io",
        "kubernetes.io/",
        "/x",
        "kubernetes.io/a/b",
        "node.k8s.io/x",
    ])
}

fn labels(random: &mut Random) -> Value {
    let mut labels = json!({});
    for _ in 0..random.below(3) {
        labels[label_key(random)] = json!(random.pick(&["", "a", "b"]));
    }
    labels
}

fn owner(random: &mut Random) -> Value {
    let mut owner = json!({
        "apiVersion": random.mostly("v1", &["v1beta1", ""]),
        "kind": random.mostly("Node", &["node", "Pod"]),
        "name": random.mostly(NODE, &["n2", ""]),
        "uid": random.mostly("node-uid", &["other", ""]),
        "controller": random.mostly(json!(true), &[json!(false), Value::Null]),
        "blockOwnerDeletion": random.mostly(Value::Null, &[json!(false), json!(true)]),
    });
    if random.chance(5) {
        owner.as_object_mut().unwrap().remove("controller");
    }
    owner
}

fn taint(random: &mut Random) -> Value {
    json!({
        "key": random.pick(&["a", "b"]),
        "value": random.mostly("", &["x"]),
        "effect": random.mostly("NoSchedule", &["NoExecute"]),
        "timeAdded": random.mostly(
            Value::Null,
            &[json!("2026-01-01T00:00:00Z"), json!("2026-01-01T01:00:00+01:00"), json!("2026-01-02T00:00:00Z")],
        ),
    })
}

fn node(random: &mut Random) -> Value {
    let mut old = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": NODE, "uid": "node-uid", "labels": labels(random)}, "spec": {}});
    if random.chance(30) {
        let taints: Vec<Value> = (0..random.below(3)).map(|_| taint(random)).collect();
        old["spec"]["taints"] = json!(taints);
    }
    if random.chance(30) {
        let owners: Vec<Value> = (0..random.below(3)).map(|_| owner(random)).collect();
        old["metadata"]["ownerReferences"] = json!(owners);
    }
    let source = |random: &mut Random| {
        random.pick(&[
            Value::Null,
            json!({}),
            json!({"configMap": {"name": "a", "namespace": "b", "kubeletConfigKey": "k"}}),
            json!({"configMap": {"name": "b", "namespace": "b", "kubeletConfigKey": "k"}}),
        ])
    };
    if random.chance(10) {
        old["spec"]["configSource"] = source(random);
    }
    let another = owner(random);
    let mut new = old.clone();
    match random.below(9) {
        0 => new["metadata"]["labels"][label_key(random)] = json!("c"),
        1 => new["metadata"]["labels"] = labels(random),
        2 => new["metadata"]["labels"] = Value::Null,
        3 => new["spec"]["taints"] = json!([taint(random)]),
        4 => new["spec"]["taints"] = random.pick(&[Value::Null, json!([])]),
        5 => {
            new["metadata"]["ownerReferences"] =
                random.pick(&[Value::Null, json!([]), json!([another.clone()])]);
        }
        6 => new["spec"]["configSource"] = source(random),
        7 => new["spec"]["unschedulable"] = json!(true),
        _ => new["metadata"]["annotations"] = json!({"a": "b"}),
    }
    let operation = random.pick(&["CREATE", "UPDATE", "UPDATE", "UPDATE", "DELETE"]);
    json!({
        "operation": operation,
        "resource": resource("", "v1", "nodes"),
        "subresource": random.pick(&["", "", "status", "proxy"]),
        "name": random.mostly(NODE, &["n2", "", "N1"]),
        "object": if operation == "DELETE" { Value::Null } else { new },
        "oldObject": if operation == "CREATE" { Value::Null } else { old },
    })
}

/// Leases, CSINodes, and what no rule knows.
fn named(random: &mut Random) -> Value {
    let (group, version, kind, plural) = random.pick(&[
        ("coordination.k8s.io", "v1", "Lease", "leases"),
        ("storage.k8s.io", "v1", "CSINode", "csinodes"),
        ("", "v1", "ConfigMap", "configmaps"),
        ("coordination.k8s.io", "v1", "Lease", "leases"),
        ("", "v1", "Event", "events"),
    ]);
    let version_name = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    if kind == "CSINode" && random.chance(50) {
        return csi_node_status(random);
    }
    let namespace = random.mostly("kube-node-lease", &["default", "", "kube-system"]);
    let object = json!({"apiVersion": version_name, "kind": kind,
        "metadata": {"name": random.mostly(NODE, &["n2", ""]), "namespace": namespace}});
    let operation = random.pick(&["CREATE", "UPDATE", "DELETE"]);
    json!({
        "operation": operation,
        "resource": resource(group, version, plural),
        "namespace": namespace,
        "name": random.mostly(NODE, &["n2", ""]),
        "object": if operation == "DELETE" { Value::Null } else { random.mostly(object.clone(), &[Value::Null]) },
        "oldObject": if operation == "CREATE" { Value::Null } else { object },
    })
}

/// A subresource since 1.37.
fn csi_node_status(random: &mut Random) -> Value {
    let driver = |random: &mut Random| {
        let mut driver = json!({"name": random.mostly("d", &["e"]), "nodeID": random.mostly("n1", &["n2"]),
            "topologyKeys": random.pick(&[json!([]), json!(["zone"])])});
        if random.chance(30) {
            driver["allocatable"] =
                random.pick(&[json!({}), json!({"count": 3}), json!({"count": 4})]);
        }
        driver
    };
    let drivers: Vec<Value> = (0..random.below(3)).map(|_| driver(random)).collect();
    let old = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": random.mostly(NODE, &["n2"])}, "spec": {"drivers": drivers}});
    let mut new = old.clone();
    if random.chance(40) {
        new["spec"]["drivers"] = json!([driver(random)]);
    }
    let operation = random.mostly("UPDATE", &["CREATE", "DELETE"]);
    json!({
        "operation": operation,
        "resource": resource("storage.k8s.io", "v1", "csinodes"),
        "subresource": "status",
        "name": random.mostly(NODE, &["n2", ""]),
        "object": if operation == "DELETE" { Value::Null } else { new },
        "oldObject": if operation == "CREATE" { Value::Null } else { old },
        "features": random.pick(&[json!({}), json!({"CSIVolumeHealth": true}), json!({"CSIVolumeHealth": true})]),
    })
}

fn slice(random: &mut Random) -> Value {
    let version = if Kubernetes::current().unwrap().is_at_least("1.34").unwrap() {
        "v1"
    } else {
        "v1beta1"
    };
    let mut object = json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceSlice",
        "metadata": {"name": "s"}, "spec": {"driver": "d", "nodeName": random.mostly(NODE, &["n2", ""])}});
    if random.chance(10) {
        object["spec"].as_object_mut().unwrap().remove("nodeName");
    }
    let operation = random.pick(&["CREATE", "UPDATE", "DELETE"]);
    json!({
        "operation": operation,
        "resource": resource("resource.k8s.io", version, "resourceslices"),
        "name": "s",
        "object": if operation == "DELETE" { Value::Null } else { object.clone() },
        "oldObject": if operation == "CREATE" { Value::Null } else { object },
    })
}

fn signing_request(random: &mut Random) -> Value {
    let signer = random.pick(&[
        "kubernetes.io/kubelet-serving",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kube-apiserver-client",
        "example.com/s",
        "",
    ]);
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "r"}, "spec": {"signerName": signer, "request": BASE64_STANDARD.encode(pem(random)), "usages": []}});
    json!({
        "operation": random.mostly("CREATE", &["UPDATE"]),
        "resource": resource("certificates.k8s.io", "v1", "certificatesigningrequests"),
        "name": "r",
        "object": object.clone(),
        "oldObject": object,
        "features": random.mostly(json!({}), &[json!({"AllowInsecureKubeletCertificateSigningRequests": true})]),
    })
}

fn claim(random: &mut Random) -> Value {
    let mut old = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns", "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "volumeName": "pv",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
    let changes: [(&str, Value); 34] = [
        ("/metadata/resourceVersion", json!("2")),
        ("/metadata/resourceVersion", json!("")),
        ("/metadata/managedFields", json!([{"manager": "m"}])),
        ("/metadata/labels", json!({"a": "b"})),
        ("/metadata/labels", json!({})),
        ("/metadata/labels", json!({"a": ""})),
        ("/metadata/annotations", json!({"a": "b"})),
        ("/metadata/finalizers", json!(["f"])),
        ("/metadata/finalizers", json!([])),
        ("/metadata/generation", json!(2)),
        (
            "/metadata/ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
        ),
        ("/spec/volumeName", json!("other")),
        ("/spec/volumeName", json!("")),
        ("/spec/resources/requests", json!({"storage": "1024Mi"})),
        ("/spec/resources/requests", json!({"storage": "2Gi"})),
        (
            "/spec/resources/requests",
            json!({"storage": "1Gi", "x": "0"}),
        ),
        ("/spec/resources/limits", json!({})),
        ("/spec/storageClassName", json!("")),
        ("/spec/storageClassName", json!("fast")),
        (
            "/spec/accessModes",
            json!(["ReadWriteOnce", "ReadOnlyMany"]),
        ),
        ("/spec/selector", json!({})),
        ("/spec/selector", json!({"matchLabels": {}})),
        ("/spec/dataSource", json!({"kind": "k", "name": "n"})),
        ("/spec/volumeAttributesClassName", json!("gold")),
        ("/status/phase", json!("Lost")),
        ("/status/capacity", json!({"storage": "2Gi"})),
        ("/status/capacity", Value::Null),
        (
            "/status/conditions",
            json!([{"type": "Resizing", "status": "True"}]),
        ),
        ("/status/allocatedResources", json!({"storage": "2Gi"})),
        (
            "/status/allocatedResourceStatuses",
            json!({"storage": "NodeResizePending"}),
        ),
        ("/status/accessModes", json!([])),
        ("/status/currentVolumeAttributesClassName", json!("")),
        ("/status/modifyVolumeStatus", json!({"status": ""})),
        ("/spec/volumeMode", json!("Block")),
    ];
    let set = |object: &mut Value, (path, value): (&str, Value)| {
        let (part, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(part).unwrap()[field] = value;
    };
    if random.chance(20) {
        set(&mut old, random.pick(&changes));
    }
    let mut new = old.clone();
    for _ in 0..random.below(3) {
        set(&mut new, random.pick(&changes));
    }
    json!({
        "operation": "UPDATE",
        "resource": resource("", "v1", "persistentvolumeclaims"),
        "subresource": random.mostly("status", &["", "x"]),
        "namespace": "ns",
        "name": "c",
        "object": new,
        "oldObject": old,
    })
}

/// DefaultTolerationSeconds: for every user alike.
fn tolerations(random: &mut Random) -> Value {
    let toleration = |random: &mut Random| {
        let mut toleration = json!({});
        let key = random.pick(&[
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "",
            "a",
            "node.kubernetes.io/not-read",
        ]);
        if random.chance(90) {
            toleration["key"] = json!(key);
        }
        if random.chance(60) {
            toleration["operator"] = json!(random.pick(&["Exists", "Equal", "Lt", "Gt"]));
        }
        if random.chance(70) {
            toleration["effect"] =
                json!(random.pick(&["NoExecute", "NoExecute", "NoSchedule", "PreferNoSchedule"]));
        }
        if random.chance(30) {
            toleration["tolerationSeconds"] = json!(random.pick(&[0, -1, 10, 300]));
        }
        if random.chance(20) {
            toleration["value"] = json!("x");
        }
        toleration
    };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if random.chance(85) {
        let list: Vec<Value> = (0..random.below(5)).map(|_| toleration(random)).collect();
        pod["spec"]["tolerations"] = random.mostly(json!(list), &[Value::Null]);
    }
    let operation = random.mostly("CREATE", &["UPDATE", "DELETE"]);
    json!({
        "plugin": "defaulttolerationseconds",
        "operation": operation,
        "resource": resource("", "v1", "pods"),
        "subresource": random.mostly("", &["status", "binding"]),
        "namespace": "ns",
        "name": "p",
        "user": {"name": "anybody", "groups": []},
        "object": if operation == "DELETE" { Value::Null } else { pod.clone() },
        "oldObject": if operation == "CREATE" { Value::Null } else { pod },
        "notReadySeconds": random.pick(&[Value::Null, json!(0), json!(-5), json!(60)]),
        "unreachableSeconds": random.pick(&[Value::Null, json!(0), json!(9_999)]),
    })
}
