//! Annotations that ask autoscalers not to disrupt a pod.

/// Annotations by which people ask to be left alone, with the value that says so.
pub(crate) const PROTECTIONS: [(&str, &str); 2] = [
    ("karpenter.sh/do-not-disrupt", "true"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
];
