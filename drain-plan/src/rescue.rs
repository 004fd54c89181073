//! Whether a node is dead, and what the out-of-service taint does to its pods.
//!
//! The taint has the controllers delete pods and detach volumes without the kubelet's word: on a machine
//! that runs, two pods then write to one volume.

use jiff::{SignedDuration, Timestamp};
use nodelife_core::format::duration;
use nodelife_core::node_marks::RESCUED_BY;
use nodelife_core::object::{Lease, Node, Pod, Taint};
use nodelife_core::taint::{NO_EXECUTE, OUT_OF_SERVICE, SHUTDOWN, toleration_time};
use nodelife_core::text::Str;
use serde::Serialize;
use serde_json::json;

use crate::scope::sha256;
use crate::stuck::kept_by;

/// `--node-monitor-grace-period` (`pkg/controller/nodelifecycle/config/v1alpha1/defaults.go`, v1.37.2).
const GRACE_PERIOD: SignedDuration = SignedDuration::from_secs(50);

/// What a kubelet has last said. Two that differ are a sign of life, whatever the clocks show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastHeard {
    uid: Str,
    ready: Str,
    unknown_since: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    renewal: Option<Timestamp>,
}

impl LastHeard {
    pub fn of(node: &Node, lease: Option<&Lease>) -> Self {
        let ready = node.condition("Ready").cloned().unwrap_or_default();
        Self {
            uid: node.metadata.uid.clone(),
            unknown_since: ready.last_transition_time,
            ready: ready.status,
            heartbeat: ready.last_heartbeat_time,
            renewal: lease.and_then(|lease| lease.spec.renew_time),
        }
    }

    /// Why the node has to be taken for a living one; none if it was silent for long enough.
    ///
    /// The times are the node's, `now` is the API server's: a clock that is ahead has a dead node taken
    /// for a living one, and one that is behind shows in [`Self::life_since`].
    pub fn life(&self, now: Timestamp) -> Option<String> {
        let recent = |at: Option<Timestamp>| at.filter(|at| now.duration_since(*at) < GRACE_PERIOD);
        if self.ready != "Unknown" {
            let status = if self.ready.is_empty() {
                "absent"
            } else {
                &self.ready
            };
            return Some(format!(
                "its condition Ready is {status}; the control plane sets it to Unknown about a \
                 minute after a kubelet falls silent"
            ));
        }
        let told = |what: &str, at: Timestamp| format!("its kubelet {what} {}", ago(now, at));
        let renewed = recent(self.renewal).map(|at| told("renewed its Lease", at));
        renewed.or_else(|| recent(self.heartbeat).map(|at| told("posted its status", at)))
    }

    pub fn life_since(&self, earlier: &Self) -> Option<&'static str> {
        if self.uid != earlier.uid {
            Some("it has registered anew")
        } else if self.renewal != earlier.renewal {
            Some("its kubelet has renewed its Lease")
        } else if (&self.ready, self.heartbeat) != (&earlier.ready, earlier.heartbeat) {
            Some("its kubelet has posted its status")
        } else {
            None
        }
    }

    /// What the approval of a rescue covers: the node, for as long as it is silent.
    pub fn digest(&self) -> String {
        let rescue = "nodelife.dev/v1alpha1 Rescue";
        sha256(&json!([rescue, self.uid, self.heartbeat, self.renewal]).to_string())
    }

    pub fn silence(&self, now: Timestamp) -> Vec<String> {
        let lines = [
            ("Ready is Unknown, since", self.unknown_since),
            ("its Lease was renewed last", self.renewal),
            ("its status was posted last", self.heartbeat),
        ];
        let known = lines.into_iter().filter_map(|(what, at)| Some((what, at?)));
        let known = known.map(|(what, at)| format!("{what} {at:.0} ({})", ago(now, at)));
        known.collect()
    }
}

fn ago(now: Timestamp, at: Timestamp) -> String {
    format!("{} ago", duration(now.duration_since(at).as_secs()))
}

pub fn is_shut_down(node: &Node) -> bool {
    node.spec.taints.iter().any(|taint| taint.key == SHUTDOWN)
}

/// Whether a node that lives still has the taint of a rescue, which was killed.
pub fn is_left_over(node: &Node) -> bool {
    let ready = node.condition("Ready");
    ready.is_some_and(|ready| ready.status != "Unknown")
        && node.metadata.annotations.get(RESCUED_BY).is_some()
        && with_out_of_service(node, true).is_none()
}

/// The taint, as the documentation of non-graceful node shutdown gives it. Its effect deletes the pods;
/// PodGC and the attach-detach controller look for the key alone.
pub fn out_of_service() -> Taint {
    Taint {
        value: "nodeshutdown".into(),
        ..Taint::new(OUT_OF_SERVICE, NO_EXECUTE)
    }
}

/// The taints of the node with the out-of-service taint, or without; none if it is so already.
pub fn with_out_of_service(node: &Node, wanted: bool) -> Option<Vec<Taint>> {
    let mut taints = node.spec.taints.clone();
    if taints.iter().any(|taint| taint.key == OUT_OF_SERVICE) == wanted {
        return None;
    }
    taints.retain(|taint| taint.key != OUT_OF_SERVICE);
    taints.extend(wanted.then(out_of_service));
    Some(taints)
}

/// What becomes of a pod under the taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    /// It is deleted by force; its controller replaces it elsewhere, where it can.
    Removed,
    /// It is deleted by force, and nothing replaces it.
    Lost,
    /// It is deleted, and its finalizers keep it.
    Held,
    /// It tolerates the taint, and stays with its volumes.
    Stays,
}

/// A pod of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RescuedPod {
    /// Its namespace.
    pub namespace: Str,
    /// Its name.
    pub name: Str,
    /// What becomes of it.
    pub fate: Fate,
    /// Why.
    pub reason: String,
}

/// What a rescue does to a node, or has done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RescueReport {
    /// Name of the node.
    pub node: Str,
    /// Why the node is taken for dead, or for a living one.
    pub proof: Vec<String>,
    /// Its pods, as they were before.
    pub pods: Vec<RescuedPod>,
    /// The volumes that were attached to it before.
    pub volumes: Vec<String>,
    /// The pods and volumes that were left at the end of the command, and the controllers whose
    /// replacements were not Ready.
    pub left: Vec<String>,
    /// The exit status of the command.
    pub exit_status: u8,
}

/// Whether the pod holds up its replacement and its volumes: it runs, or its name is not free.
pub fn is_in_the_way(pod: &Pod) -> bool {
    pod.is_terminating() || !pod.is_terminal()
}

/// What becomes of a pod. `DELETE` comes from the taint eviction controller, for pods without a
/// toleration (`pkg/controller/tainteviction/taint_eviction.go`), and the deletion without the kubelet
/// from PodGC, for pods that terminate (`gcTerminating`, `pkg/controller/podgc/gc_controller.go`, v1.37.2).
pub fn fate(pod: &Pod) -> RescuedPod {
    let meta = &pod.metadata;
    let tolerated = toleration_time([&out_of_service()], &pod.spec.tolerations);
    let (fate, reason) = match (kept_by(pod), meta.controller(), tolerated) {
        (_, _, None) if !pod.is_terminating() => {
            (Fate::Stays, "tolerates the taint for ever".to_owned())
        }
        (Some(names), ..) => (Fate::Held, format!("finalizers keep it: {names}")),
        _ if pod.is_mirror() => (Fate::Removed, "comes back with the kubelet".to_owned()),
        (_, None, _) => (Fate::Lost, "no controller replaces it".to_owned()),
        (_, Some(owner), tolerated) => {
            let wait = tolerated.filter(|seconds| *seconds > 0 && !pod.is_terminating());
            let wait = wait.map(|seconds| format!(", after the {seconds}s that it tolerates"));
            let wait = wait.unwrap_or_default();
            (
                Fate::Removed,
                format!("of {} {}{wait}", owner.kind, owner.name),
            )
        }
    };
    RescuedPod {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        fate,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pod;
    use nodelife_core::object::{NodeCondition, Toleration};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(seconds: i64) -> Timestamp {
        NOW - SignedDuration::from_secs(seconds)
    }

    fn silent(ready: &str, posted: i64, renewed: i64) -> LastHeard {
        let mut node = Node::default();
        node.metadata.uid = "1".into();
        node.status.conditions.push(NodeCondition {
            kind: "Ready".into(),
            status: ready.into(),
            last_heartbeat_time: Some(at(posted)),
            last_transition_time: Some(at(20)),
            ..NodeCondition::default()
        });
        let mut lease = Lease::default();
        lease.spec.renew_time = Some(at(renewed));
        LastHeard::of(&node, Some(&lease))
    }

    #[test]
    fn only_a_node_that_both_are_silent_about_is_dead() {
        for (ready, posted, renewed, lives) in [
            ("Unknown", 50, 50, None),
            ("Unknown", 300, 49, Some("renewed its Lease 49s ago")),
            ("Unknown", 49, 300, Some("posted its status 49s ago")),
            // A clock that is ahead.
            ("Unknown", 300, -60, Some("renewed its Lease -1m ago")),
            ("True", 300, 300, Some("Ready is True")),
            ("False", 300, 300, Some("Ready is False")),
        ] {
            let life = silent(ready, posted, renewed).life(NOW);
            match lives {
                None => assert_eq!(life, None),
                Some(why) => assert!(
                    life.as_ref().is_some_and(|life| life.contains(why)),
                    "{life:?}"
                ),
            }
        }
        let none = LastHeard::of(&Node::default(), None).life(NOW).unwrap();
        assert!(none.contains("Ready is absent"), "{none}");
    }

    #[test]
    fn any_change_is_a_sign_of_life_whatever_the_clock() {
        let before = silent("Unknown", 300, 300);
        assert_eq!(before.life_since(&before), None);
        for (after, says) in [
            (silent("Unknown", 300, 299), "renewed"),
            // A clock that was set back.
            (silent("Unknown", 300, 9000), "renewed"),
            (silent("Unknown", 299, 300), "posted"),
            (silent("True", 300, 300), "posted"),
            (
                LastHeard {
                    uid: "2".into(),
                    ..before.clone()
                },
                "anew",
            ),
        ] {
            assert_eq!(after.life(NOW).is_some(), after.ready == "True");
            assert!(
                after.life_since(&before).unwrap().contains(says),
                "{after:?}"
            );
        }
    }

    #[test]
    fn only_our_own_taint_on_a_node_that_speaks_is_left_over() {
        let node = |ready: &str, mark: &str, taint: &str| {
            let mut node = Node::default();
            let condition = NodeCondition {
                kind: "Ready".into(),
                status: ready.into(),
                ..NodeCondition::default()
            };
            node.status.conditions.push(condition);
            node.metadata.annotations.insert(mark.into(), "ann".into());
            node.spec.taints.push(Taint::new(taint, NO_EXECUTE));
            is_left_over(&node)
        };
        assert!(node("True", RESCUED_BY, OUT_OF_SERVICE));
        assert!(node("False", RESCUED_BY, OUT_OF_SERVICE));
        assert!(!node("Unknown", RESCUED_BY, OUT_OF_SERVICE));
        assert!(!node("True", "other", OUT_OF_SERVICE));
        assert!(!node("True", RESCUED_BY, SHUTDOWN));
    }

    #[test]
    fn the_taint_comes_once_and_other_taints_stay() {
        let mut node = Node::default();
        node.spec.taints.push(Taint::new(SHUTDOWN, "NoSchedule"));
        assert!(is_shut_down(&node));
        assert_eq!(with_out_of_service(&node, false), None);
        let others = node.spec.taints.clone();
        node.spec.taints = with_out_of_service(&node, true).unwrap();
        assert_eq!(with_out_of_service(&node, true), None);
        // Whoever set it, and with whatever effect.
        node.spec
            .taints
            .push(Taint::new(OUT_OF_SERVICE, "NoSchedule"));
        assert_eq!(with_out_of_service(&node, false), Some(others));
    }

    #[test]
    fn pods_go_by_toleration_finalizer_and_controller() {
        let owned = pod("a", "n");
        assert_eq!(fate(&owned).fate, Fate::Removed);
        let mut bare = owned.clone();
        bare.metadata.owner_references.clear();
        assert_eq!(fate(&bare).fate, Fate::Lost);
        let mut held = owned.clone();
        held.metadata.finalizers.push("example.com/hold".into());
        assert_eq!(fate(&held).fate, Fate::Held);
        let mut tolerates = owned.clone();
        tolerates.spec.tolerations.push(Toleration {
            operator: "Exists".into(),
            ..Toleration::default()
        });
        assert_eq!(fate(&tolerates).fate, Fate::Stays);
        // PodGC takes those that terminate, whatever they tolerate.
        tolerates.metadata.deletion_timestamp = Some(NOW);
        assert_eq!(fate(&tolerates).fate, Fate::Removed);
        let mut later = owned;
        later.spec.tolerations.push(Toleration {
            key: OUT_OF_SERVICE.into(),
            operator: "Exists".into(),
            toleration_seconds: Some(60),
            ..Toleration::default()
        });
        assert!(fate(&later).reason.contains("after the 60s"), "{later:?}");
    }
}
