//! CAP: overcommitment, pod counts and addresses.

use std::net::Ipv4Addr;

use crate::context::allocatable;
use crate::headroom::Headroom;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule, Severity};
use nodelife_core::object::Node;

pub(super) const RULES: &[Rule] = rules! {
    "NL-CAP-001" Error [Nodes, Pods, AllPods] EachNode(overcommitted),
    "NL-CAP-005" Warning [Nodes, Pods, AllPods] Machine(pods_at_limit),
    "NL-CAP-006" Error [Nodes] All(too_few_addresses),
    "NL-CAP-007" Error [Nodes] All(overlap),
    "NL-CAP-011" Warning [Nodes, Pods, AllPods] Cluster(no_headroom),
    "NL-CAP-012" Warning [Nodes, CsiNodes] All(volume_limit),
};

fn overcommitted(context: &Context<'_>, node: &Node, findings: &mut Findings<'_>) {
    let requests = context.requests_on(&node.metadata.name);
    for (resource, requested) in requests.into_iter().flatten() {
        let room = allocatable(node, resource).filter(|room| requested > room);
        if let Some(room) = room {
            let says =
                "{resource}: requests {requests} − Allocatable {allocatable} = {over} too much";
            findings.push(
                FindingBuilder::node(node, says)
                    .with("resource", resource)
                    .with("requests", *requested)
                    .with("allocatable", room)
                    .with("over", *requested - room),
            );
        }
    }
}

fn pods_at_limit<'a>(context: &Context<'a>, node: &'a Node) -> Option<FindingBuilder<'a>> {
    let limit = allocatable(node, "pods")?.value()?;
    let pods = i64::try_from(context.active_pods_on(&node.metadata.name).count()).ok()?;
    // 90 % or more, in whole numbers.
    if limit == 0 || i128::from(pods) * 10 < i128::from(limit) * 9 {
        return None;
    }
    let found = FindingBuilder::node(node, "{pods} of {limit} pods ({percent} %)")
        .with("pods", pods)
        .with("limit", limit)
        .with("percent", pods * 100 / limit);
    Some(found.severity_if(pods > limit, Severity::Error))
}

fn no_headroom(context: &Context<'_>, findings: &mut Findings<'_>) {
    for headroom in Headroom::all(context) {
        let Some(largest) = headroom.largest() else {
            continue;
        };
        let name = &largest.metadata.name;
        if let Some(left) = headroom.short_without(|node| node.metadata.name == *name) {
            let found = FindingBuilder::cluster(headroom.say(name, left));
            findings.push(found.inferred());
        }
    }
}

fn volume_limit(context: &Context<'_>, findings: &mut Findings<'_>) {
    for csi in context.snapshot.csi_nodes.iter().flatten() {
        let Some(node) = context.node(&csi.metadata.name) else {
            continue;
        };
        for driver in &csi.spec.drivers {
            let Some(most) = driver.allocatable.and_then(|count| count.count) else {
                continue;
            };
            let prefix = format!("kubernetes.io/csi/{}^", driver.name);
            let volumes = node.status.volumes_attached.iter();
            let attached = volumes.filter(|v| v.name.starts_with(&prefix)).count();
            if i64::try_from(attached).unwrap_or(i64::MAX) >= most.saturating_sub(1) {
                let says = "{driver}: {attached} of {limit} volumes attached";
                let found = FindingBuilder::node(node, says).with("driver", &driver.name);
                findings.push(found.with("attached", attached).with("limit", most));
            }
        }
    }
}

fn range(cidr: &str) -> Option<(u32, u32)> {
    let (address, prefix) = cidr.split_once('/')?;
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
    let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
    Some((address & mask, address | !mask))
}

/// How many pods a range of this size takes: without its network, broadcast and gateway.
fn usable((first, last): (u32, u32)) -> i64 {
    (i64::from(last) - i64::from(first) + 1 - 3).max(0)
}

/// Whether the network plugin says that it gives the node's pods other addresses than those of
/// `spec.podCIDR`: OVN-Kubernetes, Kube-OVN (from its Subnets), and Cilium, whose range is its own or a copy.
fn has_range_of_plugin(node: &Node) -> bool {
    let annotations = &node.metadata.annotations;
    let cilium = annotations.get("network.cilium.io/ipv4-pod-cidr");
    annotations.contains_key("k8s.ovn.org/node-subnets")
        || (annotations.keys()).any(|key| key.starts_with("ovn.kubernetes.io/"))
        || cilium.is_some_and(|range| *range != node.spec.pod_cidr)
}

fn written(node: &Node) -> Option<&str> {
    let mut cidrs = node.spec.pod_cidrs.iter().chain([&node.spec.pod_cidr]);
    let cidr = cidrs.find(|cidr| range(cidr).is_some())?;
    Some(cidr.as_str())
}

fn ranges<'a>(context: &Context<'a>) -> Vec<(&'a Node, (u32, u32), i64)> {
    let in_use = context.nodes().filter(|node| !has_range_of_plugin(node));
    let ranges = in_use.filter_map(|node| {
        let range = range(written(node)?)?;
        Some((node, range, allocatable(node, "pods")?.value()?))
    });
    ranges.collect()
}

fn too_few_addresses(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (node, range, pods) in ranges(context) {
        let addresses = usable(range);
        if pods > addresses {
            let says = "up to {pods} pods, but only {addresses} addresses in the range";
            let found = FindingBuilder::node(node, says)
                .with("pods", pods)
                .with("addresses", addresses);
            // A plugin may assign addresses of its own; Calico does unless told to use `spec.podCIDR`.
            let key = "projectcalico.org/IPv4Address";
            let is_calico = node.metadata.annotations.contains_key(key);
            let found = found.inferred();
            findings.push(found.severity_if(is_calico, Severity::Info));
        }
    }
}

fn overlap(context: &Context<'_>, findings: &mut Findings<'_>) {
    machines_in_range(context, findings);
    let mut ranges = ranges(context);
    ranges.sort_by_key(|(_, range, _)| *range);
    for pair in ranges.windows(2) {
        let [(node, (_, last), _), (other, (first, _), _)] = pair else {
            continue;
        };
        if first <= last {
            let name = other.metadata.name.as_str();
            let found = FindingBuilder::node(node, "its pod range overlaps that of {other}");
            findings.push(found.on(name).with("other", Fact::name(name)));
        }
    }
}

/// Nodes' own addresses in a pod range: one finding for each range.
fn machines_in_range(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (node, (first, last), _) in ranges(context) {
        let is_inside = |node: &&Node| {
            let mut addresses = node.status.addresses.iter();
            addresses.any(|own| {
                let address = own.address.parse::<Ipv4Addr>().map(u32::from);
                own.kind == "InternalIP" && address.is_ok_and(|a| (first..=last).contains(&a))
            })
        };
        let inside: Vec<_> = (context.nodes().filter(is_inside))
            .map(|node| node.metadata.name.as_str())
            .collect();
        if !inside.is_empty() {
            let says = "its pod range {range} contains the addresses of {nodes}";
            let found = FindingBuilder::node(node, says)
                .with("range", written(node).map(Fact::name))
                .with("nodes", Fact::names(inside.iter().copied()));
            findings.push(found.on_all(inside).fix(
                "Give pods a range that the network of the machines does not use \
                 (--cluster-cidr, and the network plugin's pool).",
            ));
        }
    }
}
