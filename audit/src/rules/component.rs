//! Versions of the components that run as pods of kube-system, against those of a target.

use std::collections::BTreeMap;

use crate::kubelet_config::found;
use crate::kubelet_start::Target;
use crate::{Context, Findings, Statement};
use nodelife_core::object::Node;
use nodelife_core::version::Version;

/// The components whose versions the skew policy limits, and how many minor versions each may be
/// older than the newest API server (<https://kubernetes.io/releases/version-skew-policy/>).
const MOST: [(&str, u32); 4] = [
    ("kube-apiserver", 1),
    ("kube-controller-manager", 1),
    ("kube-scheduler", 1),
    (KUBE_PROXY, 3),
];

/// Upgraded apart from the control plane.
const KUBE_PROXY: &str = "kube-proxy";

type Component = (&'static str, Version, u32);

/// Reports components that a control plane of the target's version does not support.
pub(super) fn skew(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    let running = running(context);
    let of_control_plane = |(name, ..): &&Component| *name != KUBE_PROXY;
    let images = running.keys().filter(of_control_plane);
    let newest = images.map(|(_, version, _)| *version).max();
    let server = context.server.or(newest).map(|version| version.minor);
    for ((name, own, most), nodes) in &running {
        // Components of the API server's own version are upgraded together with it.
        let is_upgraded = *name != KUBE_PROXY && server.is_none_or(|server| own.minor >= server);
        // No control plane is downgraded: such a target is meant for nodes alone.
        let is_past = server.is_some_and(|server| server > target.minor());
        let says = if own.minor > target.minor() && !is_past {
            "{component} {version} is newer than {target}"
        } else if own.minor + most >= target.minor() || is_upgraded {
            continue;
        } else if *most == 1 {
            "{component} {version} is {behind} minor versions older than {target}; 1 is allowed"
        } else {
            "{component} {version} is {behind} minor versions older than {target}; {most} are \
             allowed"
        };
        let statement = Statement::from(says)
            .with("component", *name)
            .with("version", own.to_string())
            .with("target", target.to_string())
            .with("behind", i64::from(target.minor()) - i64::from(own.minor))
            .with("most", *most);
        findings.push(found(nodes, statement));
    }
}

fn running<'a>(context: &Context<'a>) -> BTreeMap<Component, Vec<&'a Node>> {
    let mut running: BTreeMap<Component, Vec<&Node>> = BTreeMap::new();
    for node in context.nodes() {
        let pods = context.active_pods_on(&node.metadata.name);
        for pod in pods.filter(|pod| pod.metadata.namespace == "kube-system") {
            for container in &pod.spec.containers {
                let limit = MOST.iter().find(|(name, _)| container.name == *name);
                let Some(((name, most), version)) = limit.zip(container.image_version) else {
                    continue;
                };
                let nodes = running.entry((name, version, *most)).or_default();
                if nodes.last().is_none_or(|last| !std::ptr::eq(*last, node)) {
                    nodes.push(node);
                }
            }
        }
    }
    running
}
