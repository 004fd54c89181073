//! Whether the first node can be drained.

use nodelife_core::object::{EmptyDir, Volume};
use nodelife_drain_plan::{Consent, NodeAnswer, PodPolicy};

use super::Cluster;

impl Cluster {
    /// The same, with one node to drain.
    pub(in crate::forecast) fn with_one_node(mut self) -> Self {
        self.drained.truncate(1);
        self
    }

    /// Gives the pods of the first app scratch space.
    pub(in crate::forecast) fn add_scratch(&mut self) {
        for uid in self.pods_of(0) {
            let volume = Volume {
                empty_dir: Some(EmptyDir::default()),
                ..Volume::default()
            };
            let pod = self.pods.get_mut(&uid).unwrap();
            pod.spec.volumes = vec![volume].into();
        }
    }

    pub(in crate::forecast) fn answer(&self) -> NodeAnswer {
        let consent = Consent {
            force: true,
            delete_emptydir_data: true,
            ..Consent::default()
        };
        let plan = self.plan_with(&PodPolicy {
            consent,
            ..PodPolicy::default()
        });
        NodeAnswer::new(self.drained[0].clone(), &plan)
    }
}
