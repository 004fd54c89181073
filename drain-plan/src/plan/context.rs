//! `PlanContext` and `PlanOptions`: the cluster and the settings that a plan is made from.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::control_plane::{ControlPlane, quorum_warnings};
use super::startup::StartupTimes;
use crate::inventory::controlling_pod;
use crate::scope::EvictionSettings;
use nodelife_core::object::{Node, PersistentVolume, Pod};
use nodelife_core::scheduling::Placement;
use nodelife_core::taint::is_removal;
use nodelife_core::text::Str;

#[derive(Clone, Debug)]
pub struct PlanOptions {
    pub eviction: EvictionSettings,
    pub by_priority: bool,
    pub concurrency: usize,
    pub exclusion: SignedDuration,
    pub now: Timestamp,
}

/// The rest of the cluster. Plans of the same cluster share one.
#[derive(Default)]
pub struct PlanContext<'a> {
    pub nodes: &'a [Node],
    pub pods: &'a [Pod],
    pub volumes: &'a [PersistentVolume],
    start_ups: OnceCell<StartupTimes<'a>>,
    room: OnceCell<Placement<'a>>,
    control_plane: OnceCell<ControlPlane<'a>>,
    by_name: OnceCell<BTreeMap<&'a str, &'a Node>>,
    by_namespace: OnceCell<BTreeMap<&'a str, Vec<&'a Pod>>>,
    each: OnceCell<Vec<&'a Pod>>,
    controlled: OnceCell<Vec<&'a Pod>>,
}

impl<'a> PlanContext<'a> {
    pub fn new(nodes: &'a [Node], pods: &'a [Pod], volumes: &'a [PersistentVolume]) -> Self {
        Self {
            nodes,
            pods,
            volumes,
            ..Self::default()
        }
    }

    pub(super) fn places(&self, drained: &[Str]) -> Placement<'a> {
        let all = || Placement::new(self.nodes, self.pods, self.volumes, &[]);
        self.room.get_or_init(all).without(drained)
    }

    pub(super) fn start_ups(&self) -> &StartupTimes<'a> {
        self.start_ups.get_or_init(|| StartupTimes::of(self.pods))
    }

    pub(super) fn warnings(&self, drained: &[Str]) -> Vec<String> {
        let read = || ControlPlane::of(self.nodes, self.pods);
        let removal = |name: &Str| {
            let mut taints = self.node(name)?.spec.taints.iter();
            let taint = taints.find(|taint| is_removal(taint))?;
            Some(format!(
                "node/{name} is about to be deleted by an autoscaler, which empties it by itself \
                 (taint {})",
                taint.key
            ))
        };
        let mut all = quorum_warnings(drained, self.control_plane.get_or_init(read));
        all.extend(drained.iter().filter_map(removal));
        all
    }

    /// The pods, as an inventory takes them.
    pub fn each(&self) -> &[&'a Pod] {
        self.each.get_or_init(|| self.pods.iter().collect())
    }

    /// Those of them that other pods control.
    pub fn controlled(&self) -> &[&'a Pod] {
        let pods = self.pods.iter();
        let controlled = || pods.filter(|pod| controlling_pod(pod).is_some()).collect();
        self.controlled.get_or_init(controlled)
    }

    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        let nodes = self.nodes.iter();
        let named = || nodes.map(|node| (&*node.metadata.name, node)).collect();
        self.by_name.get_or_init(named).get(name).copied()
    }

    pub(super) fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &'a Pod> {
        let all = self.by_namespace.get_or_init(|| {
            let mut all: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
            for pod in self.pods {
                all.entry(&pod.metadata.namespace).or_default().push(pod);
            }
            all
        });
        all.get(namespace).into_iter().flatten().copied()
    }
}
