use serde_json::json;

use super::*;

#[test]
fn names_go_and_relations_stay() {
    let mut snapshot: Snapshot = serde_json::from_value(json!({
        "nodes": [{"metadata": {"name": "secret-node", "labels": {
            "kubernetes.io/hostname": "secret-node", "topology.kubernetes.io/zone": "secret-zone",
            "secret.example.com/team": "secret-team", "node-role.kubernetes.io/secret": ""},
            "annotations": {"secret": "true", "node.alpha.kubernetes.io/ttl": "300"}},
            "spec": {"providerID": "aws:///secret-zone/secret-id", "podCIDR": "10.20.4.0/24",
                     "taints": [{"key": "secret.example.com/team", "value": "secret-team",
                                 "effect": "NoSchedule"}]},
            "status": {"capacity": {"cpu": "4", "secret.example.com/card": "2"},
                "addresses": [{"type": "InternalIP", "address": "10.20.4.7"},
                    {"type": "Hostname", "address": "Secret-Node.secret.example.com"}],
                "nodeInfo": {"kernelVersion": "5.15.0-1071-secret", "osImage": "Ubuntu 24.04 secret",
                    "kubeletVersion": "v1.30.4-eks-secret", "systemUUID": "SECRET"},
                "conditions": [
                    {"type": "Ready", "status": "True", "message": "secret", "reason": "KubeletReady"},
                    {"type": "SecretProblem", "status": "True", "reason": "SecretPassword"}]}}],
        "pods": [{"metadata": {"name": "secret-pod", "namespace": "secret-space",
            "labels": {"app": "secret-app"}}, "spec": {"nodeName": "secret-node",
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "secret-container",
                            "image": "secret.example.com/kube-proxy:v1.30.4-secret"}]},
            "status": {"phase": "Running"}}],
        "budgets": [{"metadata": {"name": "secret-budget", "namespace": "secret-space"},
            "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "secret-app"}}},
            "status": {"disruptedPods": {"secret-pod": "2026-01-02T03:04:05Z"}}}],
        "clusterRoleBindings": [{"metadata": {"name": "secret"}, "roleRef": {"name": "system:node"},
            "subjects": [{"kind": "User", "name": "system:serviceaccount:kube-system:secret"}]}],
        "missing": {"leases": "secret-user may not list leases"},
        "nodeAuthorizer": {"state": "unknown", "allowedBy": "RBAC: allowed by secret-binding"},
        "nodeRestriction": {"state": "off", "deniedBy": "webhook secret-webhook"},
    }))
    .unwrap();
    redact(&mut snapshot).unwrap();
    let text = serde_json::to_string(&snapshot).unwrap();
    assert!(!text.to_lowercase().contains("secret"), "{text}");

    let (node, pod) = (&snapshot.nodes[0], &snapshot.pods[0]);
    let (labels, name) = (&node.metadata.labels, &node.metadata.name);
    assert_eq!(pod.spec.node_name, *name);
    assert_eq!(labels["kubernetes.io/hostname"], *name);
    assert_eq!(node.spec.taints[0].value, labels[&node.spec.taints[0].key]);
    let zone = &labels["topology.kubernetes.io/zone"];
    let provider = format!("aws:///{zone}/");
    assert!(node.spec.provider_id.starts_with(&provider), "{text}");
    let roles = labels
        .keys()
        .filter(|key| key.starts_with("node-role.kubernetes.io/x"));
    assert_eq!(roles.count(), 1, "{text}");
    assert_eq!(
        node.metadata.annotations["node.alpha.kubernetes.io/ttl"],
        "300"
    );

    let status = &node.status;
    assert_eq!(status.capacity["cpu"], "4");
    assert!(
        status.addresses[1]
            .address
            .starts_with(&format!("{name}.x")),
        "{text}"
    );
    let info = &status.node_info;
    assert!(info.kernel_version.starts_with("5.15.0-1071-x"), "{text}");
    assert!(info.os_image.starts_with("Ubuntu 24.04 x"), "{text}");
    assert!(info.kubelet_version.starts_with("v1.30.4-eks-x"), "{text}");
    assert_eq!(status.conditions[0].reason, "KubeletReady");
    assert!(status.conditions[1].kind.ends_with("Problem"), "{text}");

    assert_eq!(pod.spec.priority_class_name, "system-node-critical");
    let version = pod.spec.containers[0].image_version.unwrap();
    assert_eq!(version.to_string(), "1.30.4");
    let budget = &snapshot.budgets[0];
    let selector = budget.spec.selector.as_ref().unwrap();
    assert!(selector.matches(&pod.metadata.labels));
    let disrupted = &budget.status.disrupted_pods;
    assert!(disrupted.contains_key(&pod.metadata.name));
    let binding = &snapshot.cluster_role_bindings.as_ref().unwrap()[0];
    assert_eq!(binding.role_ref.name, "system:node");
    let user = &binding.subjects[0].name;
    assert!(
        user.starts_with("system:serviceaccount:kube-system:x"),
        "{text}"
    );
}

#[test]
fn addresses_stay_within_their_ranges() {
    let mut pseudonyms = Pseudonyms::default();
    for (network, inside, outside) in [
        ("10.20.4.0/22", "10.20.7.255", "10.20.8.0"),
        ("192.168.1.0/24", "192.168.1.21", "192.168.0.255"),
        ("fd00:1::/64", "fd00:1::7", "fd00:1:0:1::"),
    ] {
        let [network, inside, outside] =
            [network, inside, outside].map(|text| pseudonyms.address(text));
        let (ip, length) = network.split_once('/').unwrap();
        let length: u32 = length.parse().unwrap();
        let prefix = |text: &str| match text.parse().unwrap() {
            IpAddr::V4(ip) => u128::from(u32::from(ip)) >> (32 - length),
            IpAddr::V6(ip) => u128::from(ip) >> (128 - length),
        };
        assert_eq!(prefix(ip), prefix(&inside), "{network} {inside}");
        assert_ne!(prefix(ip), prefix(&outside), "{network} {outside}");
    }
    assert!(pseudonyms.address("10.0.0.0/secret").starts_with('x'));
}
