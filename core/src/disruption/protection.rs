//! Annotations that ask autoscalers not to disrupt a pod.

use crate::object::Pod;

pub const PROTECTIONS: [(&str, &str); 2] = [
    ("karpenter.sh/do-not-disrupt", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];

/// The annotations that protect the pod, with their values.
pub fn protections(pod: &Pod) -> impl Iterator<Item = (&'static str, &'static str)> {
    let annotations = &pod.metadata.annotations;
    PROTECTIONS
        .into_iter()
        .filter(move |(key, value)| annotations.get(*key).is_some_and(|v| v == value))
}
