//! Arithmetic of the disruption controller: expected, desired and allowed pods of a budget.
//!
//! Mirrors pkg/controller/disruption/disruption.go of Kubernetes v1.36.3:
//! `getExpectedPodCount`, `getExpectedScale`, `countHealthyPods`,
//! `updatePdbStatus`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

use crate::object::{Budget, BudgetSpec, IntOrString, Pod, Workload, WorkloadKind};
use crate::text::Str;
use crate::workload::{Presence, Workloads};

/// How long an allowed eviction counts while the pod is still there: `DeletionTimeout` in disruption.go.
pub const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetKey {
    pub namespace: Str,
    pub name: Str,
}

impl fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// `NAMESPACE/NAME`
impl FromStr for BudgetKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(Self {
                namespace: namespace.into(),
                name: name.into(),
            }),
            _ => Err("expected NAMESPACE/NAME".to_owned()),
        }
    }
}

crate::as_text!(BudgetKey, "pattern": "^[^/]+/[^/]+$", "maxLength": 512);

impl Budget {
    pub fn key(&self) -> BudgetKey {
        BudgetKey {
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
        }
    }

    pub fn selects(&self, pod: &Pod) -> bool {
        self.metadata.namespace == pod.metadata.namespace
            && self
                .spec
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(&pod.metadata.labels))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Budgets {
    known: BTreeMap<BudgetKey, Budget>,
    unreadable: bool,
    selections: u64,
}

impl Budgets {
    pub fn of(budgets: impl IntoIterator<Item = Budget>) -> Self {
        Self {
            known: budgets.into_iter().map(|b| (b.key(), b)).collect(),
            unreadable: false,
            selections: 0,
        }
    }

    pub fn replace(&mut self, budgets: impl IntoIterator<Item = Budget>) {
        *self = Self {
            selections: self.selections + 1,
            ..Self::of(budgets)
        };
    }

    /// They may not be seen (any more): what is known is out of date, and which budgets there are
    /// shows only in the API server's answers. What is seen again ends that.
    pub fn set_unreadable(&mut self) {
        self.unreadable = true;
        self.selections += 1;
    }

    pub fn is_unreadable(&self) -> bool {
        self.unreadable
    }

    pub fn insert(&mut self, budget: Budget) {
        let selector = budget.spec.selector.clone();
        let before = self.known.insert(budget.key(), budget);
        let selects_the_same = before.is_some_and(|before| before.spec.selector == selector);
        if std::mem::take(&mut self.unreadable) || !selects_the_same {
            self.selections += 1;
        }
    }

    pub fn remove(&mut self, key: &BudgetKey) {
        self.unreadable = false;
        self.known.remove(key);
        self.selections += 1;
    }

    /// It is another number when they may select other pods than before.
    pub fn selections(&self) -> u64 {
        self.selections
    }

    pub fn get(&self, key: &BudgetKey) -> Option<&Budget> {
        self.known.get(key).filter(|_| !self.unreadable)
    }

    /// The budgets that the pod counts under, by name; none of those that may not be seen.
    pub fn matching(&self, pod: &Pod) -> Vec<&Budget> {
        if self.unreadable {
            return Vec::new();
        }
        let first = BudgetKey {
            namespace: pod.metadata.namespace.clone(),
            name: Str::default(),
        };
        self.known
            .range(first..)
            .map(|(_, budget)| budget)
            .take_while(|budget| budget.metadata.namespace == pod.metadata.namespace)
            .filter(|budget| budget.selects(pod))
            .collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub expected: i32,
    pub desired: i32,
    pub healthy: i32,
    pub allowed: i32,
}

pub(super) type CountResult<T> = Result<T, CountError>;

/// Why the disruption controller cannot count a budget: it then allows nothing
/// (`failSafe`) and says so in the condition `DisruptionAllowed`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    #[error("{0} does not implement the scale subresource")]
    NoScale(&'static str),
    #[error("found no controllers for pod {0:?}")]
    NoController(Str),
    /// A percentage that is none.
    #[error("invalid value for IntOrString: {0}")]
    Value(Str),
    #[error("the scale of {kind} {name} is not known")]
    Unread { kind: Str, name: Str },
}

impl Budget {
    /// The status that the disruption controller would write now; `pods`: all that the budget selects.
    pub fn count(
        &self,
        pods: &[&Pod],
        workloads: &Workloads,
        now: Timestamp,
    ) -> CountResult<Counts> {
        let expected = if self.spec.expects_nothing() {
            0
        } else if self.spec.counts_present_pods() {
            to_i32(pods.len())
        } else {
            scale_of(pods, workloads, Workload::replicas)?
        };
        let desired = self.spec.desired(expected)?;
        let is_healthy = |pod: &&&Pod| self.absence(pod, now).is_none();
        let healthy = to_i32(pods.iter().filter(is_healthy).count());
        let spare = healthy.saturating_sub(desired);
        let allowed = if expected > 0 && spare > 0 { spare } else { 0 };
        Ok(Counts {
            expected,
            desired,
            healthy,
            allowed,
        })
    }

    /// Whether it counts by the controllers of its pods, and none of them has one: it then
    /// expects no pod and allows no eviction (`getExpectedScale` and `updatePdbStatus`).
    pub fn is_over_bare_pods(&self, pods: &[&Pod]) -> bool {
        let mut controllers = pods.iter().map(|pod| pod.metadata.controller());
        !self.spec.counts_present_pods() && controllers.all(|controller| controller.is_none())
    }

    /// Whether no eviction of a Ready pod can be allowed at the present scale,
    /// with the numbers (needed, reachable) that say so.
    pub fn never_allows(
        &self,
        pods: &[&Pod],
        workloads: &Workloads,
    ) -> CountResult<Option<(i32, i32)>> {
        self.refuses_all(pods, scale_of(pods, workloads, Workload::replicas)?)
    }

    /// The same at this scale of the pods' controllers.
    ///
    /// An integer `minAvailable` counts the pods that are there at this moment, surge and finished
    /// ones included, so `expectedPods` itself does not tell.
    pub(super) fn refuses_all(&self, pods: &[&Pod], scale: i32) -> CountResult<Option<(i32, i32)>> {
        let is_bare = |pod: &&&Pod| pod.metadata.controller().is_none() && !pod.is_terminal();
        let most = scale.saturating_add(to_i32(pods.iter().filter(is_bare).count()));
        if self.is_over_bare_pods(pods) || self.spec.expects_nothing() {
            return Ok((most > 0).then_some((most, most)));
        }
        // Pods without a controller count as healthy, but not as expected.
        let expected = if self.spec.counts_present_pods() {
            most
        } else {
            scale
        };
        let desired = self.spec.desired(expected)?;
        Ok((most > 0 && desired >= most).then_some((desired, most)))
    }
}

impl BudgetSpec {
    /// Whether `expectedPods` counts the pods that are there, and is not the scale of their controllers.
    pub(super) fn counts_present_pods(&self) -> bool {
        self.max_unavailable.is_none() && matches!(self.min_available, Some(IntOrString::Int(_)))
    }

    /// Whether it sets neither `minAvailable` nor `maxUnavailable`: `getExpectedPodCount` then expects
    /// no pod, and `updatePdbStatus` allows no eviction.
    pub fn expects_nothing(&self) -> bool {
        self.max_unavailable.is_none() && self.min_available.is_none()
    }

    pub fn desired(&self, expected: i32) -> CountResult<i32> {
        match (&self.max_unavailable, &self.min_available) {
            (Some(most), _) => Ok(expected.saturating_sub(most.scaled(expected)?).max(0)),
            (None, Some(least)) => least.scaled(expected),
            (None, None) => Ok(0),
        }
    }
}

impl fmt::Display for BudgetSpec {
    /// The line of the manifest that binds: `maxUnavailable: 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.max_unavailable, &self.min_available) {
            (Some(most), _) => write!(f, "maxUnavailable: {most}"),
            (None, Some(least)) => write!(f, "minAvailable: {least}"),
            (None, None) => f.write_str("neither minAvailable nor maxUnavailable"),
        }
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

impl IntOrString {
    /// The count, percentages taken of `total` and rounded up.
    ///
    /// Mirrors `GetScaledValueFromIntOrPercent` of k8s.io/apimachinery v0.36.3
    /// (`pkg/util/intstr/intstr.go`).
    pub fn scaled(&self, total: i32) -> CountResult<i32> {
        match self {
            Self::Int(value) => Ok(*value),
            Self::String(text) => {
                let percent: i64 = text
                    .strip_suffix('%')
                    .and_then(|digits| digits.parse().ok())
                    .ok_or_else(|| CountError::Value(text.clone()))?;
                let hundredths = percent.saturating_mul(i64::from(total));
                let whole = hundredths.div_euclid(100);
                let up = i64::from(hundredths.rem_euclid(100) != 0);
                i32::try_from(whole + up).map_err(|_| CountError::Value(text.clone()))
            }
        }
    }
}

/// The sum of the `replicas` of the distinct controllers of the pods.
pub(super) fn scale_of(
    pods: &[&Pod],
    workloads: &Workloads,
    replicas_of: impl Fn(&Workload) -> i32,
) -> CountResult<i32> {
    let mut replicas: BTreeMap<&str, i32> = BTreeMap::new();
    for pod in pods {
        let Some(reference) = pod.metadata.controller() else {
            continue;
        };
        match WorkloadKind::of(reference) {
            Some(WorkloadKind::Job) => return Err(CountError::NoScale("jobs.batch")),
            Some(WorkloadKind::DaemonSet) => return Err(CountError::NoScale("daemonsets.apps")),
            _ => {}
        }
        let Some(scaler) = workloads.scaler(pod) else {
            return Err(match workloads.presence(reference) {
                Presence::Absent => CountError::NoController(pod.metadata.name.clone()),
                _ => CountError::Unread {
                    kind: reference.kind.clone(),
                    name: reference.name.clone(),
                },
            });
        };
        replicas.insert(&scaler.metadata.uid, replicas_of(scaler));
    }
    Ok(replicas.into_values().fold(0, i32::saturating_add))
}

fn to_i32(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
