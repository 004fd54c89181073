//! Required affinity and anti-affinity between pods: `InterPodAffinity` of
//! pkg/scheduler/framework/plugins, v1.37.2 (`PreFilter` and `Filter` of filtering.go).

use std::collections::BTreeSet;

use super::Placement;
use crate::object::{Affinity, LabelSelector, Node, Pod, PodAffinity, PodAffinityTerm};

pub(super) struct Near<'a> {
    keys: Vec<&'a str>,
    /// Where they are: keys of labels, and their values.
    open: BTreeSet<(&'a str, &'a str)>,
    first: bool,
}

impl<'a> Placement<'a> {
    pub(super) fn closed_domains(&self, pod: &'a Pod, moved: bool) -> Vec<(&'a str, &'a str)> {
        let is_wide = self.cluster.is_wide || anti_affinity(pod).any(is_wide);
        let namespace = (!is_wide).then_some(pod.metadata.namespace.as_str());
        let among = match anti_affinity(pod).next() {
            Some(_) => &self.cluster.pods,
            None => &self.cluster.averse,
        };
        let mut closed = Vec::new();
        for (node, other, leaves) in self.others(among, namespace, moved) {
            let own = anti_affinity(pod).filter(|term| selects(term, pod, other));
            let theirs = anti_affinity(other).filter(|term| selects(term, other, pod));
            for term in own.chain(theirs).filter(|_| !leaves) {
                let key = term.topology_key.as_str();
                closed.extend(node.metadata.labels.get(key).map(|value| (key, &**value)));
            }
        }
        closed
    }

    /// Where required affinity lets the pod go; nothing where it asks for nothing, and where nobody
    /// knows: it selects namespaces by labels, or it means only pods that have not left a drained node yet.
    pub(super) fn near(&self, pod: &'a Pod, moved: bool) -> Option<Near<'a>> {
        let terms = || terms(pod, |affinity| affinity.pod_affinity.as_ref());
        terms().next()?;
        if terms().any(selects_namespaces) {
            return None;
        }
        let namespace = (!terms().any(is_wide)).then_some(pod.metadata.namespace.as_str());
        let means = |other: &Pod| terms().all(|term| selects(term, pod, other));
        let mut open = BTreeSet::new();
        let (mut leave, mut stay) = (false, false);
        let others = self.others(&self.cluster.pods, namespace, moved);
        for (node, _, leaves) in others.filter(|(_, other, _)| means(other)) {
            leave |= leaves;
            stay |= !leaves;
            let labels = &node.metadata.labels;
            open.extend(terms().filter_map(|term| {
                let key = term.topology_key.as_str();
                Some((key, labels.get(key)?.as_str()))
            }));
        }
        if leave && !stay {
            return None;
        }
        let keys = terms().map(|term| term.topology_key.as_str()).collect();
        let first = open.is_empty() && means(pod);
        Some(Near { keys, open, first })
    }

    /// Where the pods are that a replacement has to be near, if all of them leave: it is made while they
    /// terminate, itself among them, and follows them no more. That of a `StatefulSet` is made later.
    pub(super) fn near_leaving(&self, pod: &'a Pod) -> Option<Near<'a>> {
        let terms = || terms(pod, |affinity| affinity.pod_affinity.as_ref());
        terms()
            .next()
            .filter(|_| !terms().any(selects_namespaces))?;
        let controller = pod.metadata.controller();
        if controller.is_some_and(|one| one.kind == "StatefulSet") {
            return None;
        }
        let means = |other: &Pod| terms().all(|term| selects(term, pod, other));
        let namespace = (!terms().any(is_wide)).then_some(pod.metadata.namespace.as_str());
        let mut others = self.others(&self.cluster.pods, namespace, true);
        if others.any(|(_, other, leaves)| !leaves && means(other)) {
            return None;
        }
        let open = self
            .drained()
            .filter(|host| host.pods.iter().any(|pod| means(pod)));
        let open = open.flat_map(|host| {
            let labels = &host.node.metadata.labels;
            terms()
                .filter_map(|term| Some((&*term.topology_key, &**labels.get(&*term.topology_key)?)))
        });
        Some(Near {
            keys: terms().map(|term| term.topology_key.as_str()).collect(),
            first: false,
            open: open.collect(),
        })
    }
}

impl Near<'_> {
    pub(super) fn keeps_off(&self, node: &Node) -> bool {
        !self.keys.iter().all(|key| {
            let value = node.metadata.labels.get(*key);
            value.is_some_and(|value| self.first || self.open.contains(&(*key, value.as_str())))
        })
    }
}

fn terms(
    pod: &Pod,
    which: fn(&Affinity) -> Option<&PodAffinity>,
) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec.affinity.iter();
    affinity
        .filter_map(move |affinity| which(affinity))
        .flat_map(|one| &one.required)
}

pub(super) fn anti_affinity(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    terms(pod, |affinity| affinity.pod_anti_affinity.as_ref())
}

/// Whether a term means namespaces by labels, which are not known here.
fn selects_namespaces(term: &PodAffinityTerm) -> bool {
    let selector = term.namespace_selector.as_ref();
    selector.is_some_and(|selector| *selector != LabelSelector::default())
}

pub(super) fn is_wide(term: &PodAffinityTerm) -> bool {
    term.namespace_selector.is_some() || !term.namespaces.is_empty()
}

/// Whether the term of `owner` means `other`: nobody by labels of namespaces, which are not known.
fn selects(term: &PodAffinityTerm, owner: &Pod, other: &Pod) -> bool {
    let namespace = &other.metadata.namespace;
    let here = match &term.namespace_selector {
        Some(_) => !selects_namespaces(term),
        None => term.namespaces.is_empty() && owner.metadata.namespace == *namespace,
    };
    let selector = term.label_selector.as_ref();
    (here || term.namespaces.contains(namespace))
        && selector.is_some_and(|selector| selector.matches(&other.metadata.labels))
}
