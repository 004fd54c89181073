//! Kinds of the large cluster, and the fields that differ between its objects.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::object;
use super::size::{LARGEST, NAMESPACES, REPLICAS, Size};

/// One kind, or one sort of its objects.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The collection that the template is created in.
    pub(super) path: &'static str,
    /// Where etcd has them.
    pub(super) prefix: &'static str,
    pub(super) count: fn(Size) -> usize,
    /// What differs: UID, name, then the namespace, if it is in one, and the rest.
    pub(super) words: fn(usize, Size) -> Vec<String>,
    /// The object with these words in it.
    pub(super) object: fn(&[String]) -> Value,
    /// Which of several sorts this is, and of how many: workloads take turns.
    pub(super) sort: (usize, usize),
}

/// All of them; what others refer to goes first.
pub(super) static KINDS: [Kind; 9] = [
    Kind {
        name: "nodes",
        path: "/api/v1/nodes",
        prefix: "/registry/minions/",
        count: |size| size.nodes,
        words: node,
        object: object::node,
        sort: (0, 1),
    },
    Kind {
        name: "leases",
        path: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        prefix: "/registry/leases/kube-node-lease/",
        count: |size| size.nodes,
        words: |number, _| vec![uid("lease", number), node_name(number), uid("node", number)],
        object: object::lease,
        sort: (0, 1),
    },
    Kind {
        name: "csinodes",
        path: "/apis/storage.k8s.io/v1/csinodes",
        prefix: "/registry/csinodes/",
        count: |size| size.nodes,
        words: |number, _| {
            vec![
                uid("csinode", number),
                node_name(number),
                uid("node", number),
            ]
        },
        object: object::csi_node,
        sort: (0, 1),
    },
    Kind {
        name: "deployments",
        path: "/apis/apps/v1/namespaces/team-99/deployments",
        prefix: "/registry/deployments/",
        count: workloads,
        words: |number, _| vec![uid("deployment", number), app(number), namespace(number)],
        object: object::deployment,
        sort: (0, 1),
    },
    Kind {
        name: "replicasets",
        path: "/apis/apps/v1/namespaces/team-99/replicasets",
        prefix: "/registry/replicasets/",
        count: workloads,
        words: |number, _| {
            vec![
                uid("replicaset", number),
                replica_set(number),
                namespace(number),
                app(number),
                uid("deployment", number),
            ]
        },
        object: object::replica_set,
        sort: (0, 1),
    },
    Kind {
        name: "poddisruptionbudgets",
        path: "/apis/policy/v1/namespaces/team-99/poddisruptionbudgets",
        prefix: "/registry/poddisruptionbudgets/",
        count: workloads,
        words: |number, _| vec![uid("budget", number), app(number), namespace(number)],
        object: object::budget,
        sort: (0, 5),
    },
    pods("pods, small", object::small_pod, 0),
    pods("pods, large", object::large_pod, 1),
    pods("pods, with a sidecar", object::sidecar_pod, 2),
];

const fn pods(name: &'static str, object: fn(&[String]) -> Value, sort: usize) -> Kind {
    Kind {
        name,
        path: "/api/v1/namespaces/team-99/pods",
        prefix: "/registry/pods/",
        count: |size| size.pods,
        words: pod,
        object,
        sort: (sort, 3),
    }
}

impl Kind {
    /// The numbers of the objects that are of this sort.
    pub(super) fn numbers(&self, size: Size) -> impl Iterator<Item = usize> {
        let (sort, sorts) = self.sort;
        let a_turn = if self.prefix == "/registry/pods/" {
            REPLICAS
        } else {
            1
        };
        (0..(self.count)(size)).filter(move |number| number / a_turn % sorts == sort)
    }

    /// The number of the template: no clone has it.
    pub(super) fn template(&self) -> usize {
        if self.prefix == "/registry/pods/" {
            LARGEST * REPLICAS
        } else {
            LARGEST
        }
    }

    /// Where etcd has the object of these words.
    pub(super) fn key(&self, words: &[String]) -> String {
        let word = |index: usize| words.get(index).map_or("", String::as_str);
        if self.path.contains("/team-99/") {
            format!("{}{}/{}", self.prefix, word(2), word(1))
        } else {
            format!("{}{}", self.prefix, word(1))
        }
    }
}

fn workloads(size: Size) -> usize {
    size.pods.div_ceil(REPLICAS)
}

fn node(number: usize, _: Size) -> Vec<String> {
    vec![
        uid("node", number),
        node_name(number),
        format!("172.{}", address(number)),
        address(number),
        hex("machine", number, 32),
        uid("system", number),
        uid("boot", number),
        format!("zone-{}", if number == LARGEST { 9 } else { number % 3 }),
    ]
}

fn pod(number: usize, size: Size) -> Vec<String> {
    let (workload, replica) = (number / REPLICAS, number % REPLICAS);
    let on = if workload == LARGEST {
        LARGEST
    } else {
        number % size.nodes
    };
    vec![
        uid("pod", number),
        format!("{}-p{replica:04}", replica_set(workload)),
        namespace(workload),
        app(workload),
        uid("replicaset", workload),
        node_name(on),
        format!("10.{}", address(number)),
        format!("172.{}", address(on)),
        hex("container", number, 64),
        hex("configuration", workload, 64),
    ]
}

/// The name of the node of this number, from 0 on.
pub fn node_name(number: usize) -> String {
    format!("node-{number:05}.internal")
}

/// A pod beside those of the same workload: its name, UID and address are its own.
pub(super) fn another_pod(number: usize, size: Size) -> Vec<String> {
    let beside = number % size.pods;
    let own = [
        (0, uid("another", number)),
        (
            1,
            format!(
                "{}-p{:04}",
                replica_set(beside / REPLICAS),
                1000 + number % 9000
            ),
        ),
        (6, format!("10.{}", address(size.pods + number))),
        (8, hex("another", number, 64)),
    ];
    let mut words = pod(beside, size);
    for (index, own) in own {
        if let Some(word) = words.get_mut(index) {
            *word = own;
        }
    }
    words
}

fn app(workload: usize) -> String {
    format!("app-{workload:05}")
}

fn replica_set(workload: usize) -> String {
    format!("{}-7d9c5b8f64", app(workload))
}

fn namespace(workload: usize) -> String {
    let number = if workload == LARGEST {
        99
    } else {
        workload % NAMESPACES
    };
    format!("team-{number:02}")
}

/// The last three parts of an address, three digits each.
fn address(number: usize) -> String {
    const ROOM: usize = 256 - 100;
    let part = |number: usize| 100 + number % ROOM;
    format!(
        "{}.{}.{}",
        part(number / ROOM / ROOM),
        part(number / ROOM),
        part(number)
    )
}

fn uid(kind: &str, number: usize) -> String {
    let hex = hex(kind, number, 32);
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-4{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    )
}

/// Digits that compress as badly as random ones, and are the same in every run.
fn hex(kind: &str, number: usize, width: usize) -> String {
    let mut digits = String::new();
    while digits.len() < width {
        let mut hasher = DefaultHasher::new();
        (kind, number, digits.len()).hash(&mut hasher);
        let _ = write!(digits, "{:016x}", hasher.finish());
    }
    digits.truncate(width);
    digits
}
