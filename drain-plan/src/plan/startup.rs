//! Start-up times from binding to Ready, from the pods of the same workload.

use std::collections::BTreeMap;
use std::fmt;

use super::duration::{Millis, Seconds};
use nodelife_core::format::count;
use nodelife_core::object::Pod;

/// The resolution of times in the API.
const SECOND: Millis = 1000;

pub(super) struct StartupTimes<'a>(BTreeMap<&'a str, StartupTime>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartupTime {
    pub(super) took: Millis,
    count: usize,
}

impl<'a> StartupTimes<'a> {
    pub(super) fn of(pods: &'a [Pod]) -> Self {
        let mut took: BTreeMap<&str, Vec<Millis>> = BTreeMap::new();
        for pod in pods {
            if let (Some(controller), Some(one)) = (pod.metadata.controller(), observed(pod)) {
                took.entry(&controller.uid).or_default().push(one);
            }
        }
        let typical = took
            .into_iter()
            .filter_map(|(controller, took)| Some((controller, typical(took)?)));
        Self(typical.collect())
    }

    /// The start-up time of this controller's pods; none if no pod shows one.
    pub(super) fn typical(&self, controller: &str) -> Option<StartupTime> {
        self.0.get(controller).copied()
    }
}

/// The mean of the times near the median. A mean evens out the resolution of a second, so one
/// second away is near. A pod that became Ready again later is far away, and says nothing about
/// its start.
fn typical(mut took: Vec<Millis>) -> Option<StartupTime> {
    took.sort_unstable();
    let median = *took.get(took.len() / 2)?;
    took.retain(|one| one.abs_diff(median) <= (median / 2).max(SECOND));
    let count = took.len();
    let took = took.iter().sum::<Millis>() / u64::try_from(count).ok()?;
    Some(StartupTime { took, count })
}

impl fmt::Display for StartupTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = Seconds(self.took).to_tenths();
        let measured = count(self.count, "pod");
        write!(f, "{took} s after scheduling (measured on {measured})")
    }
}

fn observed(pod: &Pod) -> Option<Millis> {
    let ready = pod.condition("Ready").filter(|c| c.status == "True")?;
    let bound = pod
        .condition("PodScheduled")
        .and_then(|c| c.last_transition_time)
        .or(pod.metadata.creation_timestamp)?;
    let took = ready.last_transition_time?.duration_since(bound);
    u64::try_from(took.as_millis()).ok()
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
    fn each_controller_has_the_mean_of_its_own_pods() {
        let all = [pods("fast", &[0, 0, 0, 1]), pods("slow", &[4, 5, 4, 5])].concat();
        let times = StartupTimes::of(&all);
        let said = |name: &str| times.typical(name).map(|typical| typical.to_string());
        assert_eq!(
            said("u-fast").as_deref(),
            Some("0.2 s after scheduling (measured on 4 pods)")
        );
        assert_eq!(
            said("u-slow").as_deref(),
            Some("4.5 s after scheduling (measured on 4 pods)")
        );
        assert_eq!(said("u-other"), None);
    }
}
