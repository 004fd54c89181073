//! From the settings of a drain to the options of the plan and the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::text::Str;
use nodelife_drain_plan::{Bypass, DrainOptions, DrainPlan, Manner, PlanOptions};
use tokio::time::Instant;

use crate::settings::{DrainSettings, OnImpossible, SurgeStrategy};
use crate::view::ClusterView;

impl DrainSettings {
    /// Whether each node is cordoned when its turn comes. Where none waits for its turn they are all
    /// cordoned first: what leaves one would only go to the next.
    pub(crate) fn cordons_each(&self, view: &ClusterView) -> bool {
        view.nodes.len() > self.concurrency
            || (view.nodes.len() > 1 || self.shared.is_some())
                && (self.max_per_zone.is_some() || self.max_unavailable.is_some())
    }

    /// The plan for what is in view.
    pub(crate) fn plan(&self, view: &ClusterView, now: Timestamp) -> DrainPlan {
        let options = PlanOptions {
            manner: self.manner(),
            order: self.order,
            concurrency: self.concurrency,
            now,
        };
        view.plan(&self.permissions, self.implicit_budget.as_ref(), &options)
    }

    /// How pods go.
    fn manner(&self) -> Manner {
        let bypassed = self.permissions.bypass.iter();
        Manner {
            disable_eviction: self.permissions.disable_eviction,
            grace_period_seconds: self.grace_period_seconds,
            evict_daemon_sets: self.permissions.evict_daemon_sets,
            bypass_pdb: bypassed.map(|key| key.to_string().into()).collect(),
            force_after_seconds: self.force_after.map(|after| after.as_secs()),
            on_impossible: match self.on_impossible {
                OnImpossible::Refuse => None,
                OnImpossible::Partial => Some("partial".into()),
                OnImpossible::Wait => Some("wait".into()),
            },
            surge: self.surge.map(|surge| match surge {
                SurgeStrategy::Restart => "restart".into(),
            }),
        }
    }

    /// The options of the state machine.
    pub(crate) fn machine(
        &self,
        plan: &DrainPlan,
        view: &ClusterView,
        claims: BTreeMap<Str, (Str, Str)>,
        cluster: &Cluster,
    ) -> DrainOptions {
        let signed = |limit: Option<Duration>| limit.and_then(|l| SignedDuration::try_from(l).ok());
        DrainOptions {
            given_up: match self.on_impossible {
                OnImpossible::Wait => BTreeMap::new(),
                _ => plan.impossible.clone(),
            },
            permissions: self.permissions.clone(),
            deadline: deadline(self.end, cluster),
            concurrency: self.concurrency,
            order: self.order,
            implicit: self.implicit_budget.clone(),
            grace_period_seconds: self.grace_period_seconds,
            node_timeout: signed(self.node_timeout),
            pod_timeout: signed(self.pod_timeout),
            blocked_timeout: signed(self.blocked_timeout),
            wait_for_impossible: self.on_impossible == OnImpossible::Wait,
            once: self.once,
            max_per_zone: self.max_per_zone,
            cordon_each: self.cordons_each(view),
            max_unavailable: self
                .max_unavailable
                .map(|most| most.of(view.nodes.len() + view.excluded.len())),
            soak: signed(Some(self.soak)).unwrap_or_default(),
            gate: self.gate.is_some(),
            zones: view.zones(),
            wait_ready: self.wait_ready,
            claims,
            wait_volumes: self.wait_volumes,
            force: signed(self.force_after).map(|wait| Bypass {
                wait,
                budgets: self.permissions.bypass.clone(),
            }),
        }
    }
}

/// The end by the API server's clock.
pub(crate) fn deadline(end: Option<Instant>, cluster: &Cluster) -> Option<Timestamp> {
    let left = end?.saturating_duration_since(Instant::now());
    let left = SignedDuration::try_from(left).ok()?;
    cluster.clock().now().saturating_add(left).ok()
}
