//! `Snapshot`: the state of a cluster at one time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allocatable::{KubeletConfiguration, KubeletFiles};
use crate::newest_time::newest_time;
use crate::node_access::{NodeAuthorizer, NodeRestriction};
use crate::object::{
    Autoscaler, Budget, ClusterRole, ClusterRoleBinding, CsiNode, Event, Lease, Node,
    PersistentVolume, Pod, SigningRequest, VolumeAttachment, Workload, is_default,
};
use crate::text::Str;

macro_rules! sources {
    (
        $($(#[$doc:meta])? $source:ident => $noun:literal,)*;
        $(#[$part_doc:meta] $part:ident => $part_noun:literal,)*
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum Source {
            $($(#[$doc])? $source,)*
            $(#[$part_doc] $part,)*
        }

        impl Source {
            /// Every source, without the two that say whether a list is complete.
            pub const ALL: [Self; [$($noun),*].len()] = [$(Self::$source),*];

            pub fn noun(self) -> &'static str {
                match self {
                    $(Self::$source => $noun,)*
                    $(Self::$part => $part_noun,)*
                }
            }
        }
    };
}

sources! {
    Nodes => "nodes",
    Leases => "leases of kube-node-lease",
    /// Pods of all namespaces.
    Pods => "pods",
    /// PodDisruptionBudgets of all namespaces.
    Budgets => "disruption budgets",
    /// Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and ReplicationControllers.
    Workloads => "workloads",
    KubeletConfigs => "kubelet configurations",
    Volumes => "persistent volumes",
    VolumeAttachments => "volume attachments",
    CsiNodes => "CSI nodes",
    SigningRequests => "certificate signing requests",
    ClusterRoles => "cluster roles",
    ClusterRoleBindings => "cluster role bindings",
    Events => "events",
    /// HorizontalPodAutoscalers of all namespaces.
    Autoscalers => "horizontal pod autoscalers",
    NodeAuthorizer => "the Node authorizer",
    NodeRestriction => "NodeRestriction",
    /// The API server's time when the lists were read.
    Clock => "the API server's clock",
    ;
    /// That the nodes are all nodes of the cluster.
    AllNodes => "all nodes of the cluster",
    /// That the pods are those of all namespaces.
    AllPods => "pods of all namespaces",
}

impl Source {
    /// Whether a flag has to ask for it: it takes more than the right to read.
    pub fn is_asked_for_apart(self) -> bool {
        matches!(self, Self::KubeletConfigs | Self::NodeRestriction)
    }
}

/// Whose time [`Snapshot::taken_at`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Clock {
    /// The API server's, when the lists were read.
    #[default]
    ApiServer,
    /// That of `--at`.
    Given,
    /// The newest heartbeat, event or new object of an input that does not say when it was read,
    /// but for those of nodes whose clock is ahead.
    NewestHeartbeat,
}

/// The objects of a cluster at one moment, each list complete or named in `missing`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// The API server's time when the lists were read. Every age is judged by it.
    pub taken_at: Option<Timestamp>,
    /// Whose time that is.
    #[serde(skip_serializing_if = "is_default")]
    pub clock: Clock,
    /// `gitVersion` of the API server, `v1.36.3`; not known for plain `kubectl get` output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<Str>,
    /// The sources that could not be read, and why. A source that is not named here was read in full.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<Source, Str>,
    pub nodes: Vec<Node>,
    pub leases: Vec<Lease>,
    pub pods: Vec<Pod>,
    pub budgets: Vec<Budget>,
    pub workloads: Vec<Workload>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kubelet_configs: BTreeMap<Str, KubeletConfiguration>,
    /// Configuration files that are of no node yet, by name.
    #[serde(skip)]
    pub kubelet_files: BTreeMap<Str, KubeletFiles>,
    /// PersistentVolumes; this and the lists below: none where they were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<PersistentVolume>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_attachments: Option<Vec<VolumeAttachment>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi_nodes: Option<Vec<CsiNode>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_requests: Option<Vec<SigningRequest>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_roles: Option<Vec<ClusterRole>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_role_bindings: Option<Vec<ClusterRoleBinding>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Event>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscalers: Option<Vec<Autoscaler>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_authorizer: Option<NodeAuthorizer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_restriction: Option<NodeRestriction>,
}

impl Snapshot {
    /// Sets the time that ages refer to: `at`, or else the time of reading, or else the newest
    /// heartbeat. This machine's clock says nothing about an old input.
    pub fn set_time(&mut self, at: Option<Timestamp>) {
        if at.is_some() {
            (self.taken_at, self.clock) = (at, Clock::Given);
        } else if self.taken_at.is_none() {
            let events = self.events.as_deref().unwrap_or_default();
            let newest = newest_time(&self.nodes, &self.leases, &self.pods, events);
            (self.taken_at, self.clock) = (newest, Clock::NewestHeartbeat);
        }
    }

    pub fn count(&self, source: Source) -> usize {
        self.listed(source).unwrap_or(0)
    }

    /// How many objects of this source are here; none when it was not read.
    fn listed(&self, source: Source) -> Option<usize> {
        match source {
            Source::Nodes | Source::AllNodes => Some(self.nodes.len()),
            Source::Leases => Some(self.leases.len()),
            Source::Pods | Source::AllPods => Some(self.pods.len()),
            Source::Budgets => Some(self.budgets.len()),
            Source::Workloads => Some(self.workloads.len()),
            // Reading them is asked for apart, so having none is no answer.
            Source::KubeletConfigs => Some(self.kubelet_configs.len()).filter(|count| *count > 0),
            Source::Volumes => self.volumes.as_ref().map(Vec::len),
            Source::VolumeAttachments => self.volume_attachments.as_ref().map(Vec::len),
            Source::CsiNodes => self.csi_nodes.as_ref().map(Vec::len),
            Source::SigningRequests => self.signing_requests.as_ref().map(Vec::len),
            Source::ClusterRoles => self.cluster_roles.as_ref().map(Vec::len),
            Source::ClusterRoleBindings => self.cluster_role_bindings.as_ref().map(Vec::len),
            Source::Events => self.events.as_ref().map(Vec::len),
            Source::Autoscalers => self.autoscalers.as_ref().map(Vec::len),
            Source::NodeAuthorizer => self.node_authorizer.as_ref().map(|_| 1),
            Source::NodeRestriction => self.node_restriction.as_ref().map(|_| 1),
            Source::Clock => {
                (self.taken_at.is_some() && self.clock != Clock::NewestHeartbeat).then_some(1)
            }
        }
    }

    /// Whether these are manifests of objects that are in no cluster yet (the API server gives each
    /// object a UID), or configuration files of kubelets.
    pub fn is_declared(&self) -> bool {
        let budgets = self.budgets.iter().map(|budget| &budget.metadata);
        let workloads = self.workloads.iter().map(|workload| &workload.metadata);
        let pods = self.pods.iter().map(|pod| &pod.metadata);
        let mut objects = budgets.chain(workloads).peekable();
        (objects.peek().is_some() || !self.kubelet_files.is_empty())
            && objects.chain(pods).all(|meta| meta.uid.is_empty())
            && self.nodes.is_empty()
            && self.leases.is_empty()
    }

    pub fn has(&self, source: Source) -> bool {
        self.why_missing(source).is_none()
    }

    /// The kinds of objects among these of which nothing could be read.
    pub fn unread(&self, wanted: &BTreeSet<Source>) -> Vec<Source> {
        let wanted = wanted.iter().copied();
        let objects = wanted.filter(|source| *source < Source::NodeAuthorizer);
        let unread =
            objects.filter(|source| self.missing.contains_key(source) && self.count(*source) == 0);
        unread.collect()
    }

    /// Why the pods of a node are not known, or not all of them.
    pub fn why_pods_missing(&self) -> Option<&str> {
        let why = self.why_missing(Source::Pods);
        why.or_else(|| self.why_missing(Source::AllPods))
    }

    /// Why this source is not here, or of [`Source::AllNodes`] and [`Source::AllPods`] why only a
    /// part of it is; none when it was read.
    pub fn why_missing(&self, source: Source) -> Option<&str> {
        let absent = match source {
            Source::KubeletConfigs => "--configz was not given",
            Source::NodeAuthorizer => "the snapshot does not say whether it is on",
            Source::NodeRestriction => "--probe was not given",
            Source::Clock => "the input does not say when it was read; give the time with --at",
            _ => "they are not in the snapshot",
        };
        let missing = self.missing.get(&source).map(Str::as_str);
        missing.or_else(|| self.listed(source).is_none().then_some(absent))
    }
}
