//! Nodes of AKS, GKE and EKS.

use super::{AKS, EKS, FARGATE, GKE, Kind, condition, hostname, taint};

pub(super) fn azure() -> [Kind; 6] {
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
                ("ephemeral-storage", "133703676Ki", "133703676Ki"),
                ("pods", "30", "30"),
            ],
            change: |node| node.status.node_info.operating_system = "windows".into(),
            ..AKS
        },
        Kind {
            name: "AKS, a reboot is scheduled",
            change: |node| condition(node, "VMEventScheduled", "True"),
            finds: &["NL-HB-016"],
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

pub(super) fn google_and_amazon() -> [Kind; 10] {
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
            name: "GKE, whose conditions were cut out",
            change: |node| node.status.conditions.clear(),
            ..GKE
        },
        Kind {
            name: "EKS spot machine with a notice of its end",
            change: |node| taint(node, "aws-node-termination-handler/spot-itn"),
            finds: &["NL-HB-016"],
            ..EKS
        },
        Kind {
            name: "EKS, the node monitoring agent found a fault",
            change: |node| condition(node, "NetworkingReady", "False"),
            finds: &["NL-HB-013"],
            ..EKS
        },
        Kind {
            name: "EKS with more pods than the image computed for",
            resources: &[
                ("cpu", "2", "1930m"),
                ("memory", "7910Mi", "7236Mi"),
                ("pods", "58", "58"),
            ],
            finds: &["NL-RES-011"],
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
