//! Operators that guard their own pods: whether and how an eviction that is refused becomes
//! possible.
//!
//! A budget of an operator often allows nothing at all until the operator has acted: it moves the
//! primary, rebuilds a replica, migrates a virtual machine. The budget alone cannot tell whether
//! that will happen, so the operator's own resources are read, where the right is there. Each
//! submodule names the source that it follows.

mod around;
mod cnpg;
mod kubevirt;
mod longhorn;
mod rook;
mod strimzi;

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::object::Pod;
use crate::text::Str;

pub use around::{Around, Outlook};
pub use strimzi::ROLL;

/// A resource that tells what an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorResource {
    PostgresClusters,
    Kafkas,
    /// The webhook of Strimzi's drain cleaner.
    DrainCleaners,
    VirtualMachineInstances,
    Migrations,
    KubeVirts,
    CephClusters,
    /// Rook's account of the failure domain that drains.
    CephDrains,
    /// The Deployments of Rook's daemons.
    CephDeployments,
    LonghornSettings,
    LonghornInstanceManagers,
    LonghornEngines,
    LonghornVolumes,
    LonghornReplicas,
    LonghornAttachments,
}

/// Where the objects of a resource are read.
#[derive(Clone, Copy, Debug)]
pub struct ResourcePath {
    pub group: &'static str,
    /// The newest first.
    pub versions: &'static [&'static str],
    pub plural: &'static str,
    /// The only object that matters, where it is one.
    pub name: Option<&'static str>,
    /// Whether the objects of all namespaces matter, or the resource has none.
    pub everywhere: bool,
}

impl OperatorResource {
    pub fn path(self) -> ResourcePath {
        let (group, versions, plural): (_, &[&str], _) = match self {
            Self::PostgresClusters => ("postgresql.cnpg.io", &["v1"], "clusters"),
            Self::Kafkas => ("kafka.strimzi.io", &["v1", "v1beta2"], "kafkas"),
            Self::DrainCleaners => (
                "admissionregistration.k8s.io",
                &["v1"],
                "validatingwebhookconfigurations",
            ),
            Self::VirtualMachineInstances => ("kubevirt.io", &["v1"], "virtualmachineinstances"),
            Self::Migrations => ("kubevirt.io", &["v1"], "virtualmachineinstancemigrations"),
            Self::KubeVirts => ("kubevirt.io", &["v1"], "kubevirts"),
            Self::CephClusters => ("ceph.rook.io", &["v1"], "cephclusters"),
            Self::CephDrains => ("", &["v1"], "configmaps"),
            Self::CephDeployments => ("apps", &["v1"], "deployments"),
            Self::LonghornSettings => ("longhorn.io", &["v1beta2"], "settings"),
            Self::LonghornInstanceManagers => ("longhorn.io", &["v1beta2"], "instancemanagers"),
            Self::LonghornEngines => ("longhorn.io", &["v1beta2"], "engines"),
            Self::LonghornVolumes => ("longhorn.io", &["v1beta2"], "volumes"),
            Self::LonghornReplicas => ("longhorn.io", &["v1beta2"], "replicas"),
            Self::LonghornAttachments => ("longhorn.io", &["v1beta2"], "volumeattachments"),
        };
        ResourcePath {
            group,
            versions,
            plural,
            name: match self {
                Self::DrainCleaners => Some(strimzi::DRAIN_CLEANER),
                Self::CephDrains => Some(rook::DRAIN_MAP),
                _ => None,
            },
            everywhere: matches!(self, Self::DrainCleaners | Self::KubeVirts),
        }
    }
}

/// What is to be read for a pod: resources, in a namespace.
pub type Sources = BTreeSet<(OperatorResource, Str)>;

/// What is to be read for these pods.
pub fn sources<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Sources {
    let mut sources = Sources::new();
    for pod in pods {
        let namespace = &pod.metadata.namespace;
        if let Some(resources) = Operator::of(pod).map(Operator::resources) {
            sources.extend(resources.iter().map(|resource| {
                let everywhere = resource.path().everywhere;
                let namespace = if everywhere {
                    "".into()
                } else {
                    namespace.clone()
                };
                (*resource, namespace)
            }));
        }
    }
    sources
}

/// The operators whose resources are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    CloudNativePg,
    Strimzi,
    KubeVirt,
    Rook,
    Longhorn,
}

impl Operator {
    /// The operator of a pod, by its controller and its labels.
    fn of(pod: &Pod) -> Option<Self> {
        let label = |key: &str| pod.metadata.labels.get(key).map(Str::as_str);
        if let Some(controller) = pod.metadata.controller() {
            let group = controller.api_version.split('/').next().unwrap_or_default();
            match (group, controller.kind.as_str()) {
                ("postgresql.cnpg.io", "Cluster") => return Some(Self::CloudNativePg),
                ("kubevirt.io", "VirtualMachineInstance") => return Some(Self::KubeVirt),
                ("longhorn.io", "InstanceManager") => return Some(Self::Longhorn),
                _ => {}
            }
        }
        if label("strimzi.io/kind") == Some("Kafka") && label("strimzi.io/broker-role").is_some() {
            return Some(Self::Strimzi);
        }
        (label("app.kubernetes.io/managed-by") == Some("rook-ceph-operator")).then_some(Self::Rook)
    }

    fn resources(self) -> &'static [OperatorResource] {
        use OperatorResource as R;
        match self {
            Self::CloudNativePg => &[R::PostgresClusters],
            Self::Strimzi => &[R::Kafkas, R::DrainCleaners],
            Self::KubeVirt => &[R::VirtualMachineInstances, R::Migrations, R::KubeVirts],
            Self::Rook => &[R::CephClusters, R::CephDrains, R::CephDeployments],
            Self::Longhorn => &[
                R::LonghornSettings,
                R::LonghornInstanceManagers,
                R::LonghornEngines,
                R::LonghornVolumes,
                R::LonghornReplicas,
                R::LonghornAttachments,
            ],
        }
    }
}

/// Whether an operator that is known guards this pod, so that a refusal may end by itself.
pub fn is_guarded(pod: &Pod) -> bool {
    Operator::of(pod).is_some()
}

/// The operators' objects, as they were read last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorObjects {
    /// The resources that could be read, also where there are no such objects.
    read: BTreeSet<OperatorResource>,
    postgres: cnpg::CloudNativePg,
    strimzi: strimzi::Strimzi,
    machines: kubevirt::VirtualMachines,
    ceph: rook::Ceph,
    longhorn: longhorn::Longhorn,
    pub around: Around,
}

impl OperatorObjects {
    /// Takes in what was read of a resource in one namespace.
    pub fn add(&mut self, resource: OperatorResource, items: Vec<Value>) {
        use OperatorResource as R;
        self.read.insert(resource);
        match resource {
            R::PostgresClusters => add(&mut self.postgres.clusters, items),
            R::Kafkas => add(&mut self.strimzi.kafkas, items),
            R::DrainCleaners => self.strimzi.has_drain_cleaner |= !items.is_empty(),
            R::VirtualMachineInstances => add(&mut self.machines.instances, items),
            R::Migrations => add(&mut self.machines.migrations, items),
            R::KubeVirts => add(&mut self.machines.kubevirts, items),
            R::CephClusters => add(&mut self.ceph.clusters, items),
            R::CephDrains => add(&mut self.ceph.drains, items),
            R::CephDeployments => add(&mut self.ceph.deployments, items),
            R::LonghornSettings => add(&mut self.longhorn.settings, items),
            R::LonghornInstanceManagers => add(&mut self.longhorn.managers, items),
            R::LonghornEngines => add(&mut self.longhorn.engines, items),
            R::LonghornVolumes => add(&mut self.longhorn.volumes, items),
            R::LonghornReplicas => add(&mut self.longhorn.replicas, items),
            R::LonghornAttachments => add(&mut self.longhorn.attachments, items),
        }
    }

    /// What becomes of a pod; none where no operator is known, or where its resources could not be
    /// read. `refused`: whether its budget allows no eviction now.
    pub fn outlook(&self, pod: &Pod, refused: bool) -> Option<Outlook> {
        let operator = Operator::of(pod)?;
        if !operator.resources().iter().all(|r| self.read.contains(r)) {
            return None;
        }
        let around = &self.around;
        match operator {
            Operator::CloudNativePg => self.postgres.outlook(around, pod, refused),
            Operator::Strimzi => self.strimzi.outlook(around, pod, refused),
            Operator::KubeVirt => self.machines.outlook(around, pod),
            Operator::Rook => self.ceph.outlook(around, pod, refused),
            Operator::Longhorn => self.longhorn.outlook(around, pod, refused),
        }
    }
}

/// An object that cannot be read is left out, and nothing is claimed about its pods.
fn add<T: DeserializeOwned>(to: &mut Vec<T>, items: Vec<Value>) {
    to.extend(
        items
            .into_iter()
            .filter_map(|item| serde_json::from_value(item).ok()),
    );
}
