//! REG: registration and identity.

use std::collections::BTreeMap;

use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-REG-001",
        group: Group::Registration,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "several nodes report one machine id",
        why: "The machines were cloned with their /etc/machine-id. DHCP leases, journals and \
              agents that key by machine id take them for one machine.",
        fix: "Remove /etc/machine-id from the image and run systemd-machine-id-setup on each machine.",
        link: "https://www.freedesktop.org/software/systemd/man/latest/machine-id.html",
        check: same_machine_id,
    },
    Rule {
        id: "NL-REG-003",
        group: Group::Registration,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "several nodes name one cloud machine",
        why: "Two Node objects with one providerID stand for one machine: usually the older one \
              was left over when the machine was renamed. The cloud controller acts on both.",
        fix: "Delete the Node object whose kubelet no longer runs.",
        link: "https://kubernetes.io/docs/concepts/architecture/cloud-controller/",
        check: same_provider_id,
    },
    Rule {
        id: "NL-REG-004",
        group: Group::Registration,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "several nodes have one internal address",
        why: "The API server reaches the kubelet of one node when it means the other: logs, exec \
              and the network routes go to the wrong machine.",
        fix: "Delete the stale Node object, or give the machines addresses of their own.",
        link: "https://kubernetes.io/docs/reference/node/node-status/#addresses",
        check: same_address,
    },
];

/// Nodes by a value that each should have for itself, where several share one.
pub(super) fn shared<'a>(
    context: &Context<'a>,
    value: impl Fn(&'a Node) -> Vec<String>,
) -> Vec<(String, Vec<&'a Node>)> {
    let mut nodes: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for node in context.nodes() {
        let mut values = value(node);
        values.retain(|value| !value.is_empty());
        values.sort();
        values.dedup();
        for value in values {
            nodes.entry(value).or_default().push(node);
        }
    }
    nodes.retain(|_, nodes| nodes.len() > 1);
    nodes.into_iter().collect()
}

fn names<'a>(nodes: &[&'a Node]) -> Vec<&'a str> {
    nodes.iter().map(|n| n.metadata.name.as_str()).collect()
}

/// One finding about a group of nodes that share `what`.
pub(super) fn found_shared<'a>(what: &str, value: &str, nodes: &[&'a Node]) -> FindingBuilder<'a> {
    let names = names(nodes);
    let message = format!(
        "{} report one {what}, {value}: {}",
        format::count(nodes.len(), "node"),
        format::list(names.iter().copied())
    );
    let first = names.first().copied().unwrap_or_default();
    FindingBuilder::named("Node", first, message)
        .with("value", value)
        .with("nodes", names.clone())
        .on_all(names)
}

fn same_machine_id(context: &Context<'_>, findings: &mut Findings<'_>) {
    let total = context.snapshot.nodes.len();
    for (id, nodes) in shared(context, |n| vec![n.status.node_info.machine_id.to_string()]) {
        let found = found_shared("machine id", &id, &nodes);
        let same = |value: fn(&Node) -> &str| {
            let mut values: Vec<_> = nodes.iter().map(|n| value(n)).collect();
            values.sort_unstable();
            values
                .windows(2)
                .any(|w| matches!(w, [a, b] if a == b && !a.is_empty()))
        };
        let one_machine =
            same(|n| &n.status.node_info.system_uuid) || same(|n| &n.status.node_info.boot_id);
        // Every node with the same id is how some images are built (Talos once), not a clone.
        let by_image = nodes.len() == total;
        findings.push(if one_machine && !by_image {
            found.severity(Severity::Error)
        } else {
            found
        });
    }
}

fn same_provider_id(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (id, nodes) in shared(context, |n| vec![n.spec.provider_id.to_string()]) {
        findings.push(found_shared("providerID", &id, &nodes));
    }
}

fn same_address(context: &Context<'_>, findings: &mut Findings<'_>) {
    let internal = |node: &Node| {
        let addresses = node.status.addresses.iter();
        addresses
            .filter(|a| a.kind == "InternalIP")
            .map(|a| a.address.to_string())
            .collect()
    };
    for (address, nodes) in shared(context, internal) {
        findings.push(found_shared("InternalIP", &address, &nodes));
    }
}
