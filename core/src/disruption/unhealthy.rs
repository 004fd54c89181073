//! Pods that a budget counts as unhealthy.

use std::fmt;

use jiff::Timestamp;

use super::budget::DELETION_TIMEOUT;
use crate::format;
use crate::object::{Budget, Pod};
use crate::text::Str;

/// A pod that its budget counts on, and that serves nobody at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnhealthyPod {
    /// Its name; the namespace is the budget's.
    pub name: Str,
    pub node: Str,
    pub why: UnhealthyReason,
    pub seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnhealthyReason {
    Terminating,
    /// Its eviction was allowed, and it was not seen to be deleted yet.
    JustEvicted,
    Ended,
    Unscheduled,
    NotReady,
}

impl fmt::Display for UnhealthyPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.node.is_empty() {
            write!(f, " on {}", self.node)?;
        }
        f.write_str(match self.why {
            UnhealthyReason::Terminating => " is terminating",
            // Where it goes, it terminates within moments.
            UnhealthyReason::JustEvicted if self.seconds.is_some_and(|seconds| seconds >= 10) => {
                let seconds = self.seconds.unwrap_or_default();
                let end = DELETION_TIMEOUT.as_secs();
                return write!(
                    f,
                    " is counted as evicted, {seconds} s after its eviction was allowed, but is \
                     still there: status.disruptedPods forgets it after {end} s"
                );
            }
            UnhealthyReason::JustEvicted => " was just evicted",
            UnhealthyReason::Ended => " has finished",
            UnhealthyReason::Unscheduled => " is not scheduled",
            UnhealthyReason::NotReady => " is not Ready",
        })?;
        match self.seconds {
            Some(seconds) => write!(f, " (for {})", format::duration(seconds)),
            None => Ok(()),
        }
    }
}

impl Budget {
    /// Its pods that do not count as healthy, by name.
    pub fn unhealthy_pods<'a>(
        &self,
        pods: impl IntoIterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Vec<UnhealthyPod> {
        let selected = pods.into_iter().filter(|pod| self.selects(pod));
        let mut unhealthy: Vec<UnhealthyPod> = selected
            .filter_map(|pod| {
                let (why, since) = self.absence(pod, now)?;
                Some(UnhealthyPod {
                    name: pod.metadata.name.clone(),
                    node: pod.spec.node_name.clone(),
                    why,
                    seconds: since.map(|since| now.duration_since(since).as_secs().max(0)),
                })
            })
            .collect();
        unhealthy.sort_by(|a, b| a.name.cmp(&b.name));
        unhealthy
    }

    /// Why the pod does not count as healthy, and since when; none if it does.
    pub(super) fn absence(
        &self,
        pod: &Pod,
        now: Timestamp,
    ) -> Option<(UnhealthyReason, Option<Timestamp>)> {
        let changed = |kind: &str| pod.condition(kind).and_then(|c| c.last_transition_time);
        if pod.is_terminating() {
            return Some((UnhealthyReason::Terminating, None));
        }
        let evicted = self.status.disrupted_pods.get(&pod.metadata.name);
        if let Some(since) = evicted.filter(|since| **since + DELETION_TIMEOUT > now) {
            return Some((UnhealthyReason::JustEvicted, Some(*since)));
        }
        if pod.is_ready() {
            return None;
        }
        Some(if pod.is_terminal() {
            (UnhealthyReason::Ended, changed("Ready"))
        } else if pod.spec.node_name.is_empty() {
            (UnhealthyReason::Unscheduled, changed("PodScheduled"))
        } else {
            (UnhealthyReason::NotReady, changed("Ready"))
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::fixtures::{budget, pod, workload};
    use crate::object::{PodCondition, WorkloadKind};
    use crate::workload::Workloads;

    #[test]
    fn lists_each_unhealthy_pod_with_node_and_reason() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
        let ago = |seconds| now - SignedDuration::from_secs(seconds);
        let mut budget = budget("web", 0, 1, 1);
        let not_ready = |name: &str, node: &str| {
            let mut pod = pod(name, node);
            pod.status.conditions = vec![PodCondition {
                kind: "Ready".into(),
                status: "False".into(),
                last_transition_time: Some(ago(300)),
                ..PodCondition::default()
            }];
            pod
        };
        let mut terminating = pod("e", "n");
        terminating.metadata.deletion_timestamp = Some(now);
        let mut ended = not_ready("d", "n");
        ended.status.phase = "Failed".into();
        let mut other = not_ready("other", "n");
        other.metadata.labels.clear();
        let evicted = |budget: &mut Budget, name: &str, seconds| {
            let disrupted = &mut budget.status.disrupted_pods;
            disrupted.insert(name.into(), ago(seconds));
        };
        evicted(&mut budget, "f", 5);
        evicted(&mut budget, "a", 500);
        evicted(&mut budget, "g", 90);
        let pods = [
            terminating,
            pod("a", "n"),
            not_ready("b", "m"),
            not_ready("c", ""),
            ended,
            pod("f", "n"),
            pod("g", "n"),
            other,
        ];
        let said: Vec<String> = budget
            .unhealthy_pods(&pods, now)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            said,
            [
                "b on m is not Ready (for 5m)",
                "c is not scheduled",
                "d on n has finished (for 5m)",
                "e on n is terminating",
                "f on n was just evicted (for 5s)",
                "g on n is counted as evicted, 90 s after its eviction was allowed, but is still \
                 there: status.disruptedPods forgets it after 120 s",
            ]
        );
        // Who is not named is counted.
        let selected: Vec<&Pod> = pods.iter().filter(|pod| budget.selects(pod)).collect();
        let mut workloads = Workloads::default();
        workloads.add_listed(
            WorkloadKind::ALL,
            [workload(WorkloadKind::ReplicaSet, "web", 6)],
        );
        let counts = budget.count(&selected, &workloads, now).unwrap();
        assert_eq!(
            usize::try_from(counts.healthy).unwrap() + said.len(),
            selected.len()
        );
    }
}
