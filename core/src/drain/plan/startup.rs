//! Start-up times from binding to Ready, from the pods of the same workload.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use super::duration::{Millis, Seconds};
use crate::object::Pod;

/// The times of the API are whole seconds.
const SECOND: Millis = 1000;

/// How long pods of some controllers take, by the UID of the controller.
pub(super) struct StartupTimes<'a>(BTreeMap<&'a str, StartupTime>);

/// How long a pod takes, and what that rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartupTime {
    pub(super) took: Millis,
    /// So many pods of its controller, and so many of others.
    own: usize,
    others: usize,
    /// In so many seconds the pods of its controller were bound.
    moments: u64,
}

/// How long one pod took.
#[derive(Clone, Copy)]
struct Observed {
    bound: Timestamp,
    took: Millis,
}

impl<'a> StartupTimes<'a> {
    /// Of the controllers of the `wanted` pods, as far as `pods` show them.
    pub(super) fn of<'b>(pods: &'a [Pod], wanted: impl Iterator<Item = &'b Pod>) -> Self {
        let wanted: BTreeSet<&str> = wanted
            .filter_map(|pod| Some(pod.metadata.controller()?.uid.as_str()))
            .collect();
        let mut took: BTreeMap<&str, Vec<Observed>> = BTreeMap::new();
        for pod in pods {
            if let (Some(controller), Some(one)) = (pod.metadata.controller(), start_up(pod))
                && wanted.contains(controller.uid.as_str())
            {
                took.entry(&controller.uid).or_default().push(one);
            }
        }
        let all = typical(took.values().flatten().copied().collect());
        let typical = took.into_iter().filter_map(|(controller, took)| {
            let own = typical(took)?;
            let alike = all.filter(|all| own.is_by_chance(all.took));
            Some((controller, alike.map_or(own, |all| own.among(all))))
        });
        Self(typical.collect())
    }

    /// How long a pod of this controller takes; none if no pod of it shows that.
    pub(super) fn typical(&self, controller: &str) -> Option<StartupTime> {
        self.0.get(controller).copied()
    }
}

/// The mean of those that lie near the median. The times are whole seconds, which a mean
/// evens out, so one second away is near; and a pod that lost its readiness later says nothing
/// about its start, but is far away.
fn typical(mut all: Vec<Observed>) -> Option<StartupTime> {
    all.sort_unstable_by_key(|one| one.took);
    let median = all.get(all.len() / 2)?.took;
    all.retain(|one| one.took.abs_diff(median) <= (median / 2).max(SECOND));
    let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
    let moments: BTreeSet<Timestamp> = all.iter().map(|one| one.bound).collect();
    Some(StartupTime {
        took: all.iter().map(|one| one.took).sum::<Millis>() / count,
        own: all.len(),
        others: 0,
        moments: u64::try_from(moments.len()).ok()?,
    })
}

impl StartupTime {
    /// Whether this differs from another time by no more than whole seconds explain: the longest of
    /// many controllers' would be too long by chance. Between two times of the API half a second
    /// is one standard deviation at most, and three are believed. A mean of n is better by the
    /// root of n, but pods that were bound in one second began at about the same part of it, and
    /// are all wrong by as much.
    fn is_by_chance(self, other: Millis) -> bool {
        let apart = self.took.abs_diff(other);
        let believed = 3 * SECOND / 2;
        apart.saturating_mul(apart).saturating_mul(self.moments) <= believed * believed
    }

    fn among(self, all: Self) -> Self {
        Self {
            took: all.took,
            own: self.own,
            others: all.own.saturating_sub(self.own),
            moments: all.moments,
        }
    }
}

impl fmt::Display for StartupTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = Seconds(self.took).to_tenths();
        write!(f, "{took} s after their binding ({} of them", self.own)?;
        match self.others {
            0 => f.write_str(")"),
            others => write!(
                f,
                ", and {others} of other controllers that took about as long)"
            ),
        }
    }
}

fn start_up(pod: &Pod) -> Option<Observed> {
    let ready = pod.condition("Ready").filter(|c| c.status == "True")?;
    let bound = pod
        .condition("PodScheduled")
        .and_then(|c| c.last_transition_time)
        .or(pod.metadata.creation_timestamp)?;
    let took = ready.last_transition_time?.duration_since(bound);
    let took = u64::try_from(took.as_millis()).ok()?;
    Some(Observed { bound, took })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{owner, started};

    /// Pods of ReplicaSet `name` that took so many seconds each.
    fn pods(name: &str, took: &[i64]) -> Vec<Pod> {
        let pods = took.iter().enumerate().map(|(i, seconds)| {
            let mut pod = started(&format!("{name}-{i}"), "a", seconds * 1000);
            pod.metadata.owner_references = vec![owner("apps/v1", "ReplicaSet", name)].into();
            pod
        });
        pods.collect()
    }

    #[test]
    fn a_difference_that_whole_seconds_explain_is_none() {
        let mut all = pods("a", &[0, 0, 0, 1]);
        all.extend(pods("b", &[1, 1, 0, 0]));
        all.extend(pods("slow", &[4, 5, 4, 5]));
        let start_ups = StartupTimes::of(&all, all.iter());
        let typical = |name: &str| start_ups.typical(name).unwrap();
        assert_eq!(typical("u-a"), typical("u-b"));
        assert_eq!(typical("u-a").took, 375);
        assert_eq!(
            typical("u-a").to_string(),
            "0.3 s after their binding (4 of them, and 4 of other controllers that took about as long)"
        );
        assert_eq!(typical("u-slow").took, 4500);
        assert_eq!(
            typical("u-slow").to_string(),
            "4.5 s after their binding (4 of them)"
        );
    }

    /// Six of one second are one that is wrong by up to all of it, and six of six seconds are not.
    #[test]
    fn pods_of_one_second_are_all_wrong_by_as_much() {
        let same = pods("same", &[1; 6]);
        let mut apart = pods("apart", &[1; 6]);
        for (second, pod) in (0..).zip(&mut apart) {
            for condition in &mut pod.status.conditions {
                condition.last_transition_time = condition
                    .last_transition_time
                    .map(|at| at + jiff::SignedDuration::from_secs(second));
            }
        }
        let mut all = pods("many", &[0; 30]);
        all.extend([same, apart].concat());
        let start_ups = StartupTimes::of(&all, all.iter());
        let took = |name: &str| start_ups.typical(name).map(|typical| typical.took);
        assert_eq!(took("u-same"), Some(285));
        assert_eq!(took("u-apart"), Some(1000));
    }

    #[test]
    fn only_controllers_that_are_asked_for_count() {
        let mut all = pods("a", &[1, 1]);
        all.extend(pods("other", &[2, 2]));
        let start_ups = StartupTimes::of(&all, all.iter().take(1));
        assert_eq!(
            start_ups.typical("u-a").map(|typical| typical.took),
            Some(1000)
        );
        assert_eq!(start_ups.typical("u-other"), None);
    }
}
