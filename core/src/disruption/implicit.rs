//! Implicit disruption budget of workloads without a PodDisruptionBudget.
//!
//! `kubectl drain` spares them only because it throttles itself. A fast drain would take
//! all replicas of a workload down at once, so a share of them has to stay Ready.

use std::fmt;

use jiff::SignedDuration;

use super::budget::{BudgetKey, CountResult};
use crate::object::{IntOrString, OwnerReference, Pod, WorkloadKind};
use crate::operator::is_guarded;
use crate::text::Str;
use crate::workload::{WorkloadKey, Workloads};

/// How long an implicit budget waits for replacements that do not come before it lets
/// one more pod go: a drain that nobody protected by a budget must not hang.
pub const IMPLICIT_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// How much of a workload without a budget may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImplicitBudget(IntOrString);

impl Default for ImplicitBudget {
    /// As much as a Deployment takes down by itself when it rolls (`maxUnavailable`, 25 %).
    fn default() -> Self {
        Self(IntOrString::String("25%".into()))
    }
}

impl ImplicitBudget {
    pub fn new(most: IntOrString) -> CountResult<Self> {
        most.scaled(100)?;
        Ok(Self(most))
    }

    /// `25%`, a number of pods, or `none`.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        if text == "none" {
            return Ok(None);
        }
        let most = match text.parse::<u16>() {
            Ok(count) => IntOrString::Int(i32::from(count)),
            Err(_) => IntOrString::String(text.into()),
        };
        let wrong = |_| "expected a number of pods, a percentage or none".to_owned();
        Self::new(most).map(Some).map_err(wrong)
    }

    /// The counts for the workload of this pod; none where the pod is not Ready, has a
    /// controller that keeps no number of replicas, or one that was not read.
    pub fn counts(&self, pod: &Pod, workloads: &Workloads) -> Option<ImplicitCounts> {
        if !pod.is_ready() {
            return None;
        }
        let workload = workloads.counted(pod)?;
        if !keeps_replicas(workload.kind) {
            return None;
        }
        let replicas = workload.replicas();
        // A drain that may take nothing would never end.
        let most = self.0.scaled(replicas).ok()?.max(1);
        Some(ImplicitCounts {
            workload: workload.key(),
            uid: workload.metadata.uid.clone(),
            needs: replicas.saturating_sub(most).max(0),
            has: workload.status.ready_replicas.unwrap_or(0),
            replicas,
        })
    }
}

impl fmt::Display for ImplicitBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub fn keeps_replicas(kind: WorkloadKind) -> bool {
    matches!(
        kind,
        WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet | WorkloadKind::ReplicationController
    )
}

/// The controller of an unknown kind that keeps this pod running: how many pods it wants is not known,
/// so they go one after the other.
pub fn unknown_keeper(pod: &Pod) -> Option<&OwnerReference> {
    let keeper = pod.metadata.controller()?;
    let is_unknown = WorkloadKind::of(keeper).is_none() && keeper.kind != "Pod";
    let serves = pod.is_ready() && pod.spec.restart_policy.is_empty();
    (is_unknown && serves && !is_guarded(pod)).then_some(keeper)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    Workload(WorkloadKey),
    Budget(BudgetKey),
    /// One pod at a time of the controller with this UID: see [`unknown_keeper`].
    Keeper(Str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImplicitCounts {
    pub workload: WorkloadKey,
    pub uid: Str,
    pub needs: i32,
    pub has: i32,
    pub replicas: i32,
}

impl ImplicitCounts {
    pub fn allowed(&self) -> i32 {
        self.has.saturating_sub(self.needs).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pod, workload};

    fn counts(most: &ImplicitBudget, replicas: i32, ready: i32) -> Option<i32> {
        let mut workloads = Workloads::default();
        let mut web = workload(WorkloadKind::ReplicaSet, "web", replicas);
        web.status.ready_replicas = Some(ready);
        workloads.add_listed([WorkloadKind::ReplicaSet], [web]);
        most.counts(&pod("a", "n"), &workloads).map(|r| r.allowed())
    }

    #[test]
    fn allows_a_quarter_and_at_least_one() {
        for (replicas, ready, allowed) in
            [(60, 60, 15), (60, 50, 5), (60, 45, 0), (4, 4, 1), (1, 1, 1)]
        {
            let counts = counts(&ImplicitBudget::default(), replicas, ready);
            assert_eq!(counts, Some(allowed), "{ready} of {replicas}");
        }
        let none = ImplicitBudget::new(IntOrString::Int(0)).unwrap();
        assert_eq!(counts(&none, 3, 3), Some(1));
    }

    #[test]
    fn unready_and_unknown_workloads_have_no_limit() {
        let mut unready = pod("a", "n");
        unready.status.conditions.clear();
        let workloads = Workloads::default();
        let budget = ImplicitBudget::default();
        assert_eq!(budget.counts(&unready, &workloads), None);
        assert_eq!(budget.counts(&pod("a", "n"), &workloads), None);
        assert!(ImplicitBudget::new(IntOrString::String("many".into())).is_err());
    }
}
