//! Nodes as clouds and distributions make them, each with the findings that it must have, and no
//! others. A row is healthy unless its name says what is wrong.

use jiff::{SignedDuration, Timestamp};
use nodelife_core::audit::{self, Selection};
use nodelife_core::object::{Lease, Node, NodeAddress, NodeCondition, Taint};
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
    change: |node| condition(node, "EtcdIsVoter", "True"),
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
    kinds.extend(azure());
    kinds.extend(google_and_amazon());
    kinds.extend(openshift());
    kinds.extend(rancher());
    kinds.extend(small());
    kinds.extend(by_hand());
    kinds
}

fn azure() -> [Kind; 6] {
    [
        Kind {
            name: "AKS 1.28, before the change of the formula",
            kubelet: "v1.28.15",
            resources: &[
                ("cpu", "2", "1900m"),
                ("memory", "8152800Ki", "5497568Ki"),
                ("pods", "110", "110"),
            ],
            finds: &["NL-VER-003"],
            ..AKS
        },
        Kind {
            name: "AKS with half of the formula",
            resources: &[
                ("cpu", "2", "1900m"),
                ("memory", "8129936Ki", "7030160Ki"),
                ("pods", "110", "110"),
            ],
            finds: &["NL-RES-011"],
            ..AKS
        },
        Kind {
            name: "AKS Windows",
            image: "Windows Server 2022 Datacenter",
            kernel: "10.0.20348.4297",
            resources: &[
                ("cpu", "32", "31580m"),
                ("memory", "134217268Ki", "122348084Ki"),
                ("pods", "30", "30"),
            ],
            change: |node| node.status.node_info.operating_system = "windows".into(),
            ..AKS
        },
        Kind {
            name: "AKS, a reboot is scheduled",
            change: |node| condition(node, "VMEventScheduled", "True"),
            finds: &["NL-HB-013"],
            ..AKS
        },
        Kind {
            name: "AKS, no event is scheduled",
            change: |node| condition(node, "VMEventScheduled", "False"),
            ..AKS
        },
        Kind {
            name: "AKS on containerd 1.7 at 1.36",
            runtime: "containerd://1.7.28-1",
            finds: &["NL-VER-004"],
            ..AKS
        },
    ]
}

fn google_and_amazon() -> [Kind; 7] {
    [
        Kind {
            name: "GKE e2-small, which shares its cores",
            labels: &[
                ("cloud.google.com/gke-nodepool", "one"),
                ("node.kubernetes.io/instance-type", "e2-small"),
            ],
            resources: &[
                ("cpu", "2", "940m"),
                ("memory", "2024160Ki", "1397472Ki"),
                ("ephemeral-storage", "98831908Ki", "47060071478"),
                ("pods", "110", "110"),
            ],
            ..GKE
        },
        Kind {
            name: "GKE n2 with the reservation of shared cores",
            resources: &[
                ("cpu", "2", "940m"),
                ("memory", "16380004Ki", "13591652Ki"),
                ("pods", "110", "110"),
            ],
            finds: &["NL-RES-003", "NL-RES-011"],
            ..GKE
        },
        Kind {
            name: "GKE, whose Hostname is a full domain name",
            change: |node| hostname(node, "node.europe-west1-d.c.project.internal"),
            ..GKE
        },
        Kind {
            name: "GKE, a deprecated field of containerd's configuration",
            change: |node| {
                condition(
                    node,
                    "DeprecatedConfigsFieldInContainerdConfiguration",
                    "True",
                )
            },
            finds: &["NL-HB-013"],
            ..GKE
        },
        Kind {
            name: "EKS with more pods than the image computed for",
            resources: &[
                ("cpu", "2", "1930m"),
                ("memory", "7910Mi", "7236Mi"),
                ("pods", "58", "58"),
            ],
            finds: &["NL-RES-012", "NL-RES-011"],
            ..EKS
        },
        Kind {
            name: "EKS in extended support",
            kubelet: "v1.33.5-eks-1a2b3c4",
            finds: &["NL-VER-003"],
            ..EKS
        },
        Kind {
            name: "EKS Fargate with a domain name",
            change: |node| hostname(node, "ip-192-168-1-1.internal"),
            ..FARGATE
        },
    ]
}

fn openshift() -> [Kind; 6] {
    const MASTER: &[(&str, &str)] = &[
        ("node.openshift.io/os_id", "rhcos"),
        ("node-role.kubernetes.io/control-plane", ""),
        ("node-role.kubernetes.io/master", ""),
    ];
    [
        Kind {
            name: "OpenShift master, which is tainted master",
            labels: MASTER,
            change: |node| taint(node, "node-role.kubernetes.io/master"),
            ..OPENSHIFT
        },
        Kind {
            name: "OpenShift pool of its own with other reservations",
            labels: &[
                ("node.openshift.io/os_id", "rhcos"),
                ("node-role.kubernetes.io/worker", ""),
                ("node-role.kubernetes.io/worker-cnf", ""),
            ],
            resources: &[
                ("cpu", "4", "3"),
                ("memory", "16Gi", "10Gi"),
                ("pods", "250", "250"),
            ],
            ..OPENSHIFT
        },
        Kind {
            name: "OpenShift worker with other reservations",
            resources: &[
                ("cpu", "4", "3"),
                ("memory", "16Gi", "10Gi"),
                ("pods", "250", "250"),
            ],
            finds: &["NL-RES-011"],
            ..OPENSHIFT
        },
        Kind {
            name: "OpenShift 4.12 on RHEL 8",
            kubelet: "v1.25.16+1eb8682",
            runtime: "cri-o://1.25.5",
            kernel: "4.18.0-372.139.1.el8_6.x86_64",
            finds: &["NL-VER-003"],
            ..OPENSHIFT
        },
        Kind {
            name: "OpenShift on Google, whose Hostname is a full domain name",
            change: |node| hostname(node, "node.c.project.internal"),
            ..OPENSHIFT
        },
        Kind {
            name: "OpenShift single node",
            labels: &[
                ("node.openshift.io/os_id", "rhcos"),
                ("node-role.kubernetes.io/control-plane", ""),
                ("node-role.kubernetes.io/master", ""),
                ("node-role.kubernetes.io/worker", ""),
            ],
            ..OPENSHIFT
        },
    ]
}

fn rancher() -> [Kind; 6] {
    [
        Kind {
            name: "RKE2 server that is no voter of etcd",
            change: |node| condition(node, "EtcdIsVoter", "False"),
            finds: &["NL-HB-013"],
            ..RKE2
        },
        Kind {
            name: "RKE2 that offers hardly any ephemeral storage",
            resources: &[
                ("cpu", "4", "3500m"),
                ("memory", "8131816Ki", "7373759687"),
                ("ephemeral-storage", "29378688Ki", "231853216"),
                ("pods", "110", "110"),
            ],
            finds: &["NL-RES-003"],
            ..RKE2
        },
        Kind {
            name: "RKE2 as installed",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..RKE2
        },
        Kind {
            name: "k3s as installed",
            kubelet: "v1.36.1+k3s1",
            provider_id: "k3s://node",
            labels: &[],
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..RKE2
        },
        Kind {
            name: "k3s with reservations",
            kubelet: "v1.36.1+k3s1",
            provider_id: "k3s://node",
            labels: &[],
            ..RKE2
        },
        Kind {
            name: "Harvester",
            image: "Harvester v1.7.0",
            ..RKE2
        },
    ]
}

fn small() -> [Kind; 4] {
    [
        Kind {
            name: "kind",
            provider_id: "kind://docker/kind/node",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..PLAIN
        },
        Kind {
            name: "minikube with cri-dockerd",
            labels: &[("minikube.k8s.io/name", "minikube")],
            runtime: "docker://28.1.1",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..PLAIN
        },
        Kind {
            name: "KubeEdge",
            kubelet: "v1.36.1-kubeedge-v1.23.0",
            labels: &[("node-role.kubernetes.io/edge", "")],
            ..PLAIN
        },
        Kind {
            name: "virtual kubelet of another service",
            labels: &[],
            change: |node| taint(node, "virtual-kubelet.io/provider"),
            ..VIRTUAL
        },
    ]
}

fn by_hand() -> [Kind; 9] {
    [
        Kind {
            name: "kubeadm as installed",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..PLAIN
        },
        Kind {
            name: "kubeadm control plane with the old taint",
            labels: &[("node-role.kubernetes.io/control-plane", "")],
            change: |node| taint(node, "node-role.kubernetes.io/master"),
            finds: &["NL-TNT-007"],
            ..PLAIN
        },
        Kind {
            name: "kubeadm 1.23 with the taint of its time",
            kubelet: "v1.23.17",
            change: |node| taint(node, "node-role.kubernetes.io/master"),
            finds: &["NL-VER-003"],
            ..PLAIN
        },
        Kind {
            name: "kubeadm 1.23 with dockershim",
            kubelet: "v1.23.17",
            runtime: "docker://20.10.24",
            finds: &["NL-VER-003", "NL-VER-004"],
            ..PLAIN
        },
        Kind {
            name: "kubeadm 1.9, before condition taints",
            kubelet: "v1.9.11",
            runtime: "docker://17.3.3",
            change: |node| condition(node, "DiskPressure", "True"),
            finds: &["NL-HB-011", "NL-VER-003", "NL-VER-004"],
            ..PLAIN
        },
        Kind {
            name: "DigitalOcean",
            provider_id: "digitalocean://123456",
            image: "Debian GNU/Linux 12 (bookworm)",
            ..PLAIN
        },
        Kind {
            name: "Oracle",
            provider_id: "ocid1.instance.oc1.eu-frankfurt-1.abc",
            image: "Oracle Linux Server 8.10",
            kernel: "5.15.0-310.184.5.2.el8uek.x86_64",
            runtime: "cri-o://1.36.0",
            ..PLAIN
        },
        Kind {
            name: "Talos",
            image: "Talos (v1.12.0)",
            kernel: "6.18.1-talos",
            ..PLAIN
        },
        Kind {
            name: "CentOS 7",
            image: "CentOS Linux 7 (Core)",
            kernel: "3.10.0-1160.119.1.el7.x86_64",
            finds: &["NL-VER-005"],
            ..PLAIN
        },
    ]
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
        let audit = audit::audit(&snapshot, &Selection::default(), now());
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
