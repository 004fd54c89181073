//! Groups pods by owner: one finding per workload instead of one per pod.

use std::collections::BTreeMap;

use super::context::Context;
use super::findings::{FindingBuilder, SKIP_ANNOTATION};
use crate::object::{Meta, Pod};

/// What made a pod: its workload, or the pod itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Owner {
    /// Follows owner references: Pod → ReplicaSet → Deployment, Pod → Job → CronJob.
    pub(super) fn of(context: &Context<'_>, pod: &Pod) -> Self {
        let named = |kind: &str, name: &str| Self {
            namespace: pod.metadata.namespace.to_string(),
            kind: kind.into(),
            name: name.into(),
        };
        let Some(owner) = pod.metadata.controller() else {
            return named("Pod", &pod.metadata.name);
        };
        let above = context
            .workload(&owner.uid)
            .and_then(|workload| workload.metadata.controller());
        if let Some(above) = above {
            return named(&above.kind, &above.name);
        }
        // A Deployment names its ReplicaSets after itself and the hash of the template.
        let hash = pod.metadata.labels.get("pod-template-hash");
        let deployment = hash
            .filter(|_| owner.kind == "ReplicaSet")
            .and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
        match deployment {
            Some(name) => named("Deployment", name),
            None => named(&owner.kind, &owner.name),
        }
    }

    /// A finding about the owner and the nodes of `pods`. The skip annotation of any pod applies.
    pub(super) fn found<'a>(&self, pods: &[&'a Pod], message: String) -> FindingBuilder<'a> {
        let example = pods.first().map(|pod| pod.metadata.name.as_str());
        let nodes = pods.iter().map(|pod| pod.spec.node_name.as_str());
        let mut found = FindingBuilder::named(&self.kind, &self.name, message)
            .with("pods", pods.len())
            .with("example", example)
            .on_all(nodes.filter(|node| !node.is_empty()));
        found.subject.namespace = Some(self.namespace.as_str().into());
        let mut annotations = pods.iter().map(|pod| &pod.metadata.annotations);
        found.skip = annotations.find_map(|annotations| annotations.get(SKIP_ANNOTATION));
        found
    }
}

pub(super) fn by_owner<'a>(
    context: &Context<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> BTreeMap<Owner, Vec<&'a Pod>> {
    let mut owners: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for pod in pods {
        owners.entry(Owner::of(context, pod)).or_default().push(pod);
    }
    owners
}

pub(super) fn is_system_critical(pod: &Pod) -> bool {
    pod.spec.priority.unwrap_or_default() >= crate::object::SYSTEM_CRITICAL
        || pod.spec.priority_class_name.starts_with("system-")
}

/// `namespace/name`.
pub(super) fn full_name(meta: &Meta) -> String {
    format!("{}/{}", meta.namespace, meta.name)
}
