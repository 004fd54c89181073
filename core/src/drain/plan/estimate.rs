//! Estimate of a drain's duration, from the start-up times of its pods.
//!
//! How long a replacement takes is read off the replicas that there are: from the moment at
//! which each was bound to a node to the one at which it became Ready. What nothing shows is
//! how long a pod takes to stop: between no time and all of its grace period. So the estimate is a
//! span, and says what it rests on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::control_plane::{CONFLICT, EVICTION, TURNAROUND, Writes};
use super::duration::{Estimate, Millis, Seconds};
use super::startup::StartupTimes;
use super::waves::Allowance;
use crate::disruption::Limit;
use crate::object::{Pod, WorkloadKind};
use crate::shutdown;
use crate::text::Str;

/// A pod that is to go, in the order of the plan.
pub(super) struct PlannedEviction<'a> {
    pub(super) pod: &'a Pod,
    pub(super) share: Option<Allowance>,
}

/// Nobody knows when.
const NEVER: Millis = Millis::MAX;

/// Estimates a drain of `nodes`, `concurrency` of them at a time; `pods` are all that is
/// known, `grace` overrides what the pods say. None where pods have to wait for replacements of
/// which nothing tells how long they take.
pub(super) fn estimate(
    nodes: &[Str],
    leaving: &[PlannedEviction<'_>],
    pods: &[Pod],
    concurrency: usize,
    grace: Option<u32>,
) -> Option<Estimate> {
    let waited_for = leaving.iter().filter(|leaving| leaving.share.is_some());
    let start_ups = StartupTimes::of(pods, waited_for.map(|leaving| leaving.pod));
    let replaced = |pod: &Pod| {
        let typical = start_ups.typical(&pod.metadata.controller()?.uid)?;
        Some(typical.took.saturating_add(TURNAROUND))
    };
    let stops = |pod: &Pod| {
        let seconds = grace.map_or_else(
            || u64::try_from(shutdown::grace(pod)).unwrap_or(0),
            u64::from,
        );
        seconds.saturating_mul(1000)
    };
    let course = Schedule {
        nodes,
        leaving,
        concurrency: concurrency.max(1),
    };
    let least = course.run(replaced, |_| 0)?;
    let most = course.run(replaced, stops)?;
    let mut basis: Vec<String> = Vec::new();
    for PlannedEviction { pod, share } in leaving {
        let (Some(controller), true) = (pod.metadata.controller(), share.is_some()) else {
            continue;
        };
        let Some(typical) = start_ups.typical(&controller.uid) else {
            continue;
        };
        let said = format!(
            "pods of {} {}/{} were Ready {typical}",
            controller.kind, pod.metadata.namespace, controller.name,
        );
        if !basis.contains(&said) {
            basis.push(said);
        }
    }
    if let Some(longest) = leaving.iter().map(|leaving| stops(leaving.pod)).max() {
        basis.push(format!("pods have up to {} s to stop", longest / 1000));
    }
    Some(Estimate {
        least: Seconds(least),
        most: Seconds(most),
        basis,
    })
}

/// What a budget lets go, over all nodes.
struct Permits {
    /// When each eviction that it allows may be sent.
    coins: BinaryHeap<Reverse<Millis>>,
    /// When the next may be sent after the last.
    next: Option<Millis>,
}

/// What is to go from one node under one budget.
#[derive(Default)]
struct Queue<'a> {
    pods: VecDeque<(&'a Pod, &'a Allowance)>,
    /// By how much conflicts hold up the next.
    late: Millis,
}

struct Schedule<'a> {
    nodes: &'a [Str],
    leaving: &'a [PlannedEviction<'a>],
    concurrency: usize,
}

impl Schedule<'_> {
    /// When the last pod is gone. An eviction takes a coin out of its budget's account, and the
    /// replacement gives it back when it is Ready; none if that is not known of one that is waited
    /// for.
    fn run(
        &self,
        replaced: impl Fn(&Pod) -> Option<Millis>,
        stops: impl Fn(&Pod) -> Millis,
    ) -> Option<Millis> {
        let mut accounts: BTreeMap<&Limit, Permits> = BTreeMap::new();
        let mut free: BinaryHeap<Reverse<Millis>> =
            std::iter::repeat_n(Reverse(0), self.concurrency).collect();
        let mut end = 0;
        for node in self.nodes {
            let begin = free.pop().map_or(0, |Reverse(at)| at);
            let mut emptied = begin;
            let mut writes = Writes::default();
            // A name is free again when the old pod is gone.
            let first = |pod: &Pod| if keeps_name(pod) { stops(pod) } else { 0 };
            let mut queues: BTreeMap<&Limit, Queue<'_>> = BTreeMap::new();
            for PlannedEviction { pod, share } in self.leaving {
                if pod.spec.node_name != *node {
                    continue;
                }
                let Some(share) = share else {
                    emptied = emptied.max(begin.saturating_add(stops(pod)));
                    continue;
                };
                let ready = replaced(pod).unwrap_or(NEVER);
                accounts.entry(&share.key).or_insert_with(|| Permits {
                    coins: share.coins(ready, self.leaving.len()),
                    next: None,
                });
                let queue = queues.entry(&share.key).or_default();
                queue.pods.push_back((pod, share));
            }
            // The next is the one whose replacement is written first: that is the order in which
            // they wait for each other.
            let written = |queue: &Queue<'_>, coin: Millis| {
                let pod = queue.pods.front()?.0;
                Some(begin.max(coin).saturating_add(first(pod)))
            };
            while let Some((_, coin, key)) = queues
                .iter()
                .filter_map(|(key, queue)| {
                    let coin = accounts.get(key)?.coins.peek()?.0;
                    Some((written(queue, coin)?, coin, *key))
                })
                .min()
            {
                let (account, queue) = (accounts.get_mut(key)?, queues.get_mut(key)?);
                let (pod, share) = queue.pods.pop_front()?;
                account.coins.pop().filter(|coin| *coin != Reverse(NEVER))?;
                let at = begin.max(coin).max(account.next.unwrap_or(0));
                if account.next == Some(at) && matches!(key, Limit::Budget(_)) {
                    queue.late = queue.late.saturating_add(CONFLICT);
                }
                account.next = Some(at.saturating_add(EVICTION));
                let start_up = replaced(pod).unwrap_or(NEVER);
                let back = writes.replace(at.saturating_add(first(pod)), start_up, share.steady);
                account.coins.push(Reverse(back));
                let gone = at.saturating_add(queue.late).saturating_add(stops(pod));
                emptied = emptied.max(gone);
            }
            free.push(Reverse(emptied));
            end = end.max(emptied);
        }
        Some(end)
    }
}

fn keeps_name(pod: &Pod) -> bool {
    let kind = pod.metadata.controller().and_then(WorkloadKind::of);
    kind == Some(WorkloadKind::StatefulSet)
}

impl Allowance {
    /// When each of the evictions that the budget allows at best may be sent, `most` of them
    /// at the most: at once, or when what is missing now is Ready.
    fn coins(&self, ready: Millis, most: usize) -> BinaryHeap<Reverse<Millis>> {
        let missing = self.steady.saturating_sub(self.now);
        let now = (0..self.now).map(|_| Reverse(0));
        let later = (0..missing).map(|_| Reverse(ready));
        now.chain(later).take(most).collect()
    }
}

#[cfg(test)]
mod tests {
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
        let leaving: Vec<PlannedEviction<'_>> = pods
            .iter()
            .enumerate()
            .map(|(place, pod)| PlannedEviction {
                pod,
                share: share(place),
            })
            .collect();
        let nodes = ["a".into(), "b".into()];
        let duration = estimate(&nodes, &leaving, pods, concurrency, None)?;
        Some((duration.least.rounded(), duration.most.rounded()))
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
        // Nothing now: somebody's replacement has to come first.
        assert_eq!(span(&pods, Some(&share(0, 1)), 1), Some((31, 41)));
        assert_eq!(span(&pods, None, 1), Some((0, 10)));
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

    /// A StatefulSet's pod is written 10 s later, which holds up nobody who comes before.
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

    /// The disruption controller writes to a budget, and nobody to one that is nodelife's own.
    #[test]
    fn what_follows_at_once_may_meet_a_conflict() {
        let pods: Vec<Pod> = (0..101)
            .map(|i| started(&format!("p{i}"), "a", 6000))
            .collect();
        let all_of = |budget: &str| Allowance {
            now: 101,
            steady: 101,
            ..one_of(budget)
        };
        let all = span(&pods, Some(&all_of("web")), 1);
        assert_eq!(
            all,
            Some((10, 20)),
            "100 of 80 ms and of a thirtieth of 500"
        );
        let web = crate::fixtures::workload(WorkloadKind::ReplicaSet, "web", 101);
        let implicit = Allowance {
            key: Limit::Workload(web.key()),
            ..all_of("web")
        };
        let implicit = span(&pods, Some(&implicit), 1);
        assert_eq!(implicit, Some((8, 18)));
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
