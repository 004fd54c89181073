//! Nodes of distributions, and of clusters that are set up by hand.

use super::{
    Kind, NOTHING_RESERVED, OPENSHIFT, PLAIN, RKE2, VIRTUAL, condition, hostname, swap, taint,
};

pub(super) fn openshift() -> [Kind; 6] {
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

pub(super) fn rancher() -> [Kind; 8] {
    [
        Kind {
            name: "RKE2 server that is no voter of etcd",
            change: |node| condition(node, "EtcdIsVoter", "False"),
            finds: &["NL-HB-017"],
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
        // Both start their kubelet with --fail-swap-on=false.
        Kind {
            name: "k3s with swap",
            kubelet: "v1.36.1+k3s1",
            provider_id: "k3s://node",
            labels: &[],
            change: swap,
            ..RKE2
        },
        Kind {
            name: "RKE2 with swap",
            change: swap,
            ..RKE2
        },
        Kind {
            name: "Harvester",
            image: "Harvester v1.7.0",
            ..RKE2
        },
    ]
}

pub(super) fn small() -> [Kind; 9] {
    [
        Kind {
            name: "kind",
            provider_id: "kind://docker/kind/node",
            resources: &[
                ("cpu", "4", "4"),
                ("memory", "16Gi", "16Gi"),
                ("ephemeral-storage", "100Gi", "100Gi"),
                ("pods", "110", "110"),
            ],
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
        Kind {
            name: "KWOK as kwokctl scales it",
            kubelet: "kwok-v0.7.0",
            provider_id: "kwok://node",
            labels: &[("type", "kwok")],
            resources: NOTHING_RESERVED,
            ..VIRTUAL
        },
        Kind {
            name: "KWOK of a version of the author's choice",
            labels: &[],
            change: |node| taint(node, "kwok.x-k8s.io/node"),
            resources: NOTHING_RESERVED,
            ..PLAIN
        },
        Kind {
            name: "another cluster, by Liqo",
            kubelet: "v1.36.2",
            labels: &[("liqo.io/type", "virtual-node")],
            resources: NOTHING_RESERVED,
            ..VIRTUAL
        },
        Kind {
            name: "minikube without its labels",
            image: "Buildroot 2025.02",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..PLAIN
        },
        Kind {
            name: "Docker Desktop",
            image: "Docker Desktop",
            kernel: "6.12.54-linuxkit",
            runtime: "docker://29.0.1",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..PLAIN
        },
    ]
}

pub(super) fn by_hand() -> [Kind; 12] {
    [
        Kind {
            name: "kubeadm as installed",
            resources: NOTHING_RESERVED,
            finds: &["NL-RES-001"],
            ..PLAIN
        },
        Kind {
            name: "KubeSphere, whose evictionHard leaves out the disk",
            resources: &[
                ("cpu", "4", "3600m"),
                ("memory", "16Gi", "15Gi"),
                ("ephemeral-storage", "100Gi", "100Gi"),
                ("pods", "110", "110"),
            ],
            finds: &["NL-RES-025"],
            ..PLAIN
        },
        Kind {
            name: "kubeadm control plane with the old taint",
            labels: &[("node-role.kubernetes.io/control-plane", "")],
            change: |node| taint(node, "node-role.kubernetes.io/master"),
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
            name: "kubeadm 1.35 with containerd 1.6",
            kubelet: "v1.35.3",
            runtime: "containerd://1.6.39",
            finds: &["NL-VER-004"],
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
            name: "DigitalOcean, a NodeReadinessRule still waits",
            provider_id: "digitalocean://123456",
            change: |node| taint(node, "readiness.k8s.io/example.com/network"),
            finds: &["NL-TNT-012"],
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
