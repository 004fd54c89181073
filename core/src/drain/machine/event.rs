//! `DrainEvent` and `Effect`: input and output of the state machine.

use crate::disruption::BudgetKey;
use crate::drain::eviction::EvictionResult;
use crate::object::{Budget, OwnerReference, Pod, VolumeAttachment, Workload, WorkloadKind};
use crate::text::Str;
use crate::workload::Presence;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum DrainEvent {
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
    /// Budgets may not be seen (any more), until one is.
    BudgetsUnreadable,
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
        result: EvictionResult,
    },
    /// The answer to an [`Effect::Get`]: the pod, or that none bears its name.
    PodFetched {
        /// The pod that was asked for.
        uid: Str,
        /// What bears its name.
        found: Option<Box<Pod>>,
    },
    /// An [`Effect::Get`] that failed.
    PodFetchFailed {
        /// The pod that was asked for.
        uid: Str,
        /// Why.
        message: String,
    },
    /// The answer to an [`Effect::GetOwner`].
    Owner {
        /// UID of the controller.
        uid: Str,
        /// Whether it is there.
        presence: Presence,
    },
    /// An [`Effect::Cordon`] was carried out.
    Cordoned {
        /// The node.
        node: Str,
    },
    /// An [`Effect::Confirm`] failed.
    ConfirmFailed {
        /// The node.
        node: Str,
    },
    /// The answer to an [`Effect::Count`]; none if it failed.
    Counted {
        /// UID of the workload.
        workload: Str,
        /// What was counted.
        count: Option<ReplicaCount>,
    },
    /// All attachments of volumes.
    Attachments(Vec<VolumeAttachment>),
    /// An attachment came or changed.
    Attachment(Box<VolumeAttachment>),
    /// A volume was detached.
    AttachmentGone {
        /// Name of the attachment.
        name: Str,
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
    /// Delete a pod past its budget, with this UID.
    Bypass {
        /// Namespace.
        namespace: Str,
        /// Name.
        name: Str,
        /// UID, for the precondition.
        uid: Str,
        /// The budget.
        budget: BudgetKey,
        /// The least seconds that the pod gets to stop, where its own are fewer.
        at_least: Option<u32>,
    },
    /// Count the pods of a workload.
    Count {
        /// Its namespace.
        namespace: Str,
        /// Its UID.
        workload: Str,
        /// A label selector that all of them fit; it may be empty.
        labels: String,
        /// Whether to ask why pods wait for a node.
        with_pending: bool,
    },
    /// Read the pod.
    Get {
        /// Namespace.
        namespace: Str,
        /// Name.
        name: Str,
        /// UID of the pod that is meant.
        uid: Str,
    },
    /// Find out whether a controller is still there.
    GetOwner {
        /// The pod's namespace.
        namespace: Str,
        /// The controller.
        owner: OwnerReference,
    },
    /// Cordon a node: its turn has come.
    Cordon {
        /// The node.
        node: Str,
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
    /// A node was found empty, and waits for replacements or volumes.
    Awaits {
        /// The node.
        node: Str,
    },
    /// A node was found empty of all that had to go, and waits for nothing more.
    Done {
        /// The node.
        node: Str,
    },
}

/// What a count of a workload's pods showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCount {
    /// Pods that are Ready and stay.
    pub ready: i32,
    /// Pods that wait for a node, with the scheduler's words.
    pub pending: Vec<String>,
}
