//! CAP: how full nodes are, and what fits when one is lost.

use crate::audit::context::allocatable;
use crate::audit::headroom::{self, Headroom};
use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Node;
use crate::quantity::Quantity;
use crate::request::{self, Amounts, ByContainers};
use crate::snapshot::Source;
use crate::zone::ZoneKey;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-CAP-002",
        group: Group::Capacity,
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::Pods],
        title: "the node is almost fully requested",
        why: "Nothing of size fits there any more. Good packing, as long as other nodes have \
              room.",
        fix: "Nothing, unless pods are Pending.",
        link: "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
        check: almost_full,
    },
    Rule {
        id: "NL-CAP-003",
        group: Group::Capacity,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "the memory limits go far beyond the node",
        why: "When the pods use what they may, the kernel kills some of them, or the kubelet \
              evicts.",
        fix: "Bring memory limits near the requests.",
        link: "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
        check: limits,
    },
    Rule {
        id: "NL-CAP-004",
        group: Group::Capacity,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "many pods on the node request nothing",
        why: "The scheduler counts them as free, and they are the first to be evicted.",
        fix: "Give them requests, or a LimitRange with defaults.",
        link: "https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/#besteffort",
        check: best_effort,
    },
    Rule {
        id: "NL-CAP-011",
        group: Group::Capacity,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "the others cannot take the pods of a lost node",
        why: "The requests of all workloads exceed what the remaining nodes offer. A lower \
              bound: taints, affinity and the size of single pods only make it worse.",
        fix: "Add a node, or have an autoscaler that does in time.",
        link: "https://kubernetes.io/docs/concepts/cluster-administration/node-autoscaling/",
        check: no_headroom,
    },
    Rule {
        id: "NL-CAP-013",
        group: Group::Capacity,
        severity: Severity::Info,
        sources: &[Source::Nodes, Source::Pods],
        title: "the others cannot take the pods of a lost zone",
        why: "The requests of all workloads exceed what the other zones offer. When the zone goes, \
              some pods stay Pending. A lower bound: volumes are bound to their zone as well.",
        fix: "Keep a zone's worth of room free, or decide which workloads may stay away.",
        link: "https://kubernetes.io/docs/setup/best-practices/multiple-zones/",
        check: no_zone_headroom,
    },
    Rule {
        id: "NL-CAP-012",
        group: Group::Capacity,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::CsiNodes],
        title: "the node can attach no more volumes",
        why: "Pods with volumes of this driver stay Pending or ContainerCreating there.",
        fix: "Spread the workloads with volumes, or use machines that take more.",
        link: "https://kubernetes.io/docs/concepts/storage/storage-limits/",
        check: volume_limit,
    },
];

fn percent(part: Quantity, whole: Quantity) -> f64 {
    100.0 * part.approximate() / whole.approximate()
}

fn almost_full(context: &Context<'_>, findings: &mut Findings<'_>) {
    for node in context.nodes() {
        for name in headroom::RESOURCES {
            let requests = context.requests_on(&node.metadata.name);
            let requested = requests.and_then(|sum| sum.get(name));
            let (Some(requested), Some(room)) = (requested, allocatable(node, name)) else {
                continue;
            };
            // More than all is NL-CAP-001.
            if *requested <= room && percent(*requested, room) >= 90.0 {
                let message = format!(
                    "{name}: {requested} of {room} Allocatable requested ({:.0} %)",
                    percent(*requested, room)
                );
                findings.push(FindingBuilder::node(node, message).with("resource", name));
            }
        }
    }
}

fn limits(context: &Context<'_>, findings: &mut Findings<'_>) {
    let mut known = ByContainers::new(request::limits);
    for node in context.nodes() {
        let mut sum = Amounts::new();
        for pod in context.active_pods_on(&node.metadata.name) {
            request::add(&mut sum, known.of(pod));
        }
        let (Some(limits), Some(room)) = (sum.get("memory"), allocatable(node, "memory")) else {
            continue;
        };
        if !room.is_zero() && percent(*limits, room) > 150.0 {
            let message = format!(
                "memory limits {limits} of {room} Allocatable ({:.0} %)",
                percent(*limits, room)
            );
            findings.push(FindingBuilder::node(node, message).with("limits", limits.to_string()));
        }
    }
}

fn best_effort(context: &Context<'_>, findings: &mut Findings<'_>) {
    /// On fewer pods a share says little.
    const ENOUGH: usize = 10;
    for node in context.nodes() {
        let pods: Vec<_> = context.active_pods_on(&node.metadata.name).collect();
        let idle = pods
            .iter()
            .filter(|pod| pod.status.qos_class == "BestEffort")
            .count();
        if pods.len() >= ENOUGH && idle * 5 > pods.len() {
            let message = format!(
                "{idle} of {} are BestEffort",
                format::count(pods.len(), "pod")
            );
            findings.push(FindingBuilder::node(node, message).with("bestEffort", idle));
        }
    }
}

fn no_headroom(context: &Context<'_>, findings: &mut Findings<'_>) {
    for resource in headroom::RESOURCES {
        let headroom = Headroom::of(context, resource);
        let Some(largest) = headroom.largest() else {
            continue;
        };
        let name = &largest.metadata.name;
        if let Some(left) = headroom.short_without(|node| node.metadata.name == *name) {
            let message = headroom.say(name, left);
            let found =
                FindingBuilder::named("Cluster", "cluster", message).with("resource", resource);
            findings.push(found.inferred());
        }
    }
}

fn no_zone_headroom(context: &Context<'_>, findings: &mut Findings<'_>) {
    for resource in headroom::RESOURCES {
        let headroom = Headroom::of(context, resource);
        for zone in context.zones.zones.iter().filter(|z| !z.key.is_empty()) {
            let lost = |node: &Node| ZoneKey::of(&node.metadata.labels) == zone.key;
            if let Some(left) = headroom.short_without(lost) {
                let name = zone.key.to_string();
                let message = headroom.say(&name, left);
                let members = context.nodes().filter(|node| lost(node));
                let found = FindingBuilder::named("Zone", &name, message)
                    .with("resource", resource)
                    .on_all(members.map(|node| node.metadata.name.as_str()));
                findings.push(found.inferred());
            }
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
                let message = format!("{}: {attached} of {most} volumes attached", driver.name);
                findings
                    .push(FindingBuilder::node(node, message).with("driver", driver.name.as_str()));
            }
        }
    }
}
