//! `NodeMachine`: what a node runs on, and whose it is.

use crate::allocatable::provider::Provider;
use crate::object::Node;

/// The kind of machine that a kubelet, or a program in its place, runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    NodeMachine,
    /// A container or virtual machine of a developer's machine: kind, k3d, minikube, Docker Desktop.
    Container,
    /// A micro virtual machine of EKS Fargate for a single pod. AWS configures it.
    Fargate,
    /// No machine: a program passes the pods on to a service, such as Azure Container Instances, or
    /// to another cluster (Liqo), or only plays a kubelet (KWOK).
    VirtualKubelet,
    /// A machine that is often away, with a reduced kubelet: `KubeEdge`.
    Edge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMachine {
    pub class: Class,
    pub provider: Option<Provider>,
    pub is_windows: bool,
}

impl NodeMachine {
    pub fn of(node: &Node) -> Self {
        let info = &node.status.node_info;
        Self {
            class: class(node),
            provider: Provider::of(node),
            is_windows: info.operating_system.eq_ignore_ascii_case("windows"),
        }
    }

    pub fn is_configurable(self) -> bool {
        !matches!(self.class, Class::Fargate | Class::VirtualKubelet)
    }
}

fn class(node: &Node) -> Class {
    let labels = &node.metadata.labels;
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|found| *found == *value);
    let info = &node.status.node_info;
    let version = &info.kubelet_version;
    let starts = |text: &str, starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    if is("eks.amazonaws.com/compute-type", "fargate") {
        Class::Fargate
    } else if is("type", "virtual-kubelet")
        || is("liqo.io/type", "virtual-node")
        || version.contains("-vk-")
        || starts(version, &["kwok-", "fake"])
        || node.spec.taints.iter().any(|taint| {
            ["virtual-kubelet.io/provider", "kwok.x-k8s.io/node"].contains(&&*taint.key)
        })
    {
        Class::VirtualKubelet
    } else if labels.contains_key("node-role.kubernetes.io/edge") || version.contains("-kubeedge-")
    {
        Class::Edge
    } else if node.spec.provider_id.starts_with("kind://")
        || labels.contains_key("minikube.k8s.io/name")
        // The images of minikube (before it had labels), k3d and Docker Desktop.
        || starts(&info.os_image, &["Buildroot", "K3s ", "Docker Desktop"])
    {
        Class::Container
    } else {
        Class::NodeMachine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::node;

    #[test]
    fn labels_taints_and_versions_tell_the_class() {
        let labelled = |key: &str, value: &str| {
            let mut node = node("a");
            node.metadata.labels.insert(key.into(), value.into());
            class(&node)
        };
        assert_eq!(class(&node("a")), Class::NodeMachine);
        assert_eq!(
            labelled("eks.amazonaws.com/compute-type", "fargate"),
            Class::Fargate
        );
        assert_eq!(
            labelled("eks.amazonaws.com/compute-type", "auto"),
            Class::NodeMachine
        );
        assert_eq!(labelled("type", "virtual-kubelet"), Class::VirtualKubelet);
        assert_eq!(
            labelled("liqo.io/type", "virtual-node"),
            Class::VirtualKubelet
        );
        assert_eq!(labelled("node-role.kubernetes.io/edge", ""), Class::Edge);
        let versioned = |version: &str, image: &str| {
            let mut node = node("a");
            node.status.node_info.kubelet_version = version.into();
            node.status.node_info.os_image = image.into();
            class(&node)
        };
        assert_eq!(versioned("kwok-v0.6.1", ""), Class::VirtualKubelet);
        assert_eq!(versioned("fake", ""), Class::VirtualKubelet);
        for image in ["Buildroot 2021.02.4", "K3s v1.31.5+k3s1", "Docker Desktop"] {
            assert_eq!(versioned("v1.31.5", image), Class::Container, "{image}");
        }
        assert_eq!(
            versioned("v1.31.5+k3s1", "K3OS v0.20"),
            Class::NodeMachine,
            "it is an operating system"
        );
        let mut kind = node("a");
        kind.spec.provider_id = "kind://docker/kind/a".into();
        assert_eq!(class(&kind), Class::Container);
    }
}
