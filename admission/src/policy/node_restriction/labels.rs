//! The labels that a kubelet may set on its own node.

use std::collections::BTreeSet;

use crate::json::text::Pairs;

/// Whether `namespace` is `name` or a subdomain: `kubernetes.io`, `a.kubernetes.io`.
fn is_or_below(namespace: &str, name: &str) -> bool {
    namespace
        .strip_suffix(name)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Label namespaces reserved for Kubernetes, with their subdomains.
pub(crate) const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Reserved namespaces that kubelets may use, with their subdomains (k8s.io/kubelet
/// `pkg/apis/well_known_labels.go`, v0.36.3).
pub(crate) const KUBELETS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Labels that kubelets may set on their own nodes (same file), beside those in `node.kubernetes.io`.
pub(crate) const WELL_KNOWN: [&str; 10] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];

/// Labels that every kubelet sets on its Node: `initialNode` and, on Windows, `getOSSpecificLabels`
/// (`kubelet_node_status.go` and `kubelet_node_status_windows.go` in pkg/kubelet, v1.37.2).
pub(crate) const EVERY_KUBELETS: [&str; 6] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
];

/// Whether the rule `ownLabels` lets a node write this label, if it has the entries `listed`.
pub(super) fn is_listed(key: &str, listed: &[String]) -> bool {
    let prefix = key.split_inclusive('/').next().unwrap_or(key);
    let is_one = |one: &String| one == key || one == prefix;
    EVERY_KUBELETS.contains(&key) || listed.iter().any(is_one)
}

/// Whether a kubelet may not set, change or remove this label (`getForbiddenLabels`).
pub(super) fn is_forbidden(key: &str) -> bool {
    // The namespace is the part before the slash.
    let namespace = key.split_once('/').map_or("", |(namespace, _)| namespace);
    let below = |names: &[&str]| names.iter().any(|name| is_or_below(namespace, name));
    // In-tree checks node-restriction.kubernetes.io first; it is reserved, and kubelets may not use it.
    below(&RESERVED) && !below(&KUBELETS) && !WELL_KNOWN.contains(&key)
}

/// The labels that differ between the two and that `is_refused`, sorted and joined as in-tree.
pub(super) fn refused_changes(
    new: &Pairs<'_>,
    old: &Pairs<'_>,
    is_refused: impl Fn(&str) -> bool,
) -> Option<String> {
    let keys: BTreeSet<&str> = new
        .keys()
        .chain(old.keys())
        .map(|key| &**key)
        .filter(|key| new.get(*key) != old.get(*key) && is_refused(key))
        .collect();
    (!keys.is_empty()).then(|| Vec::from_iter(keys).join(", "))
}

#[cfg(test)]
mod tests {
    use super::{is_forbidden, is_listed};

    #[test]
    fn edges_of_the_label_rule() {
        for (key, forbidden) in [
            ("foo.node.kubernetes.io/x", false),
            ("node.kubernetes.io/x", false),
            ("xnode.kubernetes.io/x", true),
            ("node-role.kubernetes.io/x", true),
            ("kubernetes.io/hostname", false),
            ("kubernetes.io/hostnames", true),
            ("kubernetes.io/", true),
            ("x.node-restriction.kubernetes.io/y", true),
            ("node-restriction.kubernetes.io/y", true),
            ("notkubernetes.io/x", false),
            ("k8s.io/x", true),
            ("a.k8s.io/x", true),
            ("ak8s.io/x", false),
            ("kubernetes.io", false),
            ("plain", false),
            ("", false),
        ] {
            assert_eq!(is_forbidden(key), forbidden, "{key}");
        }
    }

    #[test]
    fn an_entry_is_a_key_or_a_whole_prefix() {
        let listed = ["team", "example.com/", "a.io/x"].map(str::to_owned);
        for (key, is_free) in [
            ("kubernetes.io/hostname", true),
            ("node.kubernetes.io/windows-build", true),
            ("node.kubernetes.io/instance-type", false),
            ("topology.kubernetes.io/zone", false),
            ("team", true),
            ("teams", false),
            ("team/x", false),
            ("example.com/team", true),
            ("example.com/a/b", true),
            ("example.com", false),
            ("a.example.com/x", false),
            ("example.com.evil/x", false),
            ("a.io/x", true),
            ("a.io/xy", false),
            ("a.io/", false),
            ("/x", false),
            ("", false),
        ] {
            assert_eq!(is_listed(key, &listed), is_free, "{key}");
        }
    }
}
