//! Shares equal strings and maps between the objects of a list.

use std::collections::BTreeMap;

use nodelife_core::object::{
    Affinity, Container, ContainerResources, Labels, Meta, Node, OwnerReference, Pod, PodCondition,
    Pool, SpreadConstraint, Toleration, Volume,
};
use nodelife_core::pod_annotations::is_read;
use nodelife_core::text::{Interner, Str};

/// Written by `kubectl apply`: the whole object once more, and of use to nobody here.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The strings and collections that were seen so far. One for each list: it costs
/// memory of its own, and goes when the list is complete.
#[derive(Debug, Default)]
pub struct Sharing {
    strings: Interner,
    labels: Pool<BTreeMap<Str, Str>>,
    texts: Pool<Vec<Str>>,
    owners: Pool<Vec<OwnerReference>>,
    containers: Pool<Vec<Container>>,
    resources: Pool<ContainerResources>,
    volumes: Pool<Vec<Volume>>,
    tolerations: Pool<Vec<Toleration>>,
    affinities: Pool<Affinity>,
    spreads: Pool<Vec<SpreadConstraint>>,
}

impl Sharing {
    /// Shares the metadata of an object, without names, UIDs and versions: they are unique.
    pub(crate) fn meta(&mut self, meta: &mut Meta) {
        trim_meta(meta);
        self.strings.share(&mut meta.namespace);
        self.labels(&mut meta.labels);
        self.labels(&mut meta.annotations);
        self.owners.share(&mut meta.owner_references);
        self.texts.share(&mut meta.finalizers);
    }

    pub(crate) fn pod(&mut self, pod: &mut Pod) {
        trim_pod(pod);
        self.meta(&mut pod.metadata);
        for text in [
            &mut pod.spec.node_name,
            &mut pod.spec.priority_class_name,
            &mut pod.spec.service_account_name,
        ] {
            self.strings.share(text);
        }
        self.labels(&mut pod.spec.node_selector);
        self.tolerations.share(&mut pod.spec.tolerations);
        if let Some(affinity) = &mut pod.spec.affinity {
            self.affinities.share(affinity);
        }
        if let Some(spread) = &mut pod.spec.topology_spread_constraints {
            self.spreads.share(spread);
        }
        self.containers.share(&mut pod.spec.containers);
        self.containers.share(&mut pod.spec.init_containers);
        if let Some(resources) = &mut pod.spec.resources {
            self.resources.share(resources);
        }
        self.strings.share(&mut pod.status.phase);
        self.strings.share(&mut pod.status.reason);
        for condition in &mut pod.status.conditions {
            self.strings.share(&mut condition.kind);
            self.strings.share(&mut condition.status);
            self.strings.share(&mut condition.reason);
        }
        self.volumes.share(&mut pod.spec.volumes);
    }

    pub(crate) fn node(&mut self, node: &mut Node) {
        self.meta(&mut node.metadata);
        for list in [&mut node.status.capacity, &mut node.status.allocatable] {
            let amounts = std::mem::take(list);
            *list = self.map(amounts);
        }
        for condition in &mut node.status.conditions {
            for text in [
                &mut condition.kind,
                &mut condition.status,
                &mut condition.reason,
                &mut condition.message,
            ] {
                self.strings.share(text);
            }
        }
        let info = &mut node.status.node_info;
        for text in [
            &mut info.kernel_version,
            &mut info.os_image,
            &mut info.container_runtime_version,
            &mut info.kubelet_version,
            &mut info.operating_system,
            &mut info.architecture,
        ] {
            self.strings.share(text);
        }
    }

    /// Labels or annotations. Empty ones share as well: a reference to nothing has memory of its own.
    fn labels(&mut self, labels: &mut Labels) {
        if let Some(known) = self.labels.known(labels) {
            *labels = known;
            return;
        }
        let own = std::mem::take(&mut **labels);
        let own = self.map(own);
        *labels = self.labels.get(own);
    }

    fn map(&mut self, map: BTreeMap<Str, Str>) -> BTreeMap<Str, Str> {
        map.into_iter()
            .map(|(key, mut value)| {
                self.strings.share(&mut value);
                (self.strings.get(&key), value)
            })
            .collect()
    }
}

pub(crate) fn trim_meta(meta: &mut Meta) {
    if meta.annotations.contains_key(LAST_APPLIED) {
        meta.annotations.remove(LAST_APPLIED);
    }
}

/// The same of a pod: annotations that nothing reads, conditions and volumes that say nothing.
pub(crate) fn trim_pod(pod: &mut Pod) {
    if !pod.metadata.annotations.keys().all(|key| is_read(key)) {
        pod.metadata.annotations.retain(|key, _| is_read(key));
    }
    pod.status.conditions.retain(PodCondition::tells);
    pod.status.conditions.shrink_to_fit();
    if pod.spec.volumes.iter().any(|volume| !volume.ties()) {
        pod.spec.volumes.retain(Volume::ties);
        pod.spec.volumes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_annotations_that_are_read_are_kept() {
        let mut pod = Pod::default();
        let kept = [
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
            "karpenter.sh/do-not-disrupt",
            "kubernetes.io/config.mirror",
            "nodelife.dev/drain",
            "nodelife.dev/skip-rules",
            "strimzi.io/manual-rolling-update",
        ];
        let others = ["cni.projectcalico.org/podIP", LAST_APPLIED];
        let all = kept.iter().chain(&others);
        pod.metadata.annotations = all.map(|key| (Str::from(*key), Str::from("x"))).collect();
        Sharing::default().pod(&mut pod);
        assert!(pod.metadata.annotations.keys().eq(kept));
    }

    #[test]
    fn only_useful_pod_conditions_are_kept() {
        let mut pod = Pod::default();
        let steps = [
            ("PodReadyToStartContainers", "True"),
            ("Initialized", "True"),
            ("Ready", "True"),
            ("ContainersReady", "True"),
            ("PodScheduled", "True"),
            ("PodReadyToStartContainers", "False"),
        ];
        pod.status.conditions = steps
            .map(|(kind, status)| PodCondition {
                kind: kind.into(),
                status: status.into(),
                ..PodCondition::default()
            })
            .into();
        Sharing::default().pod(&mut pod);
        let kept: Vec<(&str, &str)> = pod
            .status
            .conditions
            .iter()
            .map(|c| (&*c.kind, &*c.status))
            .collect();
        let expected = [
            ("Ready", "True"),
            ("PodScheduled", "True"),
            ("PodReadyToStartContainers", "False"),
        ];
        assert_eq!(kept, expected);
        assert!(pod.is_ready());
    }
}
