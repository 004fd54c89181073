//! `explain allocatable --provider` against figures that nodes have published: equal to the byte.

use serde_json::{Value, json};

use crate::stdout;

/// A node, in the figures of its status.
struct Published {
    what: &'static str,
    provider: &'static str,
    kubelet: &'static str,
    label: (&'static str, &'static str),
    /// Resource, Capacity, Allocatable.
    resources: &'static [(&'static str, &'static str, &'static str)],
}

const PUBLISHED: &[Published] = &[
    Published {
        what: "EKS t3.medium",
        provider: "eks",
        kubelet: "v1.31.7-eks-1a2b3c4",
        label: ("node.kubernetes.io/instance-type", "t3.medium"),
        resources: &[
            ("cpu", "2", "1930m"),
            ("memory", "3967480Ki", "3412472Ki"),
            ("ephemeral-storage", "20959212Ki", "18242267924"),
            ("pods", "17", "17"),
        ],
    },
    Published {
        what: "EKS with 35 pods",
        provider: "eks",
        kubelet: "v1.33.5-eks-1a2b3c4",
        label: ("eks.amazonaws.com/nodegroup", "one"),
        resources: &[
            ("cpu", "2", "1930m"),
            ("memory", "8166336Ki", "7408576Ki"),
            ("ephemeral-storage", "20959212Ki", "18242267924"),
            ("pods", "35", "35"),
        ],
    },
    Published {
        what: "EKS with huge pages for enclaves",
        provider: "eks",
        kubelet: "v1.29.0-eks-1a2b3c4",
        label: ("eks.amazonaws.com/nodegroup", "one"),
        resources: &[
            ("cpu", "2", "1930m"),
            ("memory", "7958584Ki", "3796024Ki"),
            ("ephemeral-storage", "20959212Ki", "18242267924"),
            ("hugepages-1Gi", "3Gi", "3Gi"),
            ("hugepages-2Mi", "0", "0"),
            ("pods", "58", "58"),
        ],
    },
    Published {
        what: "GKE n2-standard-4",
        provider: "gke",
        kubelet: "v1.36.2-gke.1000000",
        label: ("node.kubernetes.io/instance-type", "n2-standard-4"),
        resources: &[
            ("cpu", "4", "3920m"),
            ("memory", "16380004Ki", "13591652Ki"),
            ("ephemeral-storage", "98831908Ki", "47060071478"),
            ("pods", "22", "22"),
        ],
    },
    Published {
        // Its memory depends on what the kernel had when the machine started first.
        what: "GKE e2-small, without memory",
        provider: "gke",
        kubelet: "v1.29.4-gke.1000000",
        label: ("node.kubernetes.io/instance-type", "e2-small"),
        resources: &[
            ("cpu", "2", "940m"),
            ("ephemeral-storage", "98831908Ki", "47060071478"),
            ("pods", "110", "110"),
        ],
    },
    Published {
        what: "AKS 1.18, 8 GiB",
        provider: "aks",
        kubelet: "v1.18.19",
        label: ("kubernetes.azure.com/role", "agent"),
        resources: &[
            ("cpu", "2", "1900m"),
            ("memory", "8152800Ki", "5497568Ki"),
            ("ephemeral-storage", "129900528Ki", "119716326407"),
            ("pods", "110", "110"),
        ],
    },
    Published {
        what: "AKS 1.32, 8 GiB by its label",
        provider: "aks",
        kubelet: "v1.32.7",
        label: ("kubernetes.azure.com/sku-memory", "8192"),
        resources: &[
            ("cpu", "2", "1900m"),
            ("memory", "8129936Ki", "5930384Ki"),
            ("ephemeral-storage", "129886128Ki", "119703055367"),
            ("pods", "110", "110"),
        ],
    },
    Published {
        what: "AKS 1.28 on Windows",
        provider: "aks",
        kubelet: "v1.28.12",
        label: ("kubernetes.azure.com/os-sku", "Windows2022"),
        resources: &[
            ("cpu", "32", "31580m"),
            ("memory", "134217268Ki", "122348084Ki"),
            ("ephemeral-storage", "133703676Ki", "133703676Ki"),
            ("pods", "30", "30"),
        ],
    },
    Published {
        what: "OpenShift 4.6",
        provider: "openshift",
        kubelet: "v1.19.0",
        label: ("node.openshift.io/os_id", "rhcos"),
        resources: &[
            ("cpu", "8", "7500m"),
            ("memory", "32933344Ki", "31782368Ki"),
            ("ephemeral-storage", "101796Mi", "94993016264"),
            ("pods", "250", "250"),
        ],
    },
    Published {
        what: "OpenShift 4.11, which reserves no storage",
        provider: "openshift",
        kubelet: "v1.24.0",
        label: ("node.openshift.io/os_id", "rhcos"),
        resources: &[
            ("cpu", "4", "3500m"),
            ("memory", "15373288Ki", "14222312Ki"),
            ("ephemeral-storage", "133682156Ki", "123201474766"),
            ("pods", "250", "250"),
        ],
    },
    Published {
        what: "RKE2",
        provider: "rke2",
        kubelet: "v1.33.5+rke2r1",
        label: ("node-role.kubernetes.io/etcd", "true"),
        resources: &[
            ("cpu", "16", "16"),
            ("memory", "32771532Ki", "32771532Ki"),
            ("ephemeral-storage", "438283648Ki", "426362332441"),
            ("pods", "110", "110"),
        ],
    },
    Published {
        what: "k3s",
        provider: "k3s",
        kubelet: "v1.33.4+k3s1",
        label: ("node.kubernetes.io/instance-type", "k3s"),
        resources: &[
            ("cpu", "2", "2"),
            ("memory", "8146056Ki", "8146056Ki"),
            ("ephemeral-storage", "51527500Ki", "50125951961"),
            ("pods", "110", "110"),
        ],
    },
];

fn node(published: &Published) -> Value {
    let amounts = |which: fn(&(&str, &str, &str)) -> String| -> serde_json::Map<String, Value> {
        let all = published.resources.iter();
        all.map(|one| (one.0.to_owned(), which(one).into()))
            .collect()
    };
    let (key, value) = published.label;
    let system = match value {
        "Windows2022" => "windows",
        _ => "linux",
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node", "labels": {key: value}},
        "status": {
            "capacity": amounts(|one| one.1.to_owned()),
            "allocatable": amounts(|one| one.2.to_owned()),
            "nodeInfo": {"kubeletVersion": published.kubelet, "operatingSystem": system},
        },
    })
}

#[test]
fn the_providers_formulas_give_the_published_figures() {
    let mut wrong = Vec::new();
    for published in PUBLISHED {
        let file = tempfile::NamedTempFile::with_suffix(".json").unwrap();
        std::fs::write(&file, node(published).to_string()).unwrap();
        let path = file.path().to_str().unwrap();
        let words = ["explain", "allocatable", "-f", path, "-o", "json"];
        let words = [&words[..], &["--provider", published.provider]].concat();
        let report: Value = serde_json::from_str(&stdout(&words, 0)).unwrap();
        for (name, line) in report["items"][0]["resources"].as_object().unwrap() {
            if line["allocatable"] != line["published"] {
                wrong.push(format!("{}: {name}: {line}", published.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
