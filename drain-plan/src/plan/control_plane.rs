//! Warnings about drained nodes that host etcd or the control plane.

use std::collections::BTreeSet;

use nodelife_core::object::{Node, Pod};
use nodelife_core::text::Str;

pub(super) struct ControlPlane<'a> {
    members: Vec<&'a Node>,
    servers: Vec<&'a Node>,
}

impl<'a> ControlPlane<'a> {
    pub(super) fn of(nodes: &'a [Node], pods: &[Pod]) -> Self {
        let roles = [
            "node-role.kubernetes.io/control-plane",
            "node-role.kubernetes.io/master",
        ];
        Self {
            members: hosts(nodes, pods, &["node-role.kubernetes.io/etcd"], "etcd"),
            servers: hosts(nodes, pods, &roles, "kube-apiserver"),
        }
    }
}

/// A sentence for each of the nodes that hosts a part of the control plane. The drain leaves its
/// static pods alone; a reboot of the node afterwards does not.
pub(super) fn quorum_warnings(drained: &[Str], hosts: &ControlPlane<'_>) -> Vec<String> {
    let warning = |name: &Str| {
        let among = |all: &[&Node]| {
            let is_one = all.iter().any(|node| node.metadata.name == *name);
            let up = |node: &&&Node| node.metadata.name != *name && node.is_ready();
            is_one.then(|| (all.len(), all.iter().filter(up).count()))
        };
        if let Some((all, up)) = among(&hosts.members) {
            let quorum = all / 2 + 1;
            let end = if up < quorum {
                ": etcd and the API server would stop"
            } else {
                ""
            };
            return Some(format!(
                "node/{name} hosts a member of etcd: while it is down, {up} of {all} members are \
                 up, and the quorum is {quorum}{end}"
            ));
        }
        let (all, up) = among(&hosts.servers)?;
        Some(format!(
            "node/{name} hosts the control plane: while it is down, {up} of {all} such nodes are \
             up; make sure that etcd keeps its quorum"
        ))
    };
    drained.iter().filter_map(warning).collect()
}

/// The nodes with one of these labels (kubeadm, k3s, RKE2), or with kubeadm's pod `COMPONENT-NODE`.
fn hosts<'a>(nodes: &'a [Node], pods: &[Pod], roles: &[&str], component: &str) -> Vec<&'a Node> {
    let of_component = |pod: &&Pod| {
        let name = pod.metadata.name.strip_prefix(component);
        let node = name.and_then(|rest| rest.strip_prefix('-'));
        node == Some(&*pod.spec.node_name) && pod.is_mirror()
    };
    let with_pod: BTreeSet<&Str> = pods
        .iter()
        .filter(of_component)
        .map(|pod| &pod.spec.node_name)
        .collect();
    let is_host = |node: &&Node| {
        let labels = &node.metadata.labels;
        with_pod.contains(&node.metadata.name)
            || roles.iter().any(|role| labels.contains_key(*role))
    };
    nodes.iter().filter(is_host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node, pod};
    use nodelife_core::object::MIRROR_ANNOTATION;

    fn warning(all: &[Node], pods: &[Pod]) -> String {
        quorum_warnings(&["a".into()], &ControlPlane::of(all, pods)).join("\n")
    }

    #[test]
    fn a_member_of_etcd_is_told_with_its_quorum() {
        let mut nodes = ["a", "b", "c", "d"].map(node);
        let pods: Vec<Pod> = ["a", "b", "c"]
            .iter()
            .map(|on| {
                let mut etcd = pod(&format!("etcd-{on}"), on);
                let annotations = &mut etcd.metadata.annotations;
                annotations.insert(MIRROR_ANNOTATION.into(), "x".into());
                etcd
            })
            .collect();
        assert_eq!(
            warning(&nodes, &pods),
            "node/a hosts a member of etcd: while it is down, 2 of 3 members are up, and the \
             quorum is 2"
        );
        nodes[1].status.conditions.clear();
        assert_eq!(
            warning(&nodes, &pods),
            "node/a hosts a member of etcd: while it is down, 1 of 3 members are up, and the \
             quorum is 2: etcd and the API server would stop"
        );
        let hosts = ControlPlane::of(&nodes, &pods);
        assert!(quorum_warnings(&["d".into()], &hosts).is_empty());
    }

    #[test]
    fn a_control_plane_with_etcd_elsewhere_is_told_as_well() {
        let mut nodes = ["a", "b"].map(node);
        for node in &mut nodes {
            let labels = &mut node.metadata.labels;
            labels.insert("node-role.kubernetes.io/control-plane".into(), "".into());
        }
        assert!(warning(&nodes, &[]).contains("1 of 2 such nodes are up"));
    }
}
