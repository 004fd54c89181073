//! Nodes as clouds and distributions make them, each with the findings that it must have, and no
//! others. A row is healthy unless its name says what is wrong.

mod clouds;
mod distributions;

use jiff::{SignedDuration, Timestamp};
use nodelife_audit::Selection;
use nodelife_core::object::{Lease, Node, NodeAddress, NodeCondition, NodeSwap, Taint};
use nodelife_core::snapshot::{Snapshot, Source};

/// A node: what differs between kinds.
struct Kind {
    name: &'static str,
    kubelet: &'static str,
    image: &'static str,
    kernel: &'static str,
    runtime: &'static str,
    provider_id: &'static str,
    labels: &'static [(&'static str, &'static str)],
    /// Resource, Capacity, Allocatable.
    resources: &'static [(&'static str, &'static str, &'static str)],
    change: fn(&mut Node),
    /// Rules that find something, in order.
    finds: &'static [&'static str],
}

const PLAIN: Kind = Kind {
    name: "plain",
    kubelet: "v1.36.2",
    image: "Ubuntu 24.04.4 LTS",
    kernel: "6.8.0-88-generic",
    runtime: "containerd://2.1.5",
    provider_id: "",
    labels: &[],
    resources: &[
        ("cpu", "4", "3800m"),
        ("memory", "16Gi", "15Gi"),
        ("ephemeral-storage", "100Gi", "90Gi"),
        ("pods", "110", "110"),
    ],
    change: |_| (),
    finds: &[],
};

/// 2 CPUs and 7.75 GiB that AKS sells as 8 GiB.
const AKS: Kind = Kind {
    name: "AKS 1.36",
    image: "Ubuntu 22.04.5 LTS",
    provider_id: "azure:///subscriptions/s/resourceGroups/g/providers/m/pool/virtualMachines/0",
    labels: &[
        ("kubernetes.azure.com/agentpool", "one"),
        ("kubernetes.azure.com/sku-memory", "8192"),
        ("kubernetes.azure.com/sku-cpu", "2"),
    ],
    resources: &[
        ("cpu", "2", "1900m"),
        ("memory", "8129936Ki", "5930384Ki"),
        ("ephemeral-storage", "129886128Ki", "119703055367"),
        ("pods", "110", "110"),
    ],
    ..PLAIN
};

const GKE: Kind = Kind {
    name: "GKE 1.36 standard",
    kubelet: "v1.36.2-gke.1000000",
    image: "Container-Optimized OS from Google",
    kernel: "6.12.55+",
    provider_id: "gce://project/europe-west1-d/node",
    labels: &[
        ("cloud.google.com/gke-nodepool", "one"),
        ("node.kubernetes.io/instance-type", "n2-standard-4"),
    ],
    resources: &[
        ("cpu", "4", "3920m"),
        ("memory", "16380004Ki", "13591652Ki"),
        ("ephemeral-storage", "98831908Ki", "47060071478"),
        ("pods", "110", "110"),
    ],
    ..PLAIN
};

const EKS: Kind = Kind {
    name: "EKS 1.36, Amazon Linux 2023",
    kubelet: "v1.36.2-eks-1a2b3c4",
    image: "Amazon Linux 2023.9.20261001",
    kernel: "6.12.40-64.114.amzn2023.x86_64",
    provider_id: "aws:///eu-central-1a/i-0123456789abcdef0",
    labels: &[("eks.amazonaws.com/nodegroup", "one")],
    // 29 pods: 574 Mi and 100 Mi.
    resources: &[
        ("cpu", "2", "1930m"),
        ("memory", "7910Mi", "7236Mi"),
        ("ephemeral-storage", "83864556Ki", "76224326324"),
        ("pods", "29", "29"),
    ],
    ..PLAIN
};

const FARGATE: Kind = Kind {
    name: "EKS Fargate",
    labels: &[("eks.amazonaws.com/compute-type", "fargate")],
    image: "Amazon Linux 2",
    kernel: "5.10.240-238.959.amzn2.x86_64",
    runtime: "containerd://1.6.6",
    kubelet: "v1.33.5-eks-1a2b3c4",
    // Nothing is reserved, and the one pod fills it.
    resources: &[
        ("cpu", "2", "2"),
        ("memory", "3977Mi", "3877Mi"),
        ("ephemeral-storage", "30832548Ki", "28415276190"),
        ("pods", "1", "1"),
    ],
    ..EKS
};

const OPENSHIFT: Kind = Kind {
    name: "OpenShift 4.22 worker",
    kubelet: "v1.35.2",
    image: "Red Hat Enterprise Linux CoreOS 9.6.20261001-0 (Plow)",
    kernel: "5.14.0-570.60.1.el9_6.x86_64",
    runtime: "cri-o://1.35.2",
    labels: &[
        ("node.openshift.io/os_id", "rhcos"),
        ("node-role.kubernetes.io/worker", ""),
    ],
    resources: &[
        ("cpu", "4", "3500m"),
        ("memory", "16Gi", "15260Mi"),
        ("ephemeral-storage", "100Gi", "91Gi"),
        ("pods", "250", "250"),
    ],
    ..PLAIN
};

const RKE2: Kind = Kind {
    name: "RKE2 server",
    kubelet: "v1.36.1+rke2r1",
    runtime: "containerd://2.1.5-k3s1",
    provider_id: "rke2://node",
    labels: &[
        ("node-role.kubernetes.io/control-plane", "true"),
        ("node-role.kubernetes.io/etcd", "true"),
    ],
    change: |node| {
        condition(node, "EtcdIsVoter", "True");
        // Since it joined.
        let joined = node.metadata.creation_timestamp;
        for condition in &mut node.status.conditions {
            condition.last_transition_time = joined;
        }
    },
    ..PLAIN
};

const NOTHING_RESERVED: &[(&str, &str, &str)] = &[
    ("cpu", "4", "4"),
    ("memory", "16Gi", "16Gi"),
    ("ephemeral-storage", "100Gi", "95Gi"),
    ("pods", "110", "110"),
];

const VIRTUAL: Kind = Kind {
    name: "AKS virtual node",
    kubelet: "v1.25.0-vk-azure-aci-1.6.2",
    image: "",
    kernel: "",
    runtime: "",
    labels: &[
        ("type", "virtual-kubelet"),
        ("kubernetes.azure.com/managed", "false"),
        ("kubernetes.io/os", "linux"),
        (
            "node.kubernetes.io/exclude-from-external-load-balancers",
            "true",
        ),
    ],
    resources: &[
        ("cpu", "10k", "10k"),
        ("memory", "4Ti", "4Ti"),
        ("pods", "5k", "5k"),
    ],
    change: |node| node.status.node_info.operating_system = "Linux".into(),
    ..PLAIN
};

fn condition(node: &mut Node, kind: &str, status: &str) {
    node.status.conditions.retain(|known| known.kind != *kind);
    node.status.conditions.push(NodeCondition {
        kind: kind.into(),
        status: status.into(),
        last_heartbeat_time: Some(now()),
        last_transition_time: Some(now() - SignedDuration::from_hours(1)),
        ..NodeCondition::default()
    });
}

fn swap(node: &mut Node) {
    node.status.node_info.swap = Some(NodeSwap { capacity: 8 << 30 });
}

fn hostname(node: &mut Node, name: &str) {
    node.status.addresses.push(NodeAddress {
        kind: "Hostname".into(),
        address: name.into(),
    });
}

fn taint(node: &mut Node, key: &str) {
    node.spec.taints.push(Taint {
        key: key.into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    });
}

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![PLAIN, AKS, GKE, EKS, FARGATE, OPENSHIFT, RKE2, VIRTUAL];
    kinds.extend(clouds::azure());
    kinds.extend(clouds::google_and_amazon());
    kinds.extend(distributions::openshift());
    kinds.extend(distributions::rancher());
    kinds.extend(distributions::small());
    kinds.extend(distributions::by_hand());
    kinds
}

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn node_of(kind: &Kind) -> Node {
    let mut node = Node::default();
    let meta = &mut node.metadata;
    meta.name = "node".into();
    meta.uid = "4a6e6f64".into();
    meta.creation_timestamp = Some(now() - SignedDuration::from_hours(24 * 30));
    let labels = kind.labels.iter().copied();
    meta.labels = labels
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    node.spec.provider_id = kind.provider_id.into();
    for (name, capacity, allocatable) in kind.resources.iter().copied() {
        let status = &mut node.status;
        status.capacity.insert(name.into(), capacity.into());
        status.allocatable.insert(name.into(), allocatable.into());
    }
    let info = &mut node.status.node_info;
    info.kubelet_version = kind.kubelet.into();
    info.os_image = kind.image.into();
    info.kernel_version = kind.kernel.into();
    info.container_runtime_version = kind.runtime.into();
    info.operating_system = "linux".into();
    info.architecture = "amd64".into();
    node.status.addresses.push(NodeAddress {
        kind: "InternalIP".into(),
        address: "10.0.0.1".into(),
    });
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        condition(&mut node, kind, "False");
    }
    condition(&mut node, "Ready", "True");
    (kind.change)(&mut node);
    node
}

#[test]
fn nodes_of_every_kind_have_their_findings_and_no_others() {
    let mut wrong = Vec::new();
    let kinds = kinds();
    assert!(kinds.len() >= 40, "{}", kinds.len());
    for kind in kinds {
        let mut snapshot = Snapshot {
            taken_at: Some(now()),
            nodes: vec![node_of(&kind)],
            missing: [(Source::Pods, "not requested".into())].into(),
            ..Snapshot::default()
        };
        let mut lease = Lease::default();
        lease.metadata.name = "node".into();
        lease.spec.renew_time = Some(now());
        snapshot.leases.push(lease);
        let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now());
        let mut found: Vec<_> = audit.findings.iter().map(|f| f.rule.as_str()).collect();
        let mut expected = kind.finds.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        if found != expected {
            let messages = audit
                .findings
                .iter()
                .map(|f| format!("{}: {}", f.rule, f.message));
            let messages: Vec<_> = messages.collect();
            wrong.push(format!(
                "{}: {messages:#?}, expected {expected:?}",
                kind.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
