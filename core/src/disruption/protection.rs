//! Annotations that ask autoscalers not to disrupt a pod.

use jiff::{SignedDuration, Timestamp};

use crate::go_duration::GoDuration;
use crate::object::Pod;

/// Karpenter's; beside `true` it takes for how long after the pod's start.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

pub const PROTECTIONS: [(&str, &str); 2] = [
    (DO_NOT_DISRUPT, "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];

/// The annotations that protect the pod at this time, with their values.
pub fn protections(pod: &Pod, now: Timestamp) -> impl Iterator<Item = (&'static str, &str)> {
    PROTECTIONS.into_iter().filter_map(move |(key, word)| {
        let value = pod.metadata.annotations.get(key)?.as_str();
        let protects = value == word || key == DO_NOT_DISRUPT && is_young(pod, value, now);
        protects.then_some((key, value))
    })
}

/// As Karpenter's `IsDoNotDisruptActive` has it (v1.14.0, pkg/utils/pod/scheduling.go).
fn is_young(pod: &Pod, age: &str, now: Timestamp) -> bool {
    let age = GoDuration::parse(age).map(GoDuration::nanoseconds);
    age.is_some_and(|age| {
        let is_younger = |start| now.duration_since(start) < SignedDuration::from_nanos(age);
        age > 0 && pod.status.start_time.is_none_or(is_younger)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pod;

    #[test]
    fn karpenters_annotation_may_protect_for_a_time() {
        let started = Timestamp::from_second(1_000).unwrap();
        let now = Timestamp::from_second(1_000 + 3_600).unwrap();
        for (value, start, protects) in [
            ("true", Some(started), true),
            ("false", Some(started), false),
            ("4h", Some(started), true),
            ("60m0.1s", Some(started), true),
            ("1h", Some(started), false),
            ("5m", None, true),
            ("-4h", None, false),
            ("0", None, false),
            ("4 hours", Some(started), false),
            ("", None, false),
        ] {
            let mut pod = pod("a", "n");
            pod.status.start_time = start;
            let annotations = &mut pod.metadata.annotations;
            annotations.insert(DO_NOT_DISRUPT.into(), value.into());
            let told = protections(&pod, now).next();
            assert_eq!(told, protects.then_some((DO_NOT_DISRUPT, value)), "{value}");
        }
    }
}
