//! `Profile`: what is compared of a cluster.

use std::collections::BTreeMap;

use crate::most_common;
use nodelife_core::object::Pod;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::taint::{NO_EXECUTE, UNREACHABLE};
use nodelife_core::version::Version;

/// The fields of a kubelet's configuration that belong to one cluster or one machine.
const OF_ITS_OWN: [&str; 10] = [
    "apiVersion",
    "kind",
    "address",
    "clusterDNS",
    "clusterDomain",
    "providerID",
    "registerWithTaints",
    "reservedMemory",
    "reservedSystemCPUs",
    "staticPodURL",
];

/// The usual values of a cluster's nodes and pods; absent where they could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Minor version of the API server: `1.36`.
    pub version: Option<String>,
    /// Container runtime and its minor version: `containerd 2.1`.
    pub runtime: Option<String>,
    /// For how long pods tolerate an unreachable node: `300s`.
    pub toleration: Option<String>,
    /// Settings of the kubelets by field, as JSON; empty if none was read.
    pub settings: BTreeMap<String, String>,
}

impl Profile {
    pub fn of(snapshot: &Snapshot) -> Self {
        let server = snapshot.server_version.as_deref();
        let runtimes = snapshot.nodes.iter();
        let runtimes =
            runtimes.filter_map(|node| runtime(&node.status.node_info.container_runtime_version));
        let pods_read = snapshot.why_missing(Source::Pods).is_none();
        let pods = snapshot.pods.iter().filter(|_| pods_read);
        Self {
            version: server.and_then(Version::parse).map(minor),
            runtime: most_common(runtimes),
            toleration: most_common(pods.filter_map(tolerated))
                .map(|seconds| format!("{seconds}s")),
            settings: settings(snapshot),
        }
    }
}

fn minor(version: Version) -> String {
    format!("{}.{}", version.major, version.minor)
}

/// `containerd://2.1.4-k3s1` → `containerd 2.1`
fn runtime(text: &str) -> Option<String> {
    let (name, version) = text.split_once("://")?;
    let version = Version::parse(version)?;
    Some(format!("{name} {}", minor(version)))
}

/// For how long the pod tolerates an unreachable node, if not for ever.
fn tolerated(pod: &Pod) -> Option<i64> {
    let mut tolerations = pod.spec.tolerations.iter();
    let toleration = tolerations
        .find(|toleration| toleration.key == UNREACHABLE && toleration.effect == NO_EXECUTE)?;
    toleration.toleration_seconds
}

/// For each field the value that most kubelets have.
fn settings(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for config in snapshot.kubelet_configs.values() {
        // A configuration of plain values can be written.
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(config) else {
            continue;
        };
        for (field, value) in fields {
            if !OF_ITS_OWN.contains(&field.as_str()) {
                values.entry(field).or_default().push(value.to_string());
            }
        }
    }
    let usual = |(field, values)| Some((field, most_common(values)?));
    values.into_iter().filter_map(usual).collect()
}
