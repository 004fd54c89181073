//! CAP: pods against addresses.

use std::net::Ipv4Addr;

use crate::allocatable::DEFAULT_MAX_PODS;
use crate::audit::context::{allocatable, capacity};
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity, kubelet_config};
use crate::object::Node;
use crate::snapshot::Source;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-CAP-006",
        group: Group::Capacity,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "the node takes more pods than its range has addresses",
        why: "The last pods stay in ContainerCreating, since no address is left for them.",
        fix: "Lower maxPods, or give nodes a larger range (--node-cidr-mask-size).",
        link: "https://kubernetes.io/docs/concepts/cluster-administration/networking/",
        check: too_few_addresses,
    },
    Rule {
        id: "NL-CAP-007",
        group: Group::Capacity,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "pod ranges of nodes overlap",
        why: "Two pods can have one address: packets go to the wrong node.",
        fix: "Delete and register the newer node again, and look at who gives out ranges: \
              one controller alone may.",
        link: "https://kubernetes.io/docs/concepts/cluster-administration/networking/",
        check: overlap,
    },
    Rule {
        id: "NL-CAP-008",
        group: Group::Capacity,
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "the pod range leaves little room for replacing pods",
        why: "An address is not given out again at once. With fewer than twice maxPods \
              addresses, pods that are replaced quickly wait for one.",
        fix: "Give nodes a range of at least twice maxPods.",
        link: "https://cloud.google.com/kubernetes-engine/docs/how-to/flexible-pod-cidr",
        check: tight,
    },
    Rule {
        id: "NL-CAP-010",
        group: Group::Capacity,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::KubeletConfigs],
        title: "podsPerCore takes away from maxPods",
        why: "The lower of the two counts. The one that was meant is rarely both.",
        fix: "Remove podsPerCore.",
        link: "https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/",
        check: per_core,
    },
];

/// First and last address, as numbers, of an IPv4 range.
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

/// IPv4 ranges of the node with the number of pods that it takes.
fn ranges<'a>(context: &Context<'a>) -> Vec<(&'a Node, (u32, u32), i64)> {
    let ranges = context.nodes().filter_map(|node| {
        let range = node.spec.pod_cidrs.iter().find_map(|cidr| range(cidr));
        let range = range.or_else(|| range_of_old(node))?;
        Some((node, range, allocatable(node, "pods")?.value()?))
    });
    ranges.collect()
}

fn range_of_old(node: &Node) -> Option<(u32, u32)> {
    range(&node.spec.pod_cidr)
}

fn too_few_addresses(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (node, range, pods) in ranges(context) {
        let addresses = usable(range);
        if pods > addresses {
            let message = format!("{pods} pods, but the range has {addresses} addresses for them");
            let found = FindingBuilder::node(node, message)
                .with("pods", pods)
                .with("addresses", addresses);
            // A network plugin may give out addresses of its own.
            findings.push(found.inferred());
        }
    }
}

fn tight(context: &Context<'_>, findings: &mut Findings<'_>) {
    for (node, range, pods) in ranges(context) {
        let addresses = usable(range) + 3;
        if pods <= addresses && addresses / 2 < pods {
            let message = format!("{addresses} addresses for {pods} pods, less than twice as many");
            findings.push(FindingBuilder::node(node, message).inferred());
        }
    }
}

fn overlap(context: &Context<'_>, findings: &mut Findings<'_>) {
    let mut ranges = ranges(context);
    ranges.sort_by_key(|(_, range, _)| *range);
    for pair in ranges.windows(2) {
        let [(node, (_, last), _), (other, (first, _), _)] = pair else {
            continue;
        };
        if first <= last {
            let name = other.metadata.name.as_str();
            let message = format!("its pod range overlaps that of {name}");
            findings.push(
                FindingBuilder::node(node, message)
                    .on(name)
                    .with("other", name),
            );
        }
    }
}

fn per_core(context: &Context<'_>, findings: &mut Findings<'_>) {
    kubelet_config::each(context, findings, |node, config| {
        let cores = capacity(node, "cpu")?.value()?;
        let most = config.max_pods.unwrap_or(DEFAULT_MAX_PODS);
        let limit = config.pod_limit(cores);
        (limit < most).then(|| {
            let each = config.pods_per_core.unwrap_or_default();
            format!("podsPerCore: {each} × {cores} cores = {limit} pods, maxPods: {most}")
        })
    });
}
