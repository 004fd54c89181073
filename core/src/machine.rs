//! `NodeMachine`: what a node runs on, and whose it is.

use crate::allocatable::provider::Provider;
use crate::object::Node;

/// The kind of machine that a kubelet, or a program in its place, runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A machine of its own.
    NodeMachine,
    /// A container that shares its machine with other nodes: kind, minikube.
    Container,
    /// A micro virtual machine of EKS Fargate for a single pod. AWS configures it.
    Fargate,
    /// No machine: a program passes the pods on to a service, such as Azure Container Instances.
    VirtualKubelet,
    /// A machine that is often away, with a reduced kubelet: `KubeEdge`.
    Edge,
}

/// The known facts about a node's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMachine {
    pub class: Class,
    /// Who runs it, or whose distribution it runs.
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

    /// Whether its owner chooses image, kubelet and reservations.
    pub fn is_configurable(self) -> bool {
        !matches!(self.class, Class::Fargate | Class::VirtualKubelet)
    }
}

fn class(node: &Node) -> Class {
    let labels = &node.metadata.labels;
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|found| *found == *value);
    let version = &node.status.node_info.kubelet_version;
    let taints = &node.spec.taints;
    if is("eks.amazonaws.com/compute-type", "fargate") {
        Class::Fargate
    } else if is("type", "virtual-kubelet")
        || version.contains("-vk-")
        || taints
            .iter()
            .any(|taint| taint.key == "virtual-kubelet.io/provider")
    {
        Class::VirtualKubelet
    } else if labels.contains_key("node-role.kubernetes.io/edge") || version.contains("-kubeedge-")
    {
        Class::Edge
    } else if node.spec.provider_id.starts_with("kind://")
        || labels.contains_key("minikube.k8s.io/name")
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
        assert_eq!(labelled("node-role.kubernetes.io/edge", ""), Class::Edge);
        let mut kind = node("a");
        kind.spec.provider_id = "kind://docker/kind/a".into();
        assert_eq!(class(&kind), Class::Container);
    }
}
