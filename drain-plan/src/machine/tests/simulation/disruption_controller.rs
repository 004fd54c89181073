//! Simulated disruption controller.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::cluster::int;
use super::random::Random;
use crate::fixtures::budget;
use nodelife_core::object::{Budget, LabelSelector, Pod, UnhealthyPodEvictionPolicy};
use nodelife_core::text::Str;

#[derive(Debug)]
pub(super) struct Guard {
    pub(super) budget: Budget,
    /// Ready pods of the budget that are none of the world's, and those that will be.
    placement: i32,
    pub(super) coming: i32,
    /// When the drain was told last that one of its pods goes.
    pub(super) let_go: Option<Timestamp>,
}

impl Guard {
    /// A budget over `app` that always lets one pod go.
    pub(super) fn new(app: &str, pods: &BTreeMap<Str, Pod>, random: &mut Random) -> Self {
        let mut budget = budget(app, 0, 0, 0);
        let mut selector = LabelSelector::default();
        selector.match_labels.insert("app".into(), app.into());
        budget.spec.selector = Some(selector);
        budget.spec.unhealthy_pod_eviction_policy = random
            .chance(20)
            .then_some(UnhealthyPodEvictionPolicy::AlwaysAllow);
        let placement = i32::try_from(random.below(3)).unwrap();
        let covered = pods.values().filter(|pod| budget.selects(pod)).count();
        budget.status.expected_pods = int(covered) + placement;
        budget.status.desired_healthy = (budget.status.expected_pods - 1).max(0);
        Self {
            budget,
            placement,
            coming: 0,
            let_go: None,
        }
    }

    /// Counts what there is of its pods; whether that changed its status.
    pub(super) fn count(
        &mut self,
        pods: &BTreeMap<Str, Pod>,
        frozen: bool,
        now: Timestamp,
    ) -> bool {
        let covered = || pods.values().filter(|pod| self.budget.selects(pod));
        let noted = &self.budget.status.disrupted_pods;
        let kept: BTreeMap<Str, Timestamp> = noted
            .iter()
            .filter(|(name, since)| {
                **since + SignedDuration::from_mins(2) > now
                    && covered().any(|p| p.metadata.name == **name && !p.is_terminating())
            })
            .map(|(name, since)| (name.clone(), *since))
            .collect();
        let healthy =
            |p: &&Pod| p.is_ready() && !p.is_terminating() && !kept.contains_key(&p.metadata.name);
        let healthy = int(covered().filter(healthy).count()) + self.placement;
        let status = &mut self.budget.status;
        let allowed = (healthy - status.desired_healthy).max(0);
        let allowed = if frozen { 0 } else { allowed };
        if (status.current_healthy, status.disruptions_allowed) == (healthy, allowed)
            && status.disrupted_pods == kept
        {
            return false;
        }
        status.current_healthy = healthy;
        status.disruptions_allowed = allowed;
        status.disrupted_pods = kept;
        true
    }

    /// The API server lets a pod go.
    pub(super) fn charge(&mut self, name: Str, now: Timestamp) {
        let status = &mut self.budget.status;
        status.disruptions_allowed -= 1;
        status.disrupted_pods.insert(name, now);
    }

    pub(super) fn expect_one_more(&mut self) {
        let status = &mut self.budget.status;
        status.expected_pods += 1;
        status.desired_healthy = status.expected_pods - 1;
    }

    /// A replacement becomes Ready elsewhere.
    pub(super) fn heal(&mut self, random: &mut Random) {
        if self.coming > 0 && random.chance(70) {
            self.coming -= 1;
            self.placement += 1;
        }
    }
}
