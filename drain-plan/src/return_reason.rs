//! Pods that a cordon does not keep off their node.

use nodelife_core::object::Pod;
use nodelife_core::scheduling::minds;
use nodelife_core::taint::UNSCHEDULABLE;
use nodelife_core::workload::Workloads;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReturnReason {
    #[error("it tolerates {UNSCHEDULABLE}")]
    ToleratesCordon,
    /// No scheduler is asked.
    #[error("the template of its controller names the node")]
    NamesNode,
    /// Nothing that can be seen: another scheduler, or a controller that binds its own pods.
    #[error("the cordon does not keep it away")]
    Unknown,
}

impl ReturnReason {
    pub(super) fn foreseen(pod: &Pod, workloads: &Workloads) -> Option<Self> {
        let controller = pod.metadata.controller()?;
        let names_node = workloads
            .workload(&controller.uid)
            .is_some_and(|workload| workload.spec.template.spec.node_name == pod.spec.node_name);
        if names_node {
            return Some(Self::NamesNode);
        }
        // `NodeUnschedulable.Filter` of pkg/scheduler/framework/plugins, v1.36.3.
        (!minds(pod, UNSCHEDULABLE)).then_some(Self::ToleratesCordon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{pod, workload};
    use nodelife_core::object::{Toleration, WorkloadKind};

    #[test]
    fn templates_and_tolerations_foresee_a_return() {
        let mut web = workload(WorkloadKind::ReplicaSet, "web", 1);
        let mut workloads = Workloads::default();
        workloads.update(web.clone());
        let mut returning = pod("a", "n");
        assert_eq!(ReturnReason::foreseen(&returning, &workloads), None);
        returning.spec.tolerations = vec![Toleration {
            operator: "Exists".into(),
            ..Toleration::default()
        }]
        .into();
        assert_eq!(
            ReturnReason::foreseen(&returning, &workloads),
            Some(ReturnReason::ToleratesCordon)
        );
        web.spec.template.spec.node_name = "n".into();
        workloads.update(web);
        assert_eq!(
            ReturnReason::foreseen(&returning, &workloads),
            Some(ReturnReason::NamesNode)
        );
        // Nothing brings it back.
        returning.metadata.owner_references.clear();
        assert_eq!(ReturnReason::foreseen(&returning, &workloads), None);
    }
}
