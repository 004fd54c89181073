//! Lookups: objects that a rule needs and the review does not contain, and their results.
//!
//! Five rules need lookups: evictions and tokens the pod, mirror pods the node, pod certificates
//! both, and drain safety what is in the namespace. The caller fetches them, passes the JSON of each
//! to [`LookupResult::read`], and calls [`crate::decide`] again.

mod object;
mod recorded;

use std::collections::{BTreeMap, HashMap};

use nodelife_core::object::{Autoscaler, Budget, Workload, WorkloadKind};
pub use recorded::RecordedCluster;

/// In a namespace with more objects of a kind, nothing is said of its budgets.
pub const MOST_LISTED: usize = 500;

const ACCESS_REVIEW: &str = "SubjectAccessReview";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    Pod {
        namespace: String,
        name: String,
    },
    Node(String),
    Claim {
        namespace: String,
        name: String,
    },
    Volume(String),
    Driver(String),
    ServiceAccount {
        namespace: String,
        name: String,
    },
    Access(Box<Access>),
    /// `cached`: as the API server's cache has it. Else it first waits until its cache has what was written
    /// last, up to 100 ms (v1.37.2, `storage/cacher/progress/watch_progress.go`, `progressRequestPeriod`).
    List {
        namespace: String,
        listed: Listed,
        cached: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listed {
    Budgets,
    Autoscalers,
    Workloads(WorkloadKind),
}

impl Listed {
    /// What decides on the scales of pods. ReplicaSets are those of Deployments, mostly.
    pub(crate) const SCALES: [Self; 4] = [
        Self::Workloads(WorkloadKind::Deployment),
        Self::Workloads(WorkloadKind::StatefulSet),
        Self::Workloads(WorkloadKind::DaemonSet),
        Self::Autoscalers,
    ];

    /// API group with its version, and kind.
    pub fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Budgets => ("policy/v1", "PodDisruptionBudget"),
            Self::Autoscalers => ("autoscaling/v1", "HorizontalPodAutoscaler"),
            Self::Workloads(kind) => (kind.api_version(), kind.as_str()),
        }
    }
}

impl Lookup {
    /// API group with its version and kind, namespace, and name of the object, as far as it has them.
    pub fn object(&self) -> ((&'static str, &'static str), Option<&str>, Option<&str>) {
        match self {
            Self::Pod { namespace, name } => (("v1", "Pod"), Some(namespace), Some(name)),
            Self::Node(name) => (("v1", "Node"), None, Some(name)),
            Self::Claim { namespace, name } => {
                (("v1", "PersistentVolumeClaim"), Some(namespace), Some(name))
            }
            Self::Volume(name) => (("v1", "PersistentVolume"), None, Some(name)),
            Self::Driver(name) => (("storage.k8s.io/v1", "CSIDriver"), None, Some(name)),
            Self::ServiceAccount { namespace, name } => {
                (("v1", "ServiceAccount"), Some(namespace), Some(name))
            }
            Self::Access(_) => (("authorization.k8s.io/v1", ACCESS_REVIEW), None, None),
            Self::List {
                namespace, listed, ..
            } => (listed.kind(), Some(namespace), None),
        }
    }
}

/// Whether a node may do something: a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
    pub verb: &'static str,
    pub group: String,
    pub version: String,
    /// The audience or signer that is requested, in the place of a resource.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    Pod(PodFacts),
    Uid(String),
    BoundTo(String),
    /// CSI driver of a volume; empty where it has none.
    DrivenBy(String),
    Audiences(Vec<String>),
    /// Whether the access is allowed, or why an authorizer could not decide.
    Access(Result<bool, String>),
    Budgets(Vec<Budget>),
    Autoscalers(Vec<Autoscaler>),
    Workloads(Vec<Workload>),
    /// The API server answered that it does not exist.
    Missing,
    Failed(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    pub uid: String,
    /// Node that it is bound to; empty if none.
    pub node: String,
    pub service_account: String,
    pub mirror: bool,
    /// The volumes that may name audiences of tokens, in the order of `spec.volumes`.
    pub volumes: Vec<VolumeFacts>,
    pub signers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeFacts {
    Audience(String),
    /// A claim of this name, its own or a generic ephemeral volume's.
    Claim(String),
    /// A CSI driver, inline or that an in-tree volume was migrated to.
    Driver(String),
}

pub type Lookups = HashMap<Lookup, LookupResult>;
