//! Predicted decision of the eviction API for a pod, from the pod and its budgets.
//!
//! Mirrors pkg/registry/core/pod/storage/eviction.go of Kubernetes v1.36.3
//! (`Create`, `canIgnorePDB`, `checkAndDecrement`).

use std::fmt;

use super::budget::{BudgetKey, Budgets, CountError};
use crate::format::plural;
use crate::object::{
    Budget, BudgetStatus, OwnerReference, Pod, UnhealthyPodEvictionPolicy, WorkloadKind,
};
use crate::operator::is_guarded;
use crate::text::Str;
use crate::workload::Workloads;

/// The most unconfirmed evictions that a budget may hold: `MaxDisruptedPodSize` in eviction.go.
const MAX_DISRUPTED_PODS: usize = 2000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionDecision {
    /// No budget has a say.
    Exempt(Exemption),
    /// The eviction takes one of the disruptions that the budget allows.
    Counted { budget: BudgetKey, allowed: i32 },
    /// The budget allows none now.
    Refused {
        budget: BudgetKey,
        refusal: BudgetRefusal,
    },
    /// More than one budget selects the pod: the API answers 500 whatever they allow.
    SeveralBudgets(Vec<BudgetName>),
    /// The budgets may not be seen: the answer itself will tell.
    BudgetsUnreadable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetName {
    pub key: BudgetKey,
    pub owner: Option<Str>,
}

impl BudgetName {
    fn of(budget: &Budget) -> Self {
        Self {
            key: budget.key(),
            owner: budget.owner().map(named),
        }
    }
}

impl fmt::Display for BudgetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Some(owner) => write!(f, "{} (of {owner})", self.key),
            None => self.key.fmt(f),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exemption {
    NoBudget,
    /// Pending, finished and terminating pods are deleted without a look at budgets.
    NotRunning,
    /// The pod is not Ready, and the budget lets such pods go.
    Unready(BudgetKey),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetRefusal {
    /// The disruption controller has not counted the present spec.
    NotObserved,
    /// `disruptionsAllowed` is negative or too many evictions are unconfirmed.
    Broken(&'static str),
    /// The controller could not count, with its own words.
    SyncFailed(String),
    /// Nothing is allowed now.
    Exhausted {
        needs: i32,
        has: i32,
        expected: i32,
        /// How many evictions were allowed that the numbers before do not show yet: the API
        /// server takes them off `disruptionsAllowed` alone, and the controller counts later.
        uncounted: i32,
        /// Whether the pod itself is not Ready: only `IfHealthyBudget`, the default, holds such a pod back.
        unready: bool,
        /// Kind and name of the object that the budget belongs to: see [`Budget::owner`].
        owner: Option<Str>,
    },
    /// The server refused although the status that is known here allows some: it has a newer one.
    Outdated { allowed: i32, message: String },
    /// The server refused, and the budgets may not be seen: its words are all that is known.
    BudgetsUnreadable(String),
}

impl BudgetRefusal {
    #[must_use]
    pub fn of(mut self, pod: &Pod) -> Self {
        if let Self::Exhausted { unready, .. } = &mut self {
            *unready = !pod.is_ready();
        }
        self
    }

    /// The same for every pod under the budget.
    #[must_use]
    pub fn of_any_pod(mut self) -> Self {
        if let Self::Exhausted { unready, .. } = &mut self {
            *unready = false;
        }
        self
    }
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotObserved => {
                f.write_str("the disruption controller has not processed its spec yet")
            }
            Self::Broken(what) => f.write_str(what),
            Self::SyncFailed(message) => write!(f, "it failed to sync: {message}"),
            Self::Exhausted { expected: 0, .. } => {
                f.write_str("no controller expects any of its pods, so it allows no eviction")
            }
            Self::Exhausted {
                needs,
                has,
                expected,
                uncounted,
                unready,
                owner,
            } => {
                let pods = plural(*needs, "healthy pod");
                write!(f, "needs {needs} {pods} and has {has} of {expected}")?;
                match uncounted {
                    _ if has <= needs => {}
                    0 => f.write_str(", but its status allows no eviction yet")?,
                    1 => f.write_str(", 1 of them just evicted")?,
                    more => write!(f, ", {more} of them just evicted")?,
                }
                // `desiredHealthy > 0` is a condition of the policy in eviction.go.
                if *unready && *needs <= 0 {
                    f.write_str("; the pod is not Ready, and goes when a pod of the budget is")?;
                } else if *unready {
                    f.write_str(
                        "; the pod is not Ready, and the budget's unhealthyPodEvictionPolicy \
                         IfHealthyBudget keeps it until enough others are (AlwaysAllow would not)",
                    )?;
                }
                match owner {
                    Some(owner) => write!(f, "; it belongs to {owner}"),
                    None => Ok(()),
                }
            }
            Self::Outdated { allowed, message } => write!(
                f,
                "its last known status allows {allowed}, but the API server refused: {message}"
            ),
            Self::BudgetsUnreadable(message) => write!(f, "the API server says: {message}"),
        }
    }
}

impl EvictionDecision {
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::SeveralBudgets(_))
    }
}

pub fn decide(pod: &Pod, budgets: &Budgets) -> EvictionDecision {
    if ignores_budgets(pod) {
        return EvictionDecision::Exempt(Exemption::NotRunning);
    }
    if budgets.is_unreadable() {
        return EvictionDecision::BudgetsUnreadable;
    }
    match budgets.matching(pod).as_slice() {
        [] => EvictionDecision::Exempt(Exemption::NoBudget),
        [budget] => under(pod, budget),
        several => {
            EvictionDecision::SeveralBudgets(several.iter().map(|b| BudgetName::of(b)).collect())
        }
    }
}

/// `canIgnorePDB` of eviction.go.
pub fn ignores_budgets(pod: &Pod) -> bool {
    pod.is_terminal() || pod.is_terminating() || pod.status.phase == "Pending"
}

fn under(pod: &Pod, budget: &Budget) -> EvictionDecision {
    let status = &budget.status;
    if !pod.is_ready() {
        let always = budget.spec.unhealthy_pod_eviction_policy
            == Some(UnhealthyPodEvictionPolicy::AlwaysAllow);
        let healthy =
            status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
        if always || healthy {
            return EvictionDecision::Exempt(Exemption::Unready(budget.key()));
        }
    }
    match budget.refusal() {
        Some(refusal) => EvictionDecision::Refused {
            budget: budget.key(),
            refusal: refusal.of(pod),
        },
        None => EvictionDecision::Counted {
            budget: budget.key(),
            allowed: budget.most(pod).unwrap_or(status.disruptions_allowed),
        },
    }
}

impl BudgetStatus {
    /// How many evictions the API server has allowed since the controller counted last: each
    /// lowers `disruptionsAllowed` and notes the pod, and leaves the other numbers as they were.
    fn uncounted(&self) -> i32 {
        if self.disrupted_pods.is_empty() {
            return 0;
        }
        let spare = self.current_healthy.saturating_sub(self.desired_healthy);
        spare.saturating_sub(self.disruptions_allowed).max(0)
    }
}

impl Budget {
    /// Why the budget allows nothing now: `checkAndDecrement` of eviction.go.
    pub fn refusal(&self) -> Option<BudgetRefusal> {
        let status = &self.status;
        if status.observed_generation < self.metadata.generation.unwrap_or(0) {
            // A sync that fails leaves the observed generation as it was: `failSafe` in
            // pkg/controller/disruption/disruption.go, v1.36.3.
            let failure = self.sync_failure().map(str::to_owned);
            return Some(failure.map_or(BudgetRefusal::NotObserved, BudgetRefusal::SyncFailed));
        }
        if status.disruptions_allowed < 0 {
            return Some(BudgetRefusal::Broken("its disruptionsAllowed is negative"));
        }
        if status.disrupted_pods.len() > MAX_DISRUPTED_PODS {
            return Some(BudgetRefusal::Broken(
                "it has more than 2000 unconfirmed evictions",
            ));
        }
        if status.disruptions_allowed > 0 {
            return None;
        }
        Some(match self.sync_failure() {
            Some(message) => BudgetRefusal::SyncFailed(message.to_owned()),
            None => BudgetRefusal::Exhausted {
                needs: status.desired_healthy,
                has: status.current_healthy,
                expected: status.expected_pods,
                uncounted: status.uncounted(),
                unready: false,
                owner: self.owner().map(named),
            },
        })
    }

    /// Whether the budget refuses every eviction of a Ready pod as long as its workloads keep
    /// their scale, with the numbers (needed, reachable) that say so. None where it allows one
    /// now, where its status is out of date, and where nothing certain is known.
    pub fn refuses_at_scale(&self, pods: &[&Pod], workloads: &Workloads) -> Option<(i32, i32)> {
        if !self.is_exhausted() {
            return None;
        }
        let is_whole = self.status.current_healthy >= self.status.expected_pods;
        match self.never_allows(pods, workloads) {
            Ok(never) => never,
            Err(CountError::Unread { .. }) if is_whole || !self.spec.counts_present_pods() => {
                self.refuses_by_status()
            }
            Err(_) => None,
        }
    }

    /// The same by the status alone, for lack of the workloads. While a pod is missing it says too
    /// much about an integer `minAvailable`: then `expectedPods` is the number of pods that are
    /// there, not the scale.
    pub fn refuses_by_status(&self) -> Option<(i32, i32)> {
        let (needed, expected) = (self.status.desired_healthy, self.status.expected_pods);
        let never = self.is_exhausted() && expected > 0 && needed >= expected;
        never.then_some((needed, expected))
    }

    /// The object that the budget belongs to, and whose controller may lift it: operators make
    /// budgets for their pods, and react to the cordon or to the attempt to evict (those of
    /// databases, virtual machines and storage do). A workload of Kubernetes itself lifts none.
    pub fn owner(&self) -> Option<&OwnerReference> {
        let owners = || self.metadata.owner_references.iter();
        let is_custom = |owner: &&OwnerReference| WorkloadKind::of(owner).is_none();
        let controller = owners().filter(|owner| owner.controller).find(is_custom);
        controller.or_else(|| owners().find(is_custom))
    }

    /// Whether the refusal of this pod may end although nobody changes the budget or the scale of
    /// the pod's workload: an operator that is known guards the pod, the pod ends by itself, or the
    /// budget belongs to somebody. A pod's controller of an unknown kind is not taken for an operator
    /// that acts.
    pub fn may_be_lifted(&self, pod: &Pod) -> bool {
        self.owner().is_some() || is_guarded(pod) || ends_by_itself(pod)
    }

    pub fn is_exhausted(&self) -> bool {
        matches!(self.refusal(), Some(BudgetRefusal::Exhausted { .. }))
    }

    /// How many pods go at a time where the status allows more than the spec means: a custom resource
    /// may have a scale that does not count all of its pods, which `getExpectedScale` takes at its
    /// word (IBM/operator-for-redis-cluster#57).
    pub fn most(&self, pod: &Pod) -> Option<i32> {
        let (status, owner) = (&self.status, pod.metadata.controller()?);
        let meant = status.expected_pods.saturating_sub(status.desired_healthy);
        let is_custom = WorkloadKind::of(owner).is_none() && !self.spec.counts_present_pods();
        (is_custom && status.disruptions_allowed > meant.max(1)).then_some(meant.max(1))
    }

    pub fn sync_failure(&self) -> Option<&str> {
        self.status
            .conditions
            .iter()
            .find(|c| c.kind == "DisruptionAllowed")
            .filter(|c| c.status == "False" && c.reason == "SyncFailed" && !c.message.is_empty())
            .map(|c| c.message.as_str())
    }
}

/// Whether a sync failed for want of an answer, by the words of Go's `url.Error` or of etcd: it is tried again.
pub fn is_tried_again(failure: &str) -> bool {
    let unanswered = ["Get \"http", "Put \"http", "Patch \"http", "etcdserver: "];
    unanswered.iter().any(|words| failure.contains(words))
}

/// Whether something in the cluster may lift the refusal by itself: see [`Budget::may_be_lifted`].
pub fn may_be_lifted(pod: &Pod, decision: &EvictionDecision, budgets: &Budgets) -> bool {
    let keys = match decision {
        EvictionDecision::Refused { budget, .. } => vec![budget],
        EvictionDecision::SeveralBudgets(several) => several.iter().map(|name| &name.key).collect(),
        EvictionDecision::BudgetsUnreadable => return is_guarded(pod),
        EvictionDecision::Exempt(_) | EvictionDecision::Counted { .. } => return false,
    };
    let mut known = keys.into_iter().filter_map(|key| budgets.get(key));
    // Operators change the numbers of their budget beside that of a user, and leave both there.
    let several = matches!(decision, EvictionDecision::SeveralBudgets(_));
    let mut users = known.clone().filter(|budget| budget.owner().is_none());
    let is_free = !several || is_guarded(pod) || ends_by_itself(pod) || users.next().is_none();
    is_free && known.any(|budget| budget.may_be_lifted(pod))
}

/// Whether a controller made this pod to run to its end: of a Job, a workflow or a runner, which the
/// kubelet does not restart, or of a game server, whatever the policy in its template. Agones' chart
/// guards these with a budget that has no owner (`templates/pdb.yaml`, agones#2794).
pub fn ends_by_itself(pod: &Pod) -> bool {
    let is_made =
        |owner: &OwnerReference| !pod.spec.restart_policy.is_empty() || owner.kind == "GameServer";
    pod.metadata.controller().is_some_and(is_made) && !is_guarded(pod)
}

fn named(owner: &OwnerReference) -> Str {
    Str::from(format!("{} {}", owner.kind, owner.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{budget, pod};

    fn of(pod: &Pod, budgets: &[Budget]) -> EvictionDecision {
        decide(pod, &Budgets::of(budgets.iter().cloned()))
    }

    #[test]
    fn pending_and_finished_pods_are_exempt() {
        for phase in ["Pending", "Succeeded", "Failed"] {
            let mut pod = pod("a", "n");
            pod.status.phase = phase.into();
            assert_eq!(
                of(&pod, &[budget("x", 0, 1, 1), budget("y", 0, 1, 1)]),
                EvictionDecision::Exempt(Exemption::NotRunning)
            );
        }
    }

    #[test]
    fn two_budgets_are_refused_whatever_they_allow() {
        let several = of(
            &pod("a", "n"),
            &[budget("x", 5, 6, 1), budget("y", 5, 6, 1)],
        );
        assert!(matches!(several, EvictionDecision::SeveralBudgets(keys) if keys.len() == 2));
    }

    #[test]
    fn exempts_an_unready_pod_by_policy() {
        let mut unready = pod("a", "n");
        unready.status.conditions.clear();
        let key = budget("x", 0, 0, 0).key();
        // Enough others are Ready.
        assert_eq!(
            of(&unready, &[budget("x", 0, 2, 2)]),
            EvictionDecision::Exempt(Exemption::Unready(key.clone()))
        );
        // Too few are.
        assert!(matches!(
            of(&unready, &[budget("x", 0, 1, 2)]),
            EvictionDecision::Refused { .. }
        ));
        // Under desiredHealthy 0 it takes a disruption, and none is allowed.
        assert!(matches!(
            of(&unready, &[budget("x", 0, 0, 0)]),
            EvictionDecision::Refused { .. }
        ));
        let mut always = budget("x", 0, 0, 2);
        always.spec.unhealthy_pod_eviction_policy = Some(UnhealthyPodEvictionPolicy::AlwaysAllow);
        assert_eq!(
            of(&unready, &[always]),
            EvictionDecision::Exempt(Exemption::Unready(key))
        );
    }

    #[test]
    fn an_outdated_status_refuses_first() {
        let mut stale = budget("x", 3, 4, 1);
        stale.metadata.generation = Some(2);
        stale.status.observed_generation = 1;
        assert!(matches!(
            of(&pod("a", "n"), &[stale]),
            EvictionDecision::Refused {
                refusal: BudgetRefusal::NotObserved,
                ..
            }
        ));
    }

    #[test]
    fn a_failed_sync_is_told_although_nothing_was_observed() {
        let mut failed = budget("x", 0, 0, 0);
        failed.status.observed_generation = 0;
        failed.status.conditions = vec![crate::object::Condition {
            kind: "DisruptionAllowed".into(),
            status: "False".into(),
            reason: "SyncFailed".into(),
            message: "found no controllers for pod \"a\"".into(),
        }];
        let refusal = failed.refusal().unwrap().to_string();
        assert_eq!(
            refusal,
            "it failed to sync: found no controllers for pod \"a\""
        );
    }

    #[test]
    fn the_policy_that_keeps_an_unready_pod_is_named() {
        let mut unready = pod("a", "n");
        unready.status.conditions.clear();
        let EvictionDecision::Refused { refusal, .. } = of(&unready, &[budget("x", 0, 1, 2)])
        else {
            panic!("it is refused");
        };
        let text = refusal.to_string();
        assert!(
            text.contains("unhealthyPodEvictionPolicy IfHealthyBudget"),
            "{text}"
        );
    }

    #[test]
    fn a_refusal_names_its_numbers() {
        let refusal = budget("x", 0, 3, 3).refusal().unwrap();
        assert_eq!(refusal.to_string(), "needs 3 healthy pods and has 3 of 3");
        let refusal = budget("x", 0, 1, 1).refusal().unwrap();
        assert_eq!(refusal.to_string(), "needs 1 healthy pod and has 1 of 1");
    }

    #[test]
    fn explains_a_refusal_despite_spare_pods() {
        let said = |budget: &Budget| budget.refusal().unwrap().to_string();
        // As the API server leaves it when it has allowed an eviction.
        let mut taken = budget("x", 0, 12, 11);
        let evicted = [("a".into(), jiff::Timestamp::UNIX_EPOCH)];
        taken.status.disrupted_pods = evicted.into();
        assert_eq!(
            said(&taken),
            "needs 11 healthy pods and has 12 of 12, 1 of them just evicted"
        );
        taken.status.disrupted_pods.clear();
        assert_eq!(
            said(&taken),
            "needs 11 healthy pods and has 12 of 12, but its status allows no eviction yet"
        );
        taken.status.expected_pods = 0;
        assert!(said(&taken).starts_with("no controller expects any"));
    }
}
