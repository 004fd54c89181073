//! Estimate of a drain's duration, from the start-up times of its pods.
//!
//! The start-up time of a replacement is that of the replicas of its workload: from the binding
//! of each to its Ready condition. How long a pod takes to stop is unknown, between no time and
//! its whole grace period. The estimate is therefore a range, and names its basis.
//!
//! The rest is three constants of the control plane. They matter only to a drain that takes
//! seconds. `docs/benchmarks.md` shows the error of the estimate without each: two of them serve one
//! scenario of the bench each, and keep its error within 25 %.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use super::context::PlanOptions;
use super::duration::{Estimate, Millis, Seconds};
use super::startup::StartupTimes;
use super::waves::Allowance;
use crate::options::Tier;
use nodelife_core::disruption::Limit;
use nodelife_core::format::list;
use nodelife_core::object::{Pod, WorkloadKind};
use nodelife_core::shutdown;
use nodelife_core::text::Str;

/// From an eviction to the binding of the replacement, and from its Ready condition to the
/// budget's new status, on an idle control plane. Measured by the drain bench.
const TURNAROUND: Millis = 100;

/// Between two evictions under one budget. The API server reads the budget when its cache is up to
/// date, for which it asks etcd every 100 ms (v1.36.3,
/// `staging/src/k8s.io/apiserver/pkg/storage/cacher/progress/watch_progress.go`,
/// `progressRequestPeriod`).
const EVICTION: Millis = 100;

/// The time of a workload controller's writes for a replacement: the pod, its event and a status,
/// which may serve several replacements. Each takes 50 ms when the burst is used up, since
/// kube-controller-manager allows a controller 30 requests at once and 20 a second (v1.36.3,
/// `pkg/controller/apis/config/v1alpha1/defaults.go`).
const WRITES: Millis = 140;
const BURST: Millis = 30 * 50;

/// A pod that is to go, in the order of the plan.
pub(super) struct PlannedEviction<'a> {
    pub(super) pod: &'a Pod,
    pub(super) share: Option<Allowance>,
    pub(super) tier: Tier,
}

/// Nobody knows when.
const NEVER: Millis = Millis::MAX;

struct Permits {
    at: BinaryHeap<Reverse<Millis>>,
    /// The earliest time for the next, after the last.
    next: Millis,
}

impl Permits {
    /// Those that the budget allows, at most `most` of them: at once, or when the missing pods are
    /// Ready, which takes them `startup`.
    fn new(share: &Allowance, startup: Millis, most: usize) -> Self {
        let missing = share.steady.saturating_sub(share.now);
        let now = (0..share.now).map(|_| Reverse(0));
        let later = (0..missing).map(|_| Reverse(startup));
        Self {
            at: now.chain(later).take(most).collect(),
            next: 0,
        }
    }

    fn earliest(&self) -> Option<Millis> {
        let Reverse(at) = self.at.peek()?;
        Some(self.next.max(*at))
    }
}

pub(super) struct Schedule<'a> {
    pub(super) nodes: &'a [Str],
    /// In the order of their tiers.
    pub(super) leaving: &'a [PlannedEviction<'a>],
    /// For how long pods of each node may go on to terminate that were deleted before.
    pub(super) terminating: &'a BTreeMap<Str, Millis>,
    pub(super) options: &'a PlanOptions,
}

impl Schedule<'_> {
    /// Estimates the time of the drain. Fails where nothing tells how long replacements take.
    pub(super) fn estimate(&self, start_ups: &StartupTimes<'_>) -> Result<Estimate, String> {
        let replaced = |pod: &Pod| {
            let typical = start_ups.typical(&pod.metadata.controller()?.uid)?;
            Some(typical.took.saturating_add(TURNAROUND))
        };
        let stops = |pod: &Pod| {
            // Nothing of an evicted or completed pod runs any more.
            if pod.is_terminal() {
                return 0;
            }
            let grace = self.options.eviction.grace_period_seconds;
            let seconds = grace.map_or_else(
                || u64::try_from(shutdown::grace(pod)).unwrap_or(0),
                u64::from,
            );
            seconds.saturating_mul(1000)
        };
        // At best the pods that are missing now come back, at worst they do not.
        let least = self.run(replaced, |_| 0, |_| 0, true);
        let terminating = |node: &Str| self.terminating.get(node).copied().unwrap_or(0);
        let most = self.run(replaced, stops, terminating, false);
        let (Some(least), Some(most)) = (least, most) else {
            return Err(self.unknown_start_ups(start_ups));
        };
        let mut basis: Vec<String> = Vec::new();
        let mut told = BTreeSet::new();
        for PlannedEviction { pod, share, .. } in self.leaving {
            let (Some(controller), true) = (pod.metadata.controller(), share.is_some()) else {
                continue;
            };
            if !told.insert(&controller.uid) {
                continue;
            }
            let Some(typical) = start_ups.typical(&controller.uid) else {
                continue;
            };
            let line = format!(
                "pods of {} {}/{} became Ready {typical}",
                controller.kind, pod.metadata.namespace, controller.name,
            );
            if !basis.contains(&line) {
                basis.push(line);
            }
        }
        let running = self.leaving.iter().filter(|one| !one.pod.is_terminal());
        if let Some(longest) = running.map(|leaving| stops(leaving.pod)).max() {
            basis.push(format!(
                "pods have grace periods of up to {} s",
                longest / 1000
            ));
        }
        Ok(Estimate {
            min_seconds: Seconds(least),
            max_seconds: Seconds(most),
            basis,
        })
    }

    fn unknown_start_ups(&self, start_ups: &StartupTimes<'_>) -> String {
        let mut of: BTreeSet<String> = BTreeSet::new();
        for PlannedEviction { pod, share, .. } in self.leaving {
            let meta = &pod.metadata;
            if let (Some(controller), true) = (meta.controller(), share.is_some())
                && start_ups.typical(&controller.uid).is_none()
            {
                let (kind, name) = (&controller.kind, &controller.name);
                of.insert(format!("{kind} {}/{name}", meta.namespace));
            }
        }
        let of = list(of);
        format!("nothing tells how long the pods of {of} take to become Ready")
    }

    /// When the last pod is gone. An eviction uses a permit of its budget, which is there again
    /// when the replacement is Ready. None if a pod waits for a replacement whose start-up time is
    /// unknown. `heals`: whether pods that are missing now become Ready.
    fn run(
        &self,
        startup: impl Fn(&Pod) -> Option<Millis>,
        stops: impl Fn(&Pod) -> Millis,
        terminating: impl Fn(&Str) -> Millis,
        heals: bool,
    ) -> Option<Millis> {
        let startup = |pod: &Pod| startup(pod).unwrap_or(NEVER);
        // By the places of the limits in their order, which compare faster than the limits.
        let shares = self.leaving.iter().filter_map(|one| one.share.as_ref());
        let limits: BTreeSet<&Limit> = shares.map(|share| &share.key).collect();
        let limits: BTreeMap<&Limit, usize> = limits.into_iter().zip(0..).collect();
        let mut permits: BTreeMap<usize, Permits> = BTreeMap::new();
        let mut free: BinaryHeap<Reverse<Millis>> =
            std::iter::repeat_n(Reverse(0), self.options.concurrency.max(1)).collect();
        let exclusion = u64::try_from(self.options.exclusion.as_millis()).unwrap_or(0);
        let mut end = 0;
        for node in self.nodes {
            let begin = free.pop().map_or(0, |Reverse(at)| at);
            let begin = begin.saturating_add(exclusion);
            let mut emptied = begin;
            // When the controller is done with its writes, one after the other.
            let mut written = 0;
            for tier in self.leaving.chunk_by(|one, next| one.tier == next.tier) {
                let begin = emptied;
                let mut queues: BTreeMap<usize, VecDeque<&Pod>> = BTreeMap::new();
                for PlannedEviction { pod, share, .. } in tier {
                    if pod.spec.node_name != *node {
                        continue;
                    }
                    let limited = share.as_ref();
                    let limited = limited.and_then(|share| Some((share, *limits.get(&share.key)?)));
                    let Some((share, limit)) = limited else {
                        emptied = emptied.max(begin.saturating_add(stops(pod)));
                        continue;
                    };
                    permits.entry(limit).or_insert_with(|| {
                        let startup = if heals { startup(pod) } else { NEVER };
                        Permits::new(share, startup, self.leaving.len())
                    });
                    queues.entry(limit).or_default().push_back(pod);
                }
                // In order of time over all budgets, since they share the controller.
                let next = |limit, permits: &Permits| {
                    let at = permits.earliest()?.max(begin);
                    Some(Reverse((at, limit)))
                };
                let first = queues.keys();
                let first = first.filter_map(|limit| next(*limit, permits.get(limit)?));
                let mut order: BinaryHeap<Reverse<(Millis, usize)>> = first.collect();
                while let Some(Reverse((at, limit))) = order.pop() {
                    let (queue, permits) = (queues.get_mut(&limit)?, permits.get_mut(&limit)?);
                    let Some(pod) = queue.pop_front() else {
                        continue;
                    };
                    permits.at.pop().filter(|_| at != NEVER)?;
                    permits.next = at.saturating_add(EVICTION);
                    let gone = at.saturating_add(stops(pod));
                    emptied = emptied.max(gone);
                    let created = if pod.is_of(WorkloadKind::StatefulSet) {
                        // The name is free when the old pod is gone.
                        gone
                    } else {
                        written = at.max(written).saturating_add(WRITES);
                        at.max(written.saturating_sub(BURST))
                    };
                    permits
                        .at
                        .push(Reverse(created.saturating_add(startup(pod))));
                    order.extend(next(limit, permits));
                }
            }
            emptied = emptied.max(terminating(node));
            free.push(Reverse(emptied));
            end = end.max(emptied);
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::fixtures::{owner, started};

    fn share(now: u32, steady: u32) -> Allowance {
        Allowance {
            key: Limit::Budget(crate::fixtures::budget("web", 1, 1, 1).key()),
            now,
            steady,
        }
    }

    fn span(pods: &[Pod], share: Option<&Allowance>, concurrency: usize) -> Option<(u64, u64)> {
        span_of(pods, |_| share.cloned(), concurrency)
    }

    /// With a budget for each pod, by its place among them.
    fn span_of(
        pods: &[Pod],
        share: impl Fn(usize) -> Option<Allowance>,
        concurrency: usize,
    ) -> Option<(u64, u64)> {
        span_after(SignedDuration::ZERO, pods, share, concurrency)
    }

    fn span_after(
        exclusion: SignedDuration,
        pods: &[Pod],
        share: impl Fn(usize) -> Option<Allowance>,
        concurrency: usize,
    ) -> Option<(u64, u64)> {
        let leaving: Vec<PlannedEviction<'_>> = pods
            .iter()
            .enumerate()
            .map(|(place, pod)| PlannedEviction {
                pod,
                share: share(place),
                tier: (0, pod.spec.priority.unwrap_or(0)),
            })
            .collect();
        let schedule = Schedule {
            nodes: &["a".into(), "b".into()],
            leaving: &leaving,
            terminating: &BTreeMap::new(),
            options: &PlanOptions {
                eviction: crate::EvictionSettings::default(),
                by_priority: false,
                concurrency,
                exclusion,
                now: Timestamp::UNIX_EPOCH,
            },
        };
        let estimate = schedule.estimate(&StartupTimes::of(pods)).ok()?;
        Some((
            estimate.min_seconds.rounded(),
            estimate.max_seconds.rounded(),
        ))
    }

    /// One at a time, under the budget of this name.
    fn one_of(budget: &str) -> Allowance {
        Allowance {
            key: Limit::Budget(crate::fixtures::budget(budget, 1, 1, 1).key()),
            now: 1,
            steady: 1,
        }
    }

    #[test]
    fn the_next_goes_when_a_replacement_is_ready() {
        let pods: Vec<Pod> = (0..5)
            .map(|i| started(&format!("p{i}"), "a", 6000))
            .collect();
        assert_eq!(span(&pods, Some(&share(1, 1)), 1), Some((24, 34)));
        assert_eq!(span(&pods, Some(&share(2, 2)), 1), Some((12, 22)));
        // One is missing: it comes back, or it does not.
        assert_eq!(span(&pods, Some(&share(1, 2)), 1), Some((12, 34)));
        assert_eq!(span(&pods, None, 1), Some((0, 10)));
    }

    #[test]
    fn each_node_waits_for_load_balancers() {
        let pods = ["a", "b"].map(|node| started(node, node, 6000));
        let wait = SignedDuration::from_secs(30);
        let span = |concurrency| span_after(wait, &pods, |_| None, concurrency);
        assert_eq!((span(1), span(2)), (Some((60, 80)), Some((30, 40))));
    }

    #[test]
    fn a_name_is_free_when_its_pod_is_gone() {
        let mut pods: Vec<Pod> = (0..3)
            .map(|i| started(&format!("p{i}"), "a", 6000))
            .collect();
        for pod in &mut pods {
            pod.metadata.owner_references = vec![owner("apps/v1", "StatefulSet", "db")].into();
        }
        assert_eq!(span(&pods, Some(&share(1, 1)), 1), Some((12, 42)));
    }

    #[test]
    fn a_budget_holds_over_all_nodes() {
        let pods = [started("p", "a", 6000), started("q", "b", 6000)];
        // The second node waits for the replacement of the first, and for its pod to be gone.
        assert_eq!(span(&pods, Some(&share(1, 1)), 1), Some((6, 20)));
        assert_eq!(span(&pods, Some(&share(1, 1)), 2), Some((6, 16)));
        assert_eq!(span(&pods, None, 1), Some((0, 20)));
        assert_eq!(span(&pods, None, 2), Some((0, 10)));
    }

    #[test]
    fn a_few_odd_ones_do_not_count() {
        let mut took: Vec<i64> = vec![2000; 6];
        took.extend([0, 900_000]);
        let pods: Vec<Pod> = took
            .iter()
            .enumerate()
            .map(|(i, millis)| started(&format!("p{i}"), "a", *millis))
            .collect();
        assert_eq!(span(&pods, Some(&share(4, 4)), 1), Some((2, 12)));
    }

    /// A StatefulSet's pod is created 10 s later, which delays no replacement before it.
    #[test]
    fn a_replacement_that_is_written_late_holds_up_no_other() {
        let mut pods: Vec<Pod> = (0..4)
            .map(|i| started(&format!("p{i}"), "a", 6000))
            .collect();
        pods[0].metadata.owner_references = vec![owner("apps/v1", "StatefulSet", "db")].into();
        let budget = |i: usize| Some(one_of(["db", "web"][i.min(1)]));
        assert_eq!(span_of(&pods, budget, 1), Some((12, 22)));
    }

    #[test]
    fn many_budgets_wait_for_the_controllers_writes() {
        let pods: Vec<Pod> = (0..30)
            .map(|i| started(&format!("p{i}"), "a", 300))
            .collect();
        let budget = |i: usize| Some(one_of(&format!("web-{}", i % 10)));
        // Two replacements one after the other take 0.9 s; twenty of them have to be written.
        assert_eq!(span_of(&pods, budget, 1), Some((2, 12)));
    }

    #[test]
    fn evictions_under_one_budget_are_sent_one_after_the_other() {
        let pods: Vec<Pod> = (0..101)
            .map(|i| started(&format!("p{i}"), "a", 60_000))
            .collect();
        let all = share(101, 101);
        assert_eq!(span(&pods, Some(&all), 1), Some((10, 20)));
    }

    #[test]
    fn nothing_is_guessed() {
        let mut pods = [started("p", "a", 0), started("q", "a", 0)];
        for pod in &mut pods {
            pod.status.conditions.clear();
        }
        assert_eq!(span(&pods, Some(&share(1, 1)), 1), None);
        assert_eq!(span(&pods, Some(&share(2, 2)), 1), Some((0, 10)));
    }
}
