//! Taints and tolerations, and their effect on pods.
//!
//! Mirrors Kubernetes v1.36.3: `Toleration.ToleratesTaint` (k8s.io/api
//! `core/v1/toleration.go`), `GetMatchingTolerations`
//! (`pkg/apis/core/v1/helper/helpers.go`), `getMinTolerationTime`
//! (`pkg/controller/tainteviction/taint_eviction.go`) and the map of conditions to
//! taints (`pkg/controller/nodelifecycle/node_lifecycle_controller.go`).

use crate::object::{Node, Taint, Toleration};
use crate::text::Str;

/// Ready is `False`.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Ready is `Unknown`.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// A person says that the machine is off, and its volumes may be detached.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The cloud controller has not seen the node yet.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The cloud says that the machine is shut down.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Whether an autoscaler puts this taint on a node that it is about to delete.
pub fn is_removal(taint: &Taint) -> bool {
    taint.key.starts_with("ToBeDeletedByClusterAutoscaler") || taint.key == "karpenter.sh/disrupted"
}

/// Pods that do not tolerate it are not scheduled there.
pub const NO_SCHEDULE: &str = "NoSchedule";
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
/// Pods that do not tolerate it are deleted.
pub const NO_EXECUTE: &str = "NoExecute";

/// A condition that the node lifecycle controller turns into a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionTaint {
    pub condition: &'static str,
    pub status: &'static str,
    pub key: &'static str,
}

/// `nodeConditionToTaintKeyStatusMap`: all of them with [`NO_SCHEDULE`], at once and
/// not rate limited. Those of Ready come with [`NO_EXECUTE`] as well, rate limited by zone.
pub const CONDITION_TAINTS: [ConditionTaint; 6] = [
    condition_taint("Ready", "False", NOT_READY),
    condition_taint("Ready", "Unknown", UNREACHABLE),
    condition_taint(
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    condition_taint("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    condition_taint(
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    condition_taint("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

const fn condition_taint(
    condition: &'static str,
    status: &'static str,
    key: &'static str,
) -> ConditionTaint {
    ConditionTaint {
        condition,
        status,
        key,
    }
}

pub fn find<'a>(node: &'a Node, key: &str, effect: &str) -> Option<&'a Taint> {
    let mut taints = node.spec.taints.iter();
    taints.find(|t| t.key == key && t.effect == effect)
}

impl Taint {
    pub fn new(key: &str, effect: &str) -> Self {
        Self {
            key: key.into(),
            effect: effect.into(),
            ..Self::default()
        }
    }
}

impl Toleration {
    /// Whether it tolerates `taint`. `Lt` and `Gt` never match: their gate
    /// (TaintTolerationComparisonOperators) is alpha and off.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let matches = |own: &Str, other: &Str| own.is_empty() || own == other;
        matches(&self.effect, &taint.effect)
            && matches(&self.key, &taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                operator => operator == "Exists",
            }
    }

    /// Whether it tolerates every taint there is: `Exists` without key and effect.
    pub fn is_blanket(&self) -> bool {
        self.key.is_empty() && self.operator == "Exists"
    }
}

/// For how many seconds `tolerations` let a pod stay on a node with the `NoExecute` taints among `taints`;
/// none: for ever.
///
/// For each taint the first toleration in list order that matches is used, whatever
/// its seconds. The time is the least of those used; those without seconds count only
/// if all are without.
pub fn toleration_time<'a>(
    taints: impl IntoIterator<Item = &'a Taint>,
    tolerations: &[Toleration],
) -> Option<i64> {
    let mut least = None;
    for taint in taints.into_iter().filter(|t| t.effect == NO_EXECUTE) {
        let Some(used) = tolerations.iter().find(|t| t.tolerates(taint)) else {
            return Some(0);
        };
        if let Some(seconds) = used.toleration_seconds {
            least = least.into_iter().chain([seconds.max(0)]).min();
        }
    }
    least
}

/// When a pod is deleted from a node that got these taints, each at its time, in their order; none:
/// never.
///
/// The time that was set first stays, whatever toleration a later taint uses: a taint that takes the
/// place of another does not begin anew (`processPodOnNode`,
/// `pkg/controller/tainteviction/taint_eviction.go`, v1.37.2). It goes where a taint is not tolerated
/// at all, or all that are there are tolerated for ever.
#[expect(clippy::cast_precision_loss, reason = "seconds of tolerations are small")]
pub fn eviction_time(taints: &[(f64, &Taint)], tolerations: &[Toleration]) -> Option<f64> {
    let mut due: Option<f64> = None;
    for (place, (at, _)) in taints.iter().enumerate() {
        if due.is_some_and(|due| due <= *at) {
            break;
        }
        // Taints of one update count together.
        if taints.get(place + 1).is_some_and(|(next, _)| next <= at) {
            continue;
        }
        let there = taints.iter().take(place + 1).map(|(_, taint)| *taint);
        due = match toleration_time(there, tolerations) {
            None => None,
            Some(0) => Some(*at),
            Some(seconds) => due.or_else(|| Some(at + seconds as f64)),
        };
    }
    due
}

/// The first taint with one of `effects` that is not tolerated (`FindMatchingUntoleratedTaint`).
pub fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[&str],
) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .find(|taint| !tolerations.iter().any(|t| t.tolerates(taint)))
}

/// Whether DefaultTolerationSeconds leaves `key` alone for a pod with these tolerations
/// (`plugin/pkg/admission/defaulttolerationseconds/admission.go`): it looks at key and
/// effect only, not at operator and value.
pub fn suppresses_default(tolerations: &[Toleration], key: &str) -> bool {
    tolerations.iter().any(|t| {
        (t.key == key || t.key.is_empty()) && (t.effect == NO_EXECUTE || t.effect.is_empty())
    })
}

/// A `NoExecute` taint as the node lifecycle controller puts it.
pub fn no_execute(key: &str) -> Taint {
    Taint::new(key, NO_EXECUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(key: &str, operator: &str, effect: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: key.into(),
            operator: operator.into(),
            effect: effect.into(),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    fn time(tolerations: &[Toleration]) -> Option<i64> {
        toleration_time(&[no_execute(NOT_READY)], tolerations)
    }

    #[test]
    fn the_first_match_decides() {
        let ten = toleration(NOT_READY, "Exists", NO_EXECUTE, Some(10));
        let always = toleration("", "Exists", "", None);
        assert_eq!(time(&[ten.clone(), always.clone()]), Some(10));
        assert_eq!(time(&[always, ten]), None);
    }

    #[test]
    fn the_least_of_those_used_counts() {
        let tolerations = [
            toleration(NOT_READY, "Exists", NO_EXECUTE, Some(300)),
            toleration("maintenance", "Exists", NO_EXECUTE, None),
        ];
        let taints = [no_execute(NOT_READY), no_execute("maintenance")];
        assert_eq!(toleration_time(&taints, &tolerations), Some(300));
    }

    #[test]
    fn without_a_match_it_goes_at_once() {
        assert_eq!(time(&[]), Some(0));
        let wrong = toleration(NOT_READY, "Equal", NO_EXECUTE, Some(300));
        assert_eq!(
            time(std::slice::from_ref(&wrong)),
            Some(300),
            "empty value is equal"
        );
        let valued = Toleration {
            value: "x".into(),
            ..wrong
        };
        assert_eq!(time(&[valued]), Some(0));
        let negative = toleration(NOT_READY, "Exists", NO_EXECUTE, Some(-5));
        assert_eq!(time(&[negative]), Some(0));
    }

    #[test]
    fn no_schedule_evicts_nobody() {
        let taint = Taint {
            effect: NO_SCHEDULE.into(),
            ..no_execute(NOT_READY)
        };
        assert_eq!(toleration_time(&[taint], &[]), None);
    }

    #[test]
    fn the_default_is_suppressed_by_key_and_effect_alone() {
        let odd = Toleration {
            value: "x".into(),
            ..toleration(NOT_READY, "Equal", NO_EXECUTE, None)
        };
        assert!(suppresses_default(&[odd], NOT_READY));
        let schedule = toleration(NOT_READY, "Exists", NO_SCHEDULE, None);
        assert!(!suppresses_default(&[schedule], NOT_READY));
    }

    #[test]
    fn the_time_that_was_set_first_stays() {
        let [not_ready, unreachable, other] = ["not-ready", "unreachable", "other"].map(no_execute);
        let tolerations = [
            toleration("not-ready", "Exists", NO_EXECUTE, Some(300)),
            toleration("unreachable", "Exists", NO_EXECUTE, Some(60)),
        ];
        let due = |taints: &[(f64, &Taint)]| eviction_time(taints, &tolerations);
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[(10.0, &not_ready)]), Some(310.0));
        assert_eq!(
            due(&[(10.0, &not_ready), (20.0, &unreachable)]),
            Some(310.0)
        );
        assert_eq!(due(&[(10.0, &not_ready), (10.0, &unreachable)]), Some(70.0));
        assert_eq!(due(&[(10.0, &not_ready), (20.0, &other)]), Some(20.0));
        assert_eq!(due(&[(10.0, &not_ready), (900.0, &other)]), Some(310.0));
        let always = [toleration("", "Exists", "", None)];
        assert_eq!(eviction_time(&[(10.0, &other)], &always), None);
    }
}
