//! From the request of a drain to the options of the plan and of the state machine.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::Cluster;
use nodelife_core::go_duration::TimeLimit;
use nodelife_core::text::Str;
use nodelife_drain_plan::{
    Bypass, Consent, DrainOptions, DrainPlan, EvictionSettings, PlanContext, PlanOptions,
    PodFilter, PodPolicy,
};
use tokio::time::Instant;

use crate::settings::{DrainRequest, DrainSettings, OnImpossible, Order, Surge};
use crate::view::ClusterView;

impl DrainSettings {
    /// The options of the state machine, without what depends on the cluster; and the settings that
    /// an approval covers. `named`: pods are named, and not nodes.
    ///
    /// Each setting is named here, so that a new one cannot be forgotten: it is an option, or covered
    /// by approvals, or the engine's own.
    fn options(&self, named: bool) -> (DrainOptions, EvictionSettings) {
        let Self {
            pod_selector,
            force,
            delete_emptydir_data,
            disable_eviction,
            respect_annotations,
            grace_period,
            skip_wait_for_delete_timeout,
            concurrency: _,
            max_per_zone,
            exclude_from_load_balancers: _,
            wait_ready,
            wait_volumes,
            once,
            force_after,
            bypass_pdb,
            order,
            pod_rule,
            surge,
            on_impossible,
            on_refused: _,
            implicit_budget,
            node_timeout,
            pod_timeout,
            blocked_timeout,
            undo_on_failure: _,
            node_conditions: _,
        } = self;
        let overdue = i64::from(*skip_wait_for_delete_timeout);
        let filter = PodFilter {
            named,
            pod_selector: pod_selector.as_ref().map(|selector| selector.0.clone()),
            rules: pod_rule.clone(),
            skip_overdue: (overdue > 0).then(|| SignedDuration::from_secs(overdue)),
        };
        let consent = Consent {
            force: *force,
            delete_emptydir_data: *delete_emptydir_data,
            disable_eviction: *disable_eviction,
            respect_annotations: *respect_annotations,
            bypass: bypass_pdb.iter().cloned().collect(),
            approved: None,
        };
        let bypassed = bypass_pdb.iter().map(|key| key.to_string().into());
        let eviction = EvictionSettings {
            disable_eviction: *disable_eviction,
            grace_period_seconds: *grace_period,
            bypass_pdb: bypassed.collect(),
            force_after_seconds: force_after.map(|after| after.0.as_secs()),
            on_impossible: match on_impossible {
                OnImpossible::Refuse => None,
                OnImpossible::Partial => Some("partial".into()),
                OnImpossible::Wait => Some("wait".into()),
            },
            surge: surge.map(|Surge::Restart| "restart".into()),
        };
        let limit = |limit: &Option<TimeLimit>| signed(limit.as_ref()?.0);
        let options = DrainOptions {
            concurrency: self.concurrency(),
            by_priority: *order == Order::Priority,
            implicit: implicit_budget.0.clone(),
            grace_period_seconds: *grace_period,
            node_timeout: limit(node_timeout),
            pod_timeout: limit(pod_timeout),
            blocked_timeout: limit(blocked_timeout),
            wait_for_impossible: *on_impossible == OnImpossible::Wait,
            once: *once,
            max_per_zone: max_per_zone.map(usize::from),
            wait_ready: *wait_ready,
            wait_volumes: *wait_volumes,
            force: limit(force_after).map(|wait| Bypass {
                wait,
                budgets: consent.bypass.clone(),
            }),
            policy: PodPolicy { filter, consent },
            ..DrainOptions::default()
        };
        (options, eviction)
    }

    fn concurrency(&self) -> usize {
        usize::from(self.concurrency.unwrap_or(1).max(1))
    }
}

impl DrainRequest {
    /// Whether each node is cordoned when its turn comes. Where none waits for its turn they are all
    /// cordoned first: what leaves one would only go to the next.
    pub(crate) fn cordons_each(&self, view: &ClusterView) -> bool {
        view.nodes.len() > self.settings.concurrency()
            || !self.earlier.ended.is_empty()
            || self.settings.exclude_from_load_balancers.is_some()
            || (view.nodes.len() > 1 || self.shared.is_some())
                && (self.settings.max_per_zone.is_some() || self.max_unavailable.is_some())
    }

    pub(crate) fn plan(&self, view: &ClusterView, now: Timestamp) -> DrainPlan {
        let context = view.plan_context();
        self.plan_in(view, context.as_ref(), now).with_digest()
    }

    /// The same without the digest, in a context that plans of the same cluster share.
    pub(super) fn plan_in(
        &self,
        view: &ClusterView,
        context: Option<&PlanContext<'_>>,
        now: Timestamp,
    ) -> DrainPlan {
        let (machine, eviction) = self.settings.options(view.namespace.is_some());
        let exclusion = self.settings.exclude_from_load_balancers;
        let exclusion = exclusion.and_then(|wait| signed(wait.0));
        let options = PlanOptions {
            eviction,
            by_priority: machine.by_priority,
            concurrency: machine.concurrency,
            exclusion: exclusion.unwrap_or_default(),
            now,
        };
        let implicit = machine.implicit.as_ref();
        view.plan(&machine.policy, implicit, &options, context)
    }

    pub(crate) fn machine(
        &self,
        plan: &DrainPlan,
        view: &ClusterView,
        claims: BTreeMap<Str, (Str, Str)>,
        cluster: &Cluster,
    ) -> DrainOptions {
        let (options, _) = self.settings.options(view.namespace.is_some());
        let nodes = view.nodes.len() + view.excluded.len();
        let mut given_up = plan.impossible.clone();
        given_up.retain(|_, why| !options.wait_for_impossible && !why.may_be_scaled());
        let zones = self.earlier.zones.clone().into_iter();
        DrainOptions {
            given_up,
            without_place: plan.without_place.clone(),
            wait_for_rights: self.shared.is_some(),
            deadline: deadline(self.end, cluster),
            cordon_each: self.cordons_each(view),
            max_unavailable: self.max_unavailable.map(|most| most.of(nodes)),
            soak: signed(self.soak).unwrap_or_default(),
            gate: self.gate.is_some(),
            zones: zones.chain(view.zones()).collect(),
            claims,
            earlier: self.earlier.clone(),
            ..options
        }
    }
}

fn signed(duration: Duration) -> Option<SignedDuration> {
    SignedDuration::try_from(duration).ok()
}

fn deadline(end: Option<Instant>, cluster: &Cluster) -> Option<Timestamp> {
    let left = end?.saturating_duration_since(Instant::now());
    let left = SignedDuration::try_from(left).ok()?;
    cluster.clock().now().saturating_add(left).ok()
}
