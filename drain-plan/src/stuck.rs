//! Explains why an evicted pod is still terminating.

use jiff::Timestamp;

use nodelife_core::format::{join, list};
use nodelife_core::object::{Node, Pod};
use nodelife_core::text::Str;

/// Why a terminating pod does not go, as far as it and its node show; nothing of other pods.
pub fn diagnosis(pod: &Pod, nodes: &[Node], now: Timestamp) -> Vec<String> {
    let mut reasons = Vec::new();
    let Some(due) = pod.metadata.deletion_timestamp else {
        return reasons;
    };
    // The deletion timestamp has the grace period in it.
    let left = due.duration_since(now).as_secs();
    if left > 0 {
        reasons.push(format!("{left} s of grace period left"));
    } else {
        reasons.push(format!("grace period over for {} s", -left));
    }
    if !pod.metadata.finalizers.is_empty() {
        let names: Vec<&str> = pod.metadata.finalizers.iter().map(AsRef::as_ref).collect();
        reasons.push(format!(
            "held by finalizers ({}); the controller that set them must remove them",
            names.join(", ")
        ));
    } else if left <= 0 {
        let node = nodes
            .iter()
            .find(|node| node.metadata.name == pod.spec.node_name);
        reasons.push(match node {
            Some(node) if !node.is_ready() => format!(
                "node {name} is not Ready, so its kubelet cannot stop the pod; if the machine is off \
                 for good: kubectl nodelife rescue {name}",
                name = node.metadata.name
            ),
            _ => "its kubelet has not reported that it stopped; see the pod's events".to_owned(),
        });
        let claims = join(pod.claims(), ", ");
        if !claims.is_empty() {
            reasons.push(format!(
                "it uses the volumes of claims {claims}; a volume that cannot be unmounted blocks its \
                 deletion"
            ));
        }
    }
    reasons
}

/// The finalizers that keep an evicted pod. The Job controller takes its own off as soon as the pod has ended
/// (`pkg/controller/job/job_controller.go`, v1.36.3).
pub(crate) fn kept_by(pod: &Pod) -> Option<String> {
    let finalizers = pod.metadata.finalizers.iter().map(Str::as_str);
    let kept: Vec<&str> = finalizers
        .filter(|one| *one != "batch.kubernetes.io/job-tracking")
        .collect();
    (!kept.is_empty()).then(|| list(kept))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::fixtures::pod;
    use nodelife_core::object::{ClaimSource, Volume};

    #[test]
    fn finalizers_are_named_and_grace_is_counted() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(10);
        let mut held = pod("a", "n");
        assert!(diagnosis(&held, &[], now).is_empty());
        held.metadata.deletion_timestamp = Some(now + SignedDuration::from_secs(12));
        assert_eq!(diagnosis(&held, &[], now), ["12 s of grace period left"]);
        held.metadata.deletion_timestamp = Some(now - SignedDuration::from_secs(5));
        held.metadata.finalizers.push("example.com/hold".into());
        assert_eq!(
            diagnosis(&held, &[], now),
            [
                "grace period over for 5 s",
                "held by finalizers (example.com/hold); the controller that set them must remove \
                 them"
            ]
        );
    }

    #[test]
    fn a_dead_node_is_named() {
        let now = Timestamp::UNIX_EPOCH;
        let mut lost = pod("a", "n");
        lost.metadata.deletion_timestamp = Some(now);
        let mut node = Node::default();
        node.metadata.name = "n".into();
        lost.spec.volumes.push(Volume {
            persistent_volume_claim: Some(ClaimSource {
                claim_name: "data".into(),
            }),
            ..Volume::default()
        });
        let reasons = diagnosis(&lost, &[node], now);
        assert!(
            reasons[1].contains("kubectl nodelife rescue n"),
            "{reasons:?}"
        );
        assert!(reasons[2].contains("claims data"), "{reasons:?}");
    }
}
