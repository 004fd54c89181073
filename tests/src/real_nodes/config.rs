//! Configurations of a node's programs.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::manners::PAUSE;
use super::missing;
use crate::{cgroup, fixture};

/// Where a node's kubelet reads the manifests of static pods.
pub(super) const STATIC_PODS: &str = "/run/static-pods";

/// The range of all pods, and of the Services.
const PODS: &str = "10.78.0.0/16";
pub(super) const SERVICES: &str = "10.96.0.0/16";

/// The first address of [`SERVICES`], which the Service `kubernetes` gets.
pub(super) const KUBERNETES: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// The control plane's address on the bridge.
pub(super) const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// How long kube-controller-manager waits for a silent node. With the Lease's duration below, a
/// dead node is Unknown after 10 s instead of 50.
pub const GRACE: &str = "10s";

/// The address of a node.
pub(super) fn address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, index.saturating_add(10))
}

/// The addresses of a node's pods.
pub(super) fn pods(index: u8) -> String {
    format!("10.78.{index}.0/24")
}

/// A KubeletConfiguration as a careful operator writes it.
pub(super) fn kubelet(authority: &Path, cgroup_root: &str) -> Value {
    let mut kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup_root,
        "failSwapOn": false,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "staticPodPath": STATIC_PODS,
        "resolvConf": "/run/resolv.conf",
        // Nobody answers there; without it each pod gets a warning.
        "clusterDNS": ["10.96.0.10"],
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": authority},
        },
        "authorization": {"mode": "Webhook"},
        // A heartbeat every 2 s: a dead node is noticed in seconds.
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "5s",
        "nodeStatusReportFrequency": "1m",
        // Something in every term of Allocatable.
        "kubeReserved": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "1Gi"},
        "systemReserved": {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "512Mi"},
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
            "imagefs.inodesFree": "1%",
        },
        // As late as an operator may: on a machine whose disk is fuller, the kubelet removes every
        // image that no container uses at that moment, and nobody could bring it back.
        "imageGCHighThresholdPercent": 98,
        // A pod sees the new content of a mounted Secret after seconds, not after a minute.
        "syncFrequency": "5s",
        "maxPods": 60,
        "podPidsLimit": 1000,
        "rotateCertificates": true,
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "10s",
    });
    if !cgroup::is_v2() {
        fixture::merge(&mut kubelet, json!({"failCgroupV1": false}));
    }
    kubelet
}

/// A `KubeProxyConfiguration`. `name` is the Node whose address kube-proxy takes for its own.
pub(super) fn kube_proxy(name: &str, address: Ipv4Addr, kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": name,
        "bindAddress": address,
        "clientConnection": {"kubeconfig": kubeconfig},
        "clusterCIDR": PODS,
        "detectLocalMode": "ClusterCIDR",
        // Not for a network namespace to set.
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms"},
    })
}

/// A bridge for the pods of one node.
pub(super) fn cni(index: u8) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                // A pod that reaches itself through a Service.
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": pods(index)}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// containerd's configuration, for a state folder on the file system of `folder`.
pub(super) fn containerd(folder: &Path, systemd_cgroups: bool) -> Result<String> {
    Ok(include_str!("../../real-nodes/containerd.toml")
        .replace("@SYSTEMD@", &systemd_cgroups.to_string())
        .replace("@PAUSE@", PAUSE)
        .replace("@CNI@", &missing::cni()?.display().to_string())
        .replace("@SNAPSHOTTER@", snapshotter(folder)?))
}

/// One overlay cannot lie on another: there, containerd copies each layer.
fn snapshotter(folder: &Path) -> Result<&'static str> {
    let folder = fs::canonicalize(folder)?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let of_folder = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    Ok(match of_folder {
        Some((_, "overlay")) => "native",
        _ => "overlayfs",
    })
}
