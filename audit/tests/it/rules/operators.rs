//! Pods of virtual machines, sandboxes, virtual kubelets, meshes and operators, and the budgets of
//! operators: they look unlike those of Deployments, and are no faults.

use nodelife_audit::Selection;
use nodelife_core::object::{Budget, Lease, Node, Pod};
use nodelife_core::snapshot::Snapshot;
use serde_json::{Value, json};

use super::cluster::{ago, healthy};

fn findings(snapshot: &Snapshot) -> Vec<String> {
    let audit = nodelife_audit::audit(snapshot, &Selection::default(), snapshot.taken_at.unwrap());
    let found = audit.findings.iter();
    found
        .map(|found| format!("{} {}: {}", found.rule, found.subject.name, found.message))
        .collect()
}

/// The toleration that admission adds.
fn waits(key: &str) -> Value {
    json!({
        "key": format!("node.kubernetes.io/{key}"),
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    })
}

/// A pod of an owner, on the node with this index.
fn pod(snapshot: &Snapshot, name: &str, index: usize, owner: &Value, change: Value) -> Pod {
    let since = ago(snapshot, 86_400).to_string();
    let mut pod = json!({
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": format!("uid-{name}"),
            "creationTimestamp": since,
            "labels": {"app": name},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": snapshot.nodes[index].metadata.name,
            "terminationGracePeriodSeconds": 30,
            "tolerations": [waits("not-ready"), waits("unreachable")],
            "containers": [{
                "name": "main",
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            }],
        },
        "status": {
            "phase": "Running",
            "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
        },
    });
    merge(&mut pod, change);
    serde_json::from_value(pod).unwrap()
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change,
    }
}

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": format!("uid-{name}"),
        "controller": true,
    })
}

/// A budget of an operator that allows nothing by itself.
fn closed(name: &str, app: &str, owner: &Value) -> Budget {
    let budget = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [owner]},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "disruptionsAllowed": 0,
            "expectedPods": 1,
        },
    });
    serde_json::from_value(budget).unwrap()
}

fn assert_clean(snapshot: &Snapshot) {
    let found = findings(snapshot);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_virtual_machine_is_no_fault() {
    let mut snapshot = healthy();
    let machine = owner("kubevirt.io/v1", "VirtualMachineInstance", "db-vm");
    let launcher = pod(
        &snapshot,
        "virt-launcher-db-vm-x7k2p",
        3,
        &machine,
        json!({
            "metadata": {
                "labels": {"kubevirt.io": "virt-launcher"},
                "annotations": {"descheduler.alpha.kubernetes.io/request-evict-only": ""},
            },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 90,
                "containers": [{
                    "name": "compute",
                    "resources": {
                        "requests": {
                            "cpu": "200m",
                            "memory": "1Gi",
                            "devices.kubevirt.io/kvm": "1",
                            "devices.kubevirt.io/tun": "1",
                        },
                        "limits": {"devices.kubevirt.io/kvm": "1"},
                    },
                }],
            },
        }),
    );
    for device in ["devices.kubevirt.io/kvm", "devices.kubevirt.io/tun"] {
        let status = &mut snapshot.nodes[3].status;
        status.capacity.insert(device.into(), "1k".into());
        status.allocatable.insert(device.into(), "1k".into());
    }
    // KubeVirt before 1.6 makes a budget for each machine; its webhook migrates on an eviction.
    let budget = closed(
        "kubevirt-disruption-budget-9k4vd",
        "virt-launcher-db-vm-x7k2p",
        &machine,
    );
    snapshot.budgets.push(budget);
    // The pod that the machine has left by a live migration.
    let mut left = launcher.clone();
    left.metadata.name = "virt-launcher-db-vm-4hq8c".into();
    left.metadata.uid = "left".into();
    left.status.phase = "Succeeded".into();
    snapshot.pods.extend([launcher, left]);
    assert_clean(&snapshot);
}

#[test]
fn a_sandbox_with_overhead_is_no_fault() {
    let mut snapshot = healthy();
    let set = owner("apps/v1", "ReplicaSet", "sandboxed-5d8f");
    let sandboxed = pod(
        &snapshot,
        "sandboxed-5d8f-abcde",
        4,
        &set,
        json!({"spec": {
            "runtimeClassName": "kata",
            "overhead": {"cpu": "250m", "memory": "160Mi"},
        }}),
    );
    snapshot.pods.push(sandboxed);
    assert_clean(&snapshot);
}

#[test]
fn a_virtual_kubelet_and_its_pods_are_no_fault() {
    let mut snapshot = healthy();
    let now = snapshot.taken_at.unwrap().to_string();
    let conditions: Vec<_> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .map(|kind| {
            json!({
                "type": kind,
                "status": if kind == "Ready" { "True" } else { "False" },
                "lastHeartbeatTime": now,
                "lastTransitionTime": ago(&snapshot, 86_400).to_string(),
            })
        })
        .to_vec();
    let node: Node = serde_json::from_value(json!({
        "metadata": {
            "name": "virtual-node",
            "uid": "virtual-node",
            "creationTimestamp": ago(&snapshot, 30 * 86_400).to_string(),
            "labels": {
                "type": "virtual-kubelet",
                "kubernetes.io/hostname": "virtual-node",
                "kubernetes.io/os": "linux",
                "kubernetes.io/role": "agent",
            },
        },
        "spec": {"taints": [{
            "key": "virtual-kubelet.io/provider",
            "value": "azure",
            "effect": "NoSchedule",
        }]},
        "status": {
            "capacity": {"cpu": "10k", "memory": "4Ti", "pods": "5k"},
            "allocatable": {"cpu": "10k", "memory": "4Ti", "pods": "5k"},
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "10.0.99.1"}],
            "nodeInfo": {
                "kubeletVersion": "v1.25.0-vk-azure-aci-1.6.2",
                "operatingSystem": "Linux",
                "architecture": "amd64",
            },
        },
    }))
    .unwrap();
    snapshot.nodes.push(node);
    let mut lease = Lease::default();
    lease.metadata.name = "virtual-node".into();
    lease.metadata.namespace = "kube-node-lease".into();
    lease.spec.renew_time = snapshot.taken_at;
    lease.spec.lease_duration_seconds = Some(40);
    snapshot.leases.push(lease);
    let set = owner("apps/v1", "ReplicaSet", "burst-77c9");
    let index = snapshot.nodes.len() - 1;
    let own = json!({"key": "virtual-kubelet.io/provider", "operator": "Exists"});
    let tolerations =
        json!({"spec": {"tolerations": [waits("not-ready"), waits("unreachable"), own]}});
    let burst = pod(&snapshot, "burst-77c9-abcde", index, &set, tolerations);
    snapshot.pods.push(burst);
    assert_clean(&snapshot);
}

#[test]
fn a_sidecar_of_a_mesh_is_no_fault() {
    let mut snapshot = healthy();
    let set = owner("apps/v1", "ReplicaSet", "checkout-6b5c");
    let meshed = pod(
        &snapshot,
        "checkout-6b5c-abcde",
        5,
        &set,
        json!({
            "metadata": {"annotations": {
                "sidecar.istio.io/status": "{}",
                "prometheus.io/scrape": "true",
            }},
            "spec": {
                "initContainers": [{
                    "name": "istio-proxy",
                    "restartPolicy": "Always",
                    "resources": {
                        "requests": {"cpu": "10m", "memory": "40Mi"},
                        "limits": {"cpu": "2", "memory": "1Gi"},
                    },
                }],
                "volumes": [{"name": "workload-socket", "emptyDir": {}}],
            },
        }),
    );
    snapshot.pods.push(meshed);
    assert_clean(&snapshot);
}

/// The primary of a cluster of two has a budget of its own; the operator moves the primary.
#[test]
fn a_budget_that_its_operator_lifts_is_no_fault() {
    let cluster = owner("postgresql.cnpg.io/v1", "Cluster", "orders");
    let mut snapshot = healthy();
    let primary = pod(&snapshot, "orders-1", 3, &cluster, json!({}));
    let standby = pod(&snapshot, "orders-2", 5, &cluster, json!({}));
    snapshot.pods.extend([primary, standby]);
    snapshot
        .budgets
        .push(closed("orders-primary", "orders-1", &cluster));
    assert_clean(&snapshot);
    // Without the workloads, the budget is judged by its status.
    let source = nodelife_core::snapshot::Source::Workloads;
    snapshot.missing.insert(source, "forbidden".into());
    assert_clean(&snapshot);
}

/// Strimzi's brokers belong to a set that is no workload of Kubernetes.
#[test]
fn pods_of_an_operators_own_resource_are_no_bare_pods() {
    let mut snapshot = healthy();
    let set = owner("core.strimzi.io/v1beta2", "StrimziPodSet", "events-broker");
    for (index, name) in ["events-broker-0", "events-broker-1"].iter().enumerate() {
        let broker = pod(&snapshot, name, 3 + index, &set, json!({}));
        snapshot.pods.push(broker);
    }
    assert_clean(&snapshot);
}
