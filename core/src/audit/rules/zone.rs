//! ZON: health of zones.

use crate::audit::{Context, FindingBuilder, Findings, Group, Rule, Severity};
use crate::format;
use crate::snapshot::Source;
use crate::zone::{Zone, ZoneKey, ZoneState};

pub(super) const RULES: &[Rule] = &[Rule {
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
    check: disrupted,
}];

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
