//! ZON: health of zones.

use std::collections::BTreeSet;

use crate::audit::context::{is_control_plane, is_open};
use crate::audit::owners::by_owner;
use crate::audit::{Check, Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::object::Pod;
use crate::snapshot::Source;
use crate::text::Str;
use crate::zone::{ZONE_LABEL, Zone, ZoneKey, ZoneState, failures_to_partial};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "NL-ZON-001",
        group: Group::Zone,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "a zone is disrupted",
        why: "So many of its nodes are not ready that the node lifecycle controller takes the zone, \
              not the nodes, for broken, and changes how fast it evicts there.",
        fix: "Look for what the nodes have in common: network, load balancer of the API server, \
              storage. `kubectl nodelife explain zones` shows rates and times.",
        link: "https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction",
        check: Check::All(disrupted),
    },
    Rule {
        id: "NL-ZON-002",
        group: Group::Zone,
        severity: Severity::Error,
        sources: &[Source::Nodes],
        title: "every zone is in full disruption",
        why: "The controller takes itself for cut off: it removes the NoExecute taints once \
              and evicts nowhere, until one node is heard of again.",
        fix: "Look at the way from the nodes to the API server, not at the nodes.",
        link: "https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction",
        check: Check::All(all_down),
    },
    Rule {
        id: "NL-ZON-003",
        group: Group::Zone,
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "a zone is too small to be partly disrupted",
        why: "With one or two nodes it is healthy or wholly down: evictions never slow down \
              there.",
        fix: "Nothing, unless you count on the slower rate.",
        link: "https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction",
        check: Check::All(tiny),
    },
    Rule {
        id: "NL-ZON-004",
        group: Group::Zone,
        severity: Severity::Warning,
        sources: &[Source::Nodes],
        title: "one more failure stops all evictions in the zone",
        why: "A zone of at most 50 nodes in partial disruption has the rate 0: pods of its \
              dead nodes stay where they are.",
        fix: "Bring the failed nodes back, or delete those that are gone.",
        link: "https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction",
        check: Check::All(next_stops),
    },
    Rule {
        id: "NL-ZON-005",
        group: Group::Zone,
        severity: Severity::Info,
        sources: &[Source::Nodes],
        title: "zones are of very different size",
        why: "The loss of the largest zone cannot be made up by the others.",
        fix: "Give each zone the same number of nodes.",
        link: "https://kubernetes.io/docs/setup/best-practices/multiple-zones/",
        check: Check::All(uneven),
    },
    Rule {
        id: "NL-ZON-006",
        group: Group::Zone,
        severity: Severity::Error,
        sources: &[Source::Nodes, Source::Volumes],
        title: "a volume's zone has no node that takes pods",
        why: "The pod of its claim can run nowhere else.",
        fix: "Add a node in that zone.",
        link: "https://kubernetes.io/docs/setup/best-practices/multiple-zones/#storage-access-for-zones",
        check: Check::All(stranded),
    },
    Rule {
        id: "NL-ZON-007",
        group: Group::Zone,
        severity: Severity::Warning,
        sources: &[Source::Nodes, Source::Pods],
        title: "workloads are to be spread over zones, and there is one",
        why: "In one zone the constraint always holds and spreads nothing. Whoever wrote it \
              counts on replicas that outlive the loss of a zone.",
        fix: "Add nodes in other zones, or spread by kubernetes.io/hostname where one zone is \
              meant.",
        link: "https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/",
        check: Check::All(nothing_to_spread_over),
    },
];

fn disrupted(context: &Context<'_>, findings: &mut Findings<'_>) {
    for zone in &context.zones.zones {
        if zone.state == ZoneState::Normal {
            continue;
        }
        let message = format!(
            "{} of {} not ready: {:?}; {}",
            zone.not_ready,
            format::count(zone.size, "node"),
            zone.state,
            pace(zone)
        );
        let members = context
            .nodes()
            .filter(|node| ZoneKey::of(&node.metadata.labels) == zone.key);
        findings.push(
            FindingBuilder::named("Zone", &zone.key.to_string(), message)
                .with("size", zone.size)
                .with("notReady", zone.not_ready)
                .with("state", format!("{:?}", zone.state))
                .with("evictionRate", zone.eviction_rate.to_string())
                .with("queued", zone.queued)
                .with("secondsToLastTaint", zone.seconds_to_last_taint)
                .on_all(members.map(|node| node.metadata.name.as_str())),
        );
    }
}

/// How fast the zone's nodes are tainted.
fn pace(zone: &Zone) -> String {
    match zone.seconds_to_last_taint {
        None => format!(
            "evictions have stopped, {} wait for the NoExecute taint",
            format::count(zone.queued, "node")
        ),
        Some(_) if zone.queued == 0 => format!(
            "no node waits for the NoExecute taint, which would come at {} nodes/s",
            zone.eviction_rate
        ),
        #[expect(clippy::cast_possible_truncation, reason = "shown in whole seconds")]
        Some(seconds) => format!(
            "{} nodes/s are tainted, {} waiting for it, the last one {}",
            zone.eviction_rate,
            format::count(zone.queued, "node"),
            format::duration(seconds.ceil() as i64)
        ),
    }
}

fn all_down(context: &Context<'_>, findings: &mut Findings<'_>) {
    if context.zones.all_fully_disrupted {
        let zones = context.zones.zones.len();
        let message = format!(
            "no node of {} is ready; evictions have stopped everywhere",
            format::count(zones, "zone")
        );
        findings.push(FindingBuilder::named("Cluster", "cluster", message).with("zones", zones));
    }
}

fn found<'a>(context: &Context<'a>, zone: &Zone, message: String) -> FindingBuilder<'a> {
    let nodes = context.nodes();
    let members = nodes.filter(|node| ZoneKey::of(&node.metadata.labels) == zone.key);
    FindingBuilder::named("Zone", &zone.key.to_string(), message)
        .with("size", zone.size)
        .on_all(members.map(|node| node.metadata.name.as_str()))
}

fn tiny(context: &Context<'_>, findings: &mut Findings<'_>) {
    let zones = &context.zones.zones;
    // One small zone is a small cluster, and no news.
    for zone in zones
        .iter()
        .filter(|zone| zone.size > 0 && zone.size < 3 && zones.len() > 1)
    {
        let message = format::count(zone.size, "node");
        findings.push(found(context, zone, message));
    }
}

fn next_stops(context: &Context<'_>, findings: &mut Findings<'_>) {
    for zone in &context.zones.zones {
        let Some(border) = failures_to_partial(zone.size, &context.settings) else {
            continue;
        };
        let small = zone.size <= context.settings.large_zone;
        if small && zone.state == ZoneState::Normal && zone.not_ready + 1 == border {
            let message = format!(
                "{} of {} not ready; at {border} the zone is partly disrupted and nothing is evicted",
                zone.not_ready,
                format::count(zone.size, "node")
            );
            findings.push(found(context, zone, message).with("border", border));
        }
    }
}

fn uneven(context: &Context<'_>, findings: &mut Findings<'_>) {
    let zones = &context.zones.zones;
    let named = || {
        zones
            .iter()
            .filter(|zone| zone.size > 0 && !zone.key.zone.is_empty())
    };
    let (Some(least), Some(most)) = (
        named().min_by_key(|zone| zone.size),
        named().max_by_key(|zone| zone.size),
    ) else {
        return;
    };
    if least.size * 2 < most.size {
        let message = format!(
            "{} has {}, {} has {}",
            most.key,
            format::count(most.size, "node"),
            least.key,
            format::count(least.size, "node")
        );
        findings.push(FindingBuilder::named("Cluster", "cluster", message));
    }
}

fn stranded(context: &Context<'_>, findings: &mut Findings<'_>) {
    for volume in context.snapshot.volumes.iter().flatten() {
        let affinity = volume.spec.node_affinity.as_ref();
        let (Some(affinity), Some(claim)) = (affinity, volume.spec.claim_ref.as_ref()) else {
            continue;
        };
        let reach = &affinity.required;
        let reached = context
            .nodes()
            .any(|node| is_open(node) && reach.matches(node));
        if !reach.node_selector_terms.is_empty() && !reached {
            let message = format!(
                "of claim {}/{}: no node that is ready and not cordoned can reach it",
                claim.namespace, claim.name
            );
            findings.push(FindingBuilder::object(
                "PersistentVolume",
                &volume.metadata,
                message,
            ));
        }
    }
}

fn nothing_to_spread_over(context: &Context<'_>, findings: &mut Findings<'_>) {
    let workers: Vec<_> = context
        .nodes()
        .filter(|node| !is_control_plane(node))
        .collect();
    let zones: BTreeSet<&str> = workers
        .iter()
        .filter_map(|node| node.metadata.labels.get(ZONE_LABEL))
        .map(Str::as_str)
        .collect();
    // One node is one zone, and no news.
    let (Some(zone), 1, 2..) = (zones.first(), zones.len(), workers.len()) else {
        return;
    };
    let spread = |pod: &&Pod| {
        let constraints = pod.spec.topology_spread_constraints.iter();
        let mut keys = constraints.flat_map(|list| list.iter());
        !pod.is_terminal() && keys.any(|one| one.topology_key == ZONE_LABEL)
    };
    let owners = by_owner(context, context.snapshot.pods.iter().filter(spread));
    if owners.is_empty() {
        return;
    }
    let names: Vec<_> = owners
        .keys()
        .map(|owner| format!("{} {}/{}", owner.kind, owner.namespace, owner.name))
        .collect();
    let message = format!(
        "all of {} are in {zone}; {}: {}",
        format::count(workers.len(), "node"),
        format::count(owners.len(), "workload"),
        format::list(names.iter().map(String::as_str))
    );
    let found = FindingBuilder::named("Cluster", "cluster", message);
    findings.push(found.with("zone", *zone).with("workloads", owners.len()));
}
