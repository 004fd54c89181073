//! Headroom: capacity that remains when a node or a zone fails.
//!
//! Sums of requests against sums of Allocatable: a lower bound of what is missing, since taints,
//! affinity, volumes and the size of single pods are left aside.

use super::context::{Context, allocatable, belongs_to_node, is_control_plane, is_open};
use super::fact::{Fact, Statement};
use nodelife_core::object::Node;
use nodelife_core::quantity::Quantity;
use nodelife_core::request::{self, ByContainers};

pub(super) const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// A resource that workers offer to movable pods, and the sum of those pods' requests.
pub(super) struct Headroom<'a> {
    pub(super) resource: &'static str,
    offers: Vec<(&'a Node, i128)>,
    wanted: i128,
}

impl<'a> Headroom<'a> {
    pub(super) fn all(context: &Context<'a>) -> [Self; RESOURCES.len()] {
        let mut all = RESOURCES.map(|resource| Self {
            resource,
            offers: Vec::new(),
            wanted: 0,
        });
        let mut requests = ByContainers::new(request::requests);
        let workers = context
            .nodes()
            .filter(|node| is_open(node) && !is_control_plane(node));
        let workers: Vec<_> = workers.collect();
        for node in &workers {
            for one in &mut all {
                let offer = allocatable(node, one.resource).map_or(0, Quantity::nano);
                one.offers.push((node, offer));
            }
            for pod in context.active_pods_on(&node.metadata.name) {
                let amounts = requests.of(pod);
                let stays = belongs_to_node(pod);
                for one in &mut all {
                    let amount = amounts.get(one.resource);
                    let amount = amount.map_or(0, |amount| amount.nano());
                    // DaemonSet and static pods use their node's room and need none elsewhere.
                    match one.offers.last_mut() {
                        Some((_, offer)) if stays => *offer = offer.saturating_sub(amount),
                        _ => one.wanted = one.wanted.saturating_add(amount),
                    }
                }
            }
        }
        // What a node offers that does not say it is not zero, and neither is the sum.
        for one in &mut all {
            let mut offers = workers.iter().map(|node| allocatable(node, one.resource));
            if offers.any(|offer| offer.is_none()) {
                one.offers.clear();
            }
        }
        all
    }

    pub(super) fn largest(&self) -> Option<&'a Node> {
        let largest = self.offers.iter().max_by_key(|(_, offer)| offer);
        largest.map(|(node, _)| *node)
    }

    /// The sum of offers without the `lost` nodes if it is too small; none without other nodes.
    pub(super) fn short_without(&self, lost: impl Fn(&Node) -> bool) -> Option<i128> {
        let others = self.offers.iter().filter(|(node, _)| !lost(node));
        let left = others.map(|(_, offer)| *offer).reduce(i128::saturating_add);
        left.filter(|left| self.wanted > *left)
    }

    pub(super) fn say(&self, without: &str, left: i128) -> Statement {
        // Small amounts in a smaller unit, or their difference would not be seen.
        let is_small = |limit: i64| left.max(self.wanted) < i128::from(limit) * 1_000_000_000;
        let (size, decimals, unit) = match self.resource {
            "cpu" if is_small(10) => (1e-3, 0, "m"),
            "cpu" => (1.0, 1, " cores"),
            _ if is_small(10 << 30) => (f64::from(1 << 20), 0, "Mi"),
            _ => (f64::from(1 << 30), 1, " Gi"),
        };
        let amount = |nano: i128| {
            let amount = units(nano);
            Fact::from(amount).shown(format!("{:.decimals$}{unit}", amount / size))
        };
        let says = "{resource}: without {name}, {left} are left for {requests} of requests";
        Statement::from(says)
            .with("resource", self.resource)
            .with("name", Fact::identity(without))
            .with("left", amount(left))
            .with("requests", amount(self.wanted))
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn units(nano: i128) -> f64 {
    nano as f64 / 1e9
}
