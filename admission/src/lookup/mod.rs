//! Lookups: objects that a policy needs beyond the review, and their results.
//!
//! Four rules need it: evictions and tokens the pod, mirror pods the node, pod
//! certificates both. The caller fetches one object at a time, hands its JSON to
//! [`LookupResult::read`], and asks again.

pub(crate) mod object;
mod recorded;

use std::collections::HashMap;

pub use recorded::{RecordedCluster, RecordedClusterError};

/// One object that the engine asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// A pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A node, by name.
    Node(String),
    /// A persistent volume claim.
    Claim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A persistent volume, by name.
    Volume(String),
    /// A `CSIDriver`, by name.
    Driver(String),
    /// A ServiceAccount.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A question to the authorizer.
    Access(Box<Access>),
}

impl Lookup {
    /// Resource and name as an error of the API's listers writes them.
    pub(crate) fn subject(&self) -> (&'static str, &str) {
        match self {
            Self::Pod { name, .. } => ("pod", name),
            Self::Node(name) => ("node", name),
            Self::Claim { name, .. } => ("persistentvolumeclaim", name),
            Self::Volume(name) => ("persistentvolume", name),
            Self::Driver(name) => ("csidriver.storage.k8s.io", name),
            Self::ServiceAccount { name, .. } => ("serviceaccount", name),
            Self::Access(access) => ("subjectaccessreview", &access.name),
        }
    }
}

/// Whether a node may request tokens for an audience: a SubjectAccessReview with the verb
/// `request-serviceaccounts-token-audience`, the core group, version `v1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// User name of the node.
    pub user: String,
    /// UID of the user.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// The audience, which stands as the resource.
    pub audience: String,
    /// Namespace of the ServiceAccount.
    pub namespace: String,
    /// Name of the ServiceAccount.
    pub name: String,
}

/// The verb of [`Access`].
pub const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";

/// What came of a [`Lookup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// A pod.
    Pod(PodFacts),
    /// UID of a node or a ServiceAccount.
    Uid(String),
    /// Name of the volume that a claim is bound to.
    BoundTo(String),
    /// CSI driver of a volume; empty where it has none.
    DrivenBy(String),
    /// Audiences that a CSI driver asks tokens for.
    Audiences(Vec<String>),
    /// Whether the authorizer allows it.
    Allowed(bool),
    /// The API server says that it is not there.
    Missing,
    /// No answer could be had; the text says why.
    Failed(String),
}

/// What the rules read of a looked-up pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// UID.
    pub uid: String,
    /// Node that it is bound to; empty if none.
    pub node: String,
    /// Its ServiceAccount.
    pub service_account: String,
    /// Whether it mirrors a static pod.
    pub mirror: bool,
    /// Where token audiences may come from, in the order of `spec.volumes`.
    pub volumes: Vec<VolumeFacts>,
}

/// A volume that may allow an audience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeFacts {
    /// A projected ServiceAccount token with this audience.
    Audience(String),
    /// A claim of this name, its own or a generic ephemeral volume's.
    Claim(String),
    /// A CSI driver, inline or that an in-tree volume was migrated to.
    Driver(String),
}

/// The answers so far.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    answers: HashMap<Lookup, LookupResult>,
}

impl Lookups {
    /// Nothing looked up.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces an answer.
    pub fn insert(&mut self, lookup: Lookup, answer: LookupResult) {
        self.answers.insert(lookup, answer);
    }

    /// The answer, if there is one.
    pub fn get(&self, lookup: &Lookup) -> Option<&LookupResult> {
        self.answers.get(lookup)
    }

    /// How many answers there are.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether nothing was looked up.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}
