//! What the machine is told, and what it wants done.

use super::budget::BudgetKey;
use super::owner::Presence;
use super::reply::Reply;
use crate::object::{Budget, OwnerReference, Pod, Workload, WorkloadKind};
use crate::text::Str;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time passed.
    Tick,
    /// All pods of a node, read consistently.
    Listed {
        /// The node.
        node: Str,
        /// Its pods.
        pods: Vec<Pod>,
    },
    /// A pod of a node came or changed.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodGone {
        /// Its UID.
        uid: Str,
    },
    /// All budgets.
    Budgets(Vec<Budget>),
    /// A budget came or changed.
    Budget(Box<Budget>),
    /// A budget was deleted.
    BudgetGone(BudgetKey),
    /// All controllers of a kind, as far as they are watched.
    Workloads {
        /// The kind.
        kind: WorkloadKind,
        /// The controllers.
        workloads: Vec<Workload>,
    },
    /// A controller came or changed.
    Workload(Box<Workload>),
    /// The answer to an [`Effect::Evict`].
    Answered {
        /// The pod.
        uid: Str,
        /// The answer.
        reply: Reply,
    },
    /// The answer to an [`Effect::Look`]: the pod, or that none bears its name.
    Looked {
        /// The pod that was asked for.
        uid: Str,
        /// What bears its name.
        found: Option<Box<Pod>>,
    },
    /// An [`Effect::Look`] that failed.
    LookFailed {
        /// The pod that was asked for.
        uid: Str,
        /// Why.
        message: String,
    },
    /// The answer to an [`Effect::LookUpOwner`].
    Owner {
        /// UID of the controller.
        uid: Str,
        /// Whether it is there.
        presence: Presence,
    },
    /// An [`Effect::Confirm`] failed.
    ConfirmFailed {
        /// The node.
        node: Str,
    },
    /// The user asked to stop.
    Interrupted,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send an eviction (or a deletion, where the user wants those) with this UID.
    Evict {
        /// Namespace.
        namespace: Str,
        /// Name.
        name: Str,
        /// UID, for the precondition.
        uid: Str,
    },
    /// Read the pod.
    Look {
        /// Namespace.
        namespace: Str,
        /// Name.
        name: Str,
        /// UID of the pod that is meant.
        uid: Str,
    },
    /// Find out whether a controller is still there.
    LookUpOwner {
        /// The pod's namespace.
        namespace: Str,
        /// The controller.
        owner: OwnerReference,
    },
    /// List the pods of a node consistently.
    Confirm {
        /// The node.
        node: Str,
    },
    /// A pod's state changed in a way that is worth a line.
    Changed {
        /// The pod.
        uid: Str,
    },
    /// A node was found empty of all that had to go.
    Done {
        /// The node.
        node: Str,
    },
}
