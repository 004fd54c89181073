//! Groups pods by owner: one finding per workload instead of one per pod.

use std::collections::BTreeMap;

use foldhash::HashMap;

use nodelife_core::object::{Pod, Toleration, Workload};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Owner {
    /// Follows owner references: Pod → ReplicaSet → Deployment, Pod → Job → CronJob.
    pub(super) fn of<'w>(pod: &Pod, workload: impl Fn(&str) -> Option<&'w Workload>) -> Self {
        let named = |kind: &str, name: &str| Self {
            namespace: pod.metadata.namespace.to_string(),
            kind: kind.into(),
            name: name.into(),
        };
        let Some(owner) = pod.metadata.controller() else {
            return named("Pod", &pod.metadata.name);
        };
        let above = workload(&owner.uid).and_then(|workload| workload.metadata.controller());
        if let Some(above) = above {
            return named(&above.kind, &above.name);
        }
        match pod.deployment() {
            Some(name) => named("Deployment", name),
            None => named(&owner.kind, &owner.name),
        }
    }
}

pub(super) fn by_owner<'a, 'w>(
    pods: impl IntoIterator<Item = &'a Pod>,
    workload: impl Fn(&str) -> Option<&'w Workload>,
) -> BTreeMap<Owner, Vec<&'a Pod>> {
    let mut owners: BTreeMap<Owner, usize> = BTreeMap::new();
    let mut lists: Vec<Vec<&Pod>> = Vec::new();
    // Replicas share their owner references and their labels, so their owner is looked for once.
    let mut known: HashMap<_, usize> = HashMap::default();
    for pod in pods {
        let meta = &pod.metadata;
        let mut place_of_owner = || {
            let place = owners.entry(Owner::of(pod, &workload));
            *place.or_insert_with(|| {
                lists.push(Vec::new());
                lists.len() - 1
            })
        };
        let place = if meta.controller().is_none() {
            place_of_owner()
        } else {
            let references = std::ptr::from_ref(&*meta.owner_references);
            let labels = std::ptr::from_ref(&*meta.labels);
            let key = (meta.namespace.as_str(), references, labels);
            *known.entry(key).or_insert_with(place_of_owner)
        };
        if let Some(list) = lists.get_mut(place) {
            list.push(pod);
        }
    }
    let mut list = |place: usize| lists.get_mut(place).map(std::mem::take).unwrap_or_default();
    owners
        .into_iter()
        .map(|(owner, place)| (owner, list(place)))
        .collect()
}

/// The pods of one owner, in the order of the snapshot.
#[derive(Debug)]
pub(super) struct OwnedPods<'a> {
    pub(super) owner: Owner,
    pub(super) pods: Vec<&'a Pod>,
    is_alike: bool,
}

impl<'a> From<(Owner, Vec<&'a Pod>)> for OwnedPods<'a> {
    fn from((owner, pods): (Owner, Vec<&'a Pod>)) -> Self {
        let mut tolerations = pods.iter().map(|pod| &*pod.spec.tolerations);
        let first = tolerations.next();
        let is_alike =
            tolerations.all(|other| first.is_some_and(|first| std::ptr::eq(first, other)));
        Self {
            owner,
            pods,
            is_alike,
        }
    }
}

impl<'a> OwnedPods<'a> {
    pub(super) fn tolerating(&self, such: impl Fn(&[Toleration]) -> bool) -> Vec<&'a Pod> {
        let is_such = |pod: &&&Pod| such(&pod.spec.tolerations);
        if !self.is_alike {
            return self.pods.iter().filter(is_such).copied().collect();
        }
        match self.pods.first().filter(is_such) {
            Some(_) => self.pods.clone(),
            None => Vec::new(),
        }
    }
}

pub(super) fn is_system_critical(pod: &Pod) -> bool {
    pod.spec.priority.unwrap_or_default() >= nodelife_core::object::SYSTEM_CRITICAL
        || pod.spec.priority_class_name.starts_with("system-")
}
