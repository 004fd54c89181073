//! ZON: health of zones.

use crate::context::is_open;
use crate::rule::rules;
use crate::{Context, Fact, FindingBuilder, Findings, Rule};
use nodelife_core::format;
use nodelife_core::object::Node;
use nodelife_core::zone::{ZoneState, failures_to_partial};

pub(super) const RULES: &[Rule] = rules! {
    "NL-ZON-001" Error [Nodes] Cluster(disrupted),
    "NL-ZON-002" Error [Nodes] Cluster(all_down),
    "NL-ZON-004" Warning [Nodes] Cluster(next_stops),
    "NL-ZON-006" Error [Nodes, Volumes] Cluster(stranded),
};

fn disrupted(context: &Context<'_>, findings: &mut Findings<'_>) {
    for zone in context.zones.known() {
        // NL-ZON-002 says it of all zones; in a zone of one node, no other node is concerned.
        let is_told = is_all_down(context) || zone.size == 1;
        if zone.state == ZoneState::Normal || is_told {
            continue;
        }
        let state = if zone.state == ZoneState::FullDisruption {
            "full disruption"
        } else {
            "partial disruption"
        };
        let state = Fact::from(state).valued(format!("{:?}", zone.state));
        let pace = match zone.seconds_to_last_taint {
            None => "the controller has stopped tainting; {queued} without the NoExecute taint",
            Some(_) if zone.queued == 0 => "no node waits for the NoExecute taint",
            Some(_) => {
                "the controller taints {evictionRate} nodes/s; {queued} waiting, the last one for \
                 {secondsToLastTaint}"
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "shown in whole seconds")]
        let shown = |seconds: f64| format::duration(seconds.ceil() as i64);
        let last = zone.seconds_to_last_taint;
        let last = last.map(|seconds| Fact::from(seconds).shown(shown(seconds)));
        let says = "{notReady} of {size} not ready ({state}); ";
        findings.push(
            FindingBuilder::zone(context, &zone.key, says)
                .and(pace)
                .with("size", Fact::count(zone.size, "node"))
                .with("notReady", zone.not_ready)
                .with("state", state)
                .with("evictionRate", zone.eviction_rate.to_string())
                .with("queued", Fact::count(zone.queued, "node"))
                .with("secondsToLastTaint", last),
        );
    }
}

fn is_all_down(context: &Context<'_>) -> bool {
    let has_unknown = context.nodes().any(Node::lacks_conditions);
    context.zones.all_fully_disrupted && !has_unknown
}

fn all_down(context: &Context<'_>, findings: &mut Findings<'_>) {
    if is_all_down(context) {
        let zones: Vec<_> = context.zones.zones.iter().filter(|z| z.size > 0).collect();
        let nodes = zones.iter().map(|zone| zone.size).sum();
        let says =
            "none of {nodes} in {zones} is ready; the controller evicts no pods until one is";
        let found = FindingBuilder::cluster(says)
            .with("nodes", Fact::count(nodes, "node"))
            .with("zones", Fact::count(zones.len(), "zone"));
        let is_heard = |node: &Node| {
            let ready = node.condition("Ready");
            ready.is_some_and(|c| c.status == "False") || context.renews_lease(node).is_some()
        };
        let heard = context.nodes().filter(|node| is_heard(node)).count();
        findings.push(if heard == 0 {
            found
        } else {
            found
                .and("; the API server hears from {heard}, by Ready=False or a renewed lease")
                .with("heard", Fact::count(heard, "node"))
                .fix(
                    "Repair what the Ready conditions of these nodes name, and look for failed \
                     status updates in the kubelets' logs. Check the connection to the API server \
                     only from the other nodes.",
                )
        });
    }
}

fn next_stops(context: &Context<'_>, findings: &mut Findings<'_>) {
    for zone in context.zones.known() {
        let Some(border) = failures_to_partial(zone.size, &context.settings) else {
            continue;
        };
        let small = zone.size <= context.settings.large_zone;
        if small && zone.state == ZoneState::Normal && zone.not_ready + 1 == border {
            let says = "{notReady} of {size} not ready; with {border} the zone is partially \
                        disrupted and evictions stop";
            let found = FindingBuilder::zone(context, &zone.key, says)
                .with("notReady", zone.not_ready)
                .with("size", Fact::count(zone.size, "node"))
                .with("border", border);
            findings.push(found);
        }
    }
}

fn stranded(context: &Context<'_>, findings: &mut Findings<'_>) {
    for volume in context.snapshot.volumes.iter().flatten() {
        let affinity = volume.spec.node_affinity.as_ref();
        let (Some(affinity), Some(claim)) = (affinity, volume.spec.claim_ref.as_ref()) else {
            continue;
        };
        let reach = &affinity.required;
        let in_reach = context.nodes().filter(|node| reach.matches(node));
        let (open, closed): (Vec<_>, Vec<_>) = in_reach.partition(|node| is_open(node));
        if !reach.node_selector_terms.is_empty() && open.is_empty() {
            let says = "claim {claim}: no ready and uncordoned node can access it";
            let found = FindingBuilder::object("PersistentVolume", &volume.metadata, says);
            let claim = format!("{}/{}", claim.namespace, claim.name);
            findings.push(
                found
                    .with("claim", Fact::name(&claim))
                    .with("unavailableNodes", closed.len()),
            );
        }
    }
}
