//! What takes the place of a pod on a dead node.
//!
//! A ReplicaSet makes a new pod as soon as the deletion of the old one is asked for (`FilterActivePods`,
//! `pkg/controller/controller_utils.go`, v1.37.2), a StatefulSet when the old one is gone. The new one
//! waits for a volume until attach-detach no longer wants it on the old node, which it does while a
//! container of the terminating pod counts as running (`IsPodTerminated`, `pkg/volume/util/util.go`).

use serde::{Deserialize, Serialize};

use nodelife_core::object::Pod;
use nodelife_core::scheduling::Placement;
use nodelife_core::text::Str;

use crate::Context;
use crate::context::belongs_to_node;

/// What takes the place of a pod, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Replacement {
    /// A new pod elsewhere, as soon as this one's deletion is asked for.
    AtOnce,
    /// A new pod elsewhere, which cannot run before this one is gone.
    OnceGone,
    /// A new pod that no node takes.
    Unschedulable,
    /// What its controller, of a kind that is not built in, decides on.
    Unknown,
    /// The pod itself, with its node.
    WithNode,
    /// Nothing.
    Never,
}

impl Replacement {
    /// Of a pod, deleted or not, and why; the pods before it have theirs in `places`.
    pub(super) fn of<'a>(
        context: &Context<'a>,
        pod: &'a Pod,
        is_deleted: bool,
        places: Option<&mut Placement<'a>>,
    ) -> (Self, Option<String>) {
        if belongs_to_node(pod) {
            return (Self::WithNode, None);
        }
        if !is_deleted {
            return (Self::Never, None);
        }
        let Some(owner) = pod.metadata.controller() else {
            return (
                Self::Never,
                Some("no controller makes a new one".to_owned()),
            );
        };
        if let Some(Err(why)) = places.map(|places| places.place(pod)) {
            return (Self::Unschedulable, Some(why.to_string()));
        }
        match (owner.kind.as_str(), unshared_claim(context, pod)) {
            ("StatefulSet", _) => {
                let why = "its StatefulSet waits until it is gone";
                (Self::OnceGone, Some(why.to_owned()))
            }
            ("ReplicaSet" | "ReplicationController" | "Job", Some(claim)) => {
                let why = format!("the volume of {claim} stays attached until it is gone");
                (Self::OnceGone, Some(why))
            }
            ("ReplicaSet" | "ReplicationController" | "Job", None) => (Self::AtOnce, None),
            (kind, _) => (
                Self::Unknown,
                Some(format!("its {kind} decides on a new one")),
            ),
        }
    }
}

/// The first claim whose volume only one node, or one pod, may use.
fn unshared_claim<'p>(context: &Context<'_>, pod: &'p Pod) -> Option<&'p Str> {
    let is_shared = |claim: &&Str| {
        let mut volumes = context.snapshot.volumes.iter().flatten();
        volumes.any(|volume| {
            let of = volume.spec.claim_ref.as_ref();
            let mut modes = volume.spec.access_modes.iter();
            of.is_some_and(|of| of.namespace == pod.metadata.namespace && of.name == **claim)
                && modes.any(|mode| mode.ends_with("Many"))
        })
    };
    pod.claims().find(|claim| !is_shared(claim))
}

/// Whether a replacement of the pod waits until the volumes of the pod are detached: not where other
/// nodes may use them too, unless it is a StatefulSet's, which first waits until the pod is gone.
pub(crate) fn is_bound(context: &Context<'_>, pod: &Pod) -> bool {
    let owner = pod.metadata.controller();
    let in_order = owner.is_some_and(|owner| owner.kind == "StatefulSet");
    unshared_claim(context, pod).is_some() || (in_order && pod.claims().next().is_some())
}
