//! What operators will do about pods that are blocked.

use super::Machine;
use super::event::Effect;
use super::state::{PodState, Tracked};
use nodelife_core::disruption::decide;
use nodelife_core::operator::{OperatorObjects, Outlook};
use nodelife_core::text::Str;

impl Machine {
    /// Takes in what was read of operators, and says what is news for a blocked pod.
    pub(super) fn operators_read(&mut self, mut objects: OperatorObjects) {
        objects.around.draining = std::mem::take(&mut self.store.operators.around.draining);
        self.store.operators = objects;
        let news = |tracked: &Tracked| {
            let PodState::Blocked(_) = tracked.state else {
                return None;
            };
            let outlook = self.outlook(tracked);
            (tracked.outlook != outlook).then(|| (tracked.pod.metadata.uid.clone(), outlook))
        };
        let news: Vec<(Str, Option<Outlook>)> = self.pods().filter_map(news).collect();
        for (uid, outlook) in news {
            if outlook.is_some() {
                self.effects.push(Effect::Outlook { uid: uid.clone() });
            }
            if let Some(tracked) = self.pods.get_mut(uid.as_str()) {
                tracked.outlook = outlook;
            }
        }
    }

    /// The pod, as namespace/name, and what its operator will do about it.
    pub fn outlook_of(&self, uid: &str) -> Option<(String, &Outlook)> {
        let tracked = self.pod(uid)?;
        let meta = &tracked.pod.metadata;
        let name = format!("{}/{}", meta.namespace, meta.name);
        tracked.outlook.as_ref().map(|outlook| (name, outlook))
    }

    fn outlook(&self, tracked: &Tracked) -> Option<Outlook> {
        let refused = decide(&tracked.pod, &self.store.budgets).is_refused();
        self.store.operators.outlook(&tracked.pod, refused)
    }
}
