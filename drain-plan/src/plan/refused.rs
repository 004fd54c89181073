//! A plan some of whose nodes are refused.

use std::collections::BTreeMap;

use super::{Action, DrainPlan};
use nodelife_core::text::Str;

impl DrainPlan {
    /// The plan where these nodes are refused, and `rest` is the plan for the others.
    #[must_use]
    pub fn refuse(mut self, nodes: &[Str], mut rest: Self) -> Self {
        // What `relieve` has changed.
        let how: BTreeMap<&Str, &str> = self
            .pods
            .iter()
            .filter(|pod| !self.impossible.contains_key(&pod.uid))
            .map(|pod| (&pod.uid, pod.reason.as_str()))
            .collect();
        for uid in rest.impossible.clone().into_keys() {
            if let Some(how) = how.get(&uid) {
                rest.relieve(&uid, how);
            }
        }
        self.pods.retain(|pod| nodes.contains(&pod.node));
        for pod in &mut self.pods {
            pod.removed = false;
            if matches!(pod.action, Action::Evict | Action::Delete | Action::Wait) {
                pod.action = Action::Skip;
                "its node is refused".clone_into(&mut pod.reason);
                pod.wave = None;
                pod.unschedulable = None;
                pod.warnings.clear();
            }
        }
        rest.pods.append(&mut self.pods);
        rest.pods
            .sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        rest.refused = nodes.to_vec();
        rest.renew_digest();
        rest
    }
}
