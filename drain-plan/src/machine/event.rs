//! `DrainEvent` and `Effect`: input and output of the state machine.

use super::nodes::NodeLoss;
use crate::eviction::EvictionResult;
use crate::verdict::Impossible;
use nodelife_core::disruption::BudgetKey;
use nodelife_core::object::{
    Budget, Node, OwnerReference, Pod, VolumeAttachment, Workload, WorkloadKind,
};
use nodelife_core::operator::OperatorObjects;
use nodelife_core::text::Str;
use nodelife_core::workload::Presence;

#[derive(Clone, Debug)]
pub enum DrainEvent {
    /// Time has passed.
    Tick,
    /// All pods of a node, read consistently.
    Listed { node: Str, pods: Vec<Pod> },
    /// The answer to an [`Effect::Confirm`].
    Confirmed {
        node: Str,
        request: u64,
        pods: Vec<Pod>,
    },
    /// A pod of a node came or changed.
    Pod(Box<Pod>),
    /// The pod of this UID is gone.
    PodGone(Str),
    /// All budgets.
    Budgets(Vec<Budget>),
    /// Budgets may not be seen (any more), until one is.
    BudgetsUnreadable,
    /// A budget came or changed.
    Budget(Box<Budget>),
    /// The budget of this name is gone.
    BudgetGone(BudgetKey),
    /// All controllers of a kind, as far as they are watched.
    Workloads {
        kind: WorkloadKind,
        workloads: Vec<Workload>,
    },
    /// A controller came or changed.
    Workload(Box<Workload>),
    /// The controller of this UID is gone.
    WorkloadGone(Str),
    /// Operators' resources, read after some of their pods were blocked for a while.
    Operators(Box<OperatorObjects>),
    /// The answer to an [`Effect::Evict`].
    Answered { uid: Str, result: EvictionResult },
    /// The answer to an [`Effect::Get`]: the pod, or that none has its name.
    PodFetched { uid: Str, found: Option<Box<Pod>> },
    /// An [`Effect::Get`] that failed.
    PodFetchFailed { uid: Str, message: String },
    /// The answer to an [`Effect::GetOwner`].
    Owner { uid: Str, presence: Presence },
    /// The answer to an [`Effect::Cordon`].
    Cordoned { node: Str, version: Str },
    /// An [`Effect::Cordon`] that failed.
    CordonFailed { node: Str },
    /// The answer to an [`Effect::Gate`].
    GateEnded { node: Str, passed: bool },
    /// How a node is now; none if it is not there.
    NodeSeen { node: Str, found: Option<Box<Node>> },
    /// An [`Effect::Confirm`] that failed.
    ConfirmFailed { node: Str },
    /// The answer to an [`Effect::Count`]; none if it failed.
    Counted {
        workload: Str,
        count: Option<ReplicaCount>,
    },
    /// The surge that should have made room for this pod's eviction failed.
    SurgeFailed { uid: Str, why: Impossible },
    /// All attachments.
    Attachments(Vec<VolumeAttachment>),
    /// An attachment came or changed.
    Attachment(Box<VolumeAttachment>),
    /// The attachment of this name is gone.
    AttachmentGone(Str),
    /// Somebody asked to stop.
    Interrupted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send an eviction (or a deletion, where the user wants those) with this UID.
    Evict {
        namespace: Str,
        name: Str,
        /// UID, for the precondition.
        uid: Str,
        budget: Option<BudgetKey>,
    },
    /// Delete a pod past its budget, with this UID.
    Bypass {
        namespace: Str,
        name: Str,
        /// UID, for the precondition.
        uid: Str,
        budget: BudgetKey,
        /// The least seconds that the pod gets to stop, where its own are fewer.
        at_least: Option<u32>,
    },
    /// Count the pods of a workload.
    Count {
        namespace: Str,
        workload: Str,
        /// A label selector that all of them fit; it may be empty.
        labels: String,
        /// Whether groups are counted, those of a `LeaderWorkerSet`, and not pods.
        groups: bool,
    },
    /// Read a pod.
    Get { namespace: Str, name: Str, uid: Str },
    /// Find out whether a controller is still there.
    GetOwner {
        namespace: Str,
        owner: OwnerReference,
    },
    /// Cordon a node: its turn has come.
    Cordon { node: Str },
    /// List the pods of a node consistently. A later request for the same node has a higher number.
    Confirm { node: Str, request: u64 },
    /// A pod's state changed in a way that is worth a line.
    Changed { uid: Str },
    /// The outlook of a blocked pod, by its operator, has changed.
    Outlook { uid: Str },
    /// A node was found empty, and waits for replacements or volumes.
    Awaits { node: Str },
    /// A node was found empty of all that had to go, and waits for nothing more.
    Done { node: Str },
    /// The next node has to wait for a while after this one.
    Soaks { node: Str },
    /// Run the command that decides whether others follow this node.
    Gate { node: Str },
    /// So many nodes take no pods that the next one has to wait.
    TooManyUnavailable { nodes: Vec<Str> },
    /// Only budgets hold a node up: others have their turn first. Told once for each node.
    Yielded { node: Str },
    /// The drain of a node ended before that.
    Left { node: Str, loss: NodeLoss },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCount {
    /// Pods that are Ready and stay.
    pub ready: i32,
    /// All pods that stay.
    pub made: i32,
    /// What keeps others from coming, in the words of their controller and the scheduler.
    pub pending: Vec<String>,
}
