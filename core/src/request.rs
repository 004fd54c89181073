//! Resource requests of pods, as the scheduler counts them.
//!
//! Mirrors `PodRequests` and `PodLimits` of k8s.io/component-helpers v0.36.3
//! (`resource/helpers.go`): the sum over the containers and the sidecars, or the
//! largest init container with the sidecars before it, plus the overhead; what
//! `spec.resources` says of a resource stands above that. Overhead is added to limits that there
//! are, and makes none.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use foldhash::HashMap;

use crate::object::{Container, ContainerResources, Pod, ResourceList};
use crate::quantity::{Format, Quantity};
use crate::text::Str;

pub type Amounts = BTreeMap<Str, Quantity>;

/// The requests of the pod. An amount that does not parse counts as nothing.
pub fn requests(pod: &Pod) -> Amounts {
    let mut sum = without_overhead(pod, |resources| &resources.requests);
    add(&mut sum, &amounts(&pod.spec.overhead));
    sum
}

/// The limits of the pod; a resource without a limit in some container is still
/// summed over the others, as `kubectl describe node` does.
pub fn limits(pod: &Pod) -> Amounts {
    let mut sum = without_overhead(pod, |resources| &resources.limits);
    let mut overhead = amounts(&pod.spec.overhead);
    overhead.retain(|name, _| sum.contains_key(name));
    add(&mut sum, &overhead);
    sum
}

type Place = (*const Vec<Container>, *const Vec<Container>);

/// [`requests`] or [`limits`] of many pods. Replicas share their containers
/// ([`crate::object::Shared`]), so what they ask for is worked out once.
#[derive(Debug)]
pub struct ByContainers<'a> {
    read: fn(&Pod) -> Amounts,
    /// By the place of the containers and init containers: they stay there while the pods are borrowed.
    known: HashMap<Place, Amounts>,
    own: Amounts,
    pods: PhantomData<&'a Pod>,
}

impl<'a> ByContainers<'a> {
    pub fn new(read: fn(&Pod) -> Amounts) -> Self {
        Self {
            read,
            known: HashMap::default(),
            own: Amounts::new(),
            pods: PhantomData,
        }
    }

    pub fn of(&mut self, pod: &'a Pod) -> &Amounts {
        let Some(place) = place(pod) else {
            self.own = (self.read)(pod);
            return &self.own;
        };
        self.known.entry(place).or_insert_with(|| (self.read)(pod))
    }

    /// The result, if it was worked out for a pod that shares its containers with this one.
    pub fn known(&self, pod: &Pod) -> Option<&Amounts> {
        self.known.get(&place(pod)?)
    }
}

/// The place of the containers of a pod, if nothing else counts.
fn place(pod: &Pod) -> Option<Place> {
    let spec = &pod.spec;
    let place = (
        std::ptr::from_ref(&*spec.containers),
        std::ptr::from_ref(&*spec.init_containers),
    );
    (spec.resources.is_none() && spec.overhead.is_empty()).then_some(place)
}

fn without_overhead(pod: &Pod, pick: fn(&ContainerResources) -> &ResourceList) -> Amounts {
    let mut sum = Amounts::new();
    for container in &pod.spec.containers {
        add(&mut sum, &amounts(pick(&container.resources)));
    }
    let mut sidecars = Amounts::new();
    let mut largest = Amounts::new();
    for container in &pod.spec.init_containers {
        let own = amounts(pick(&container.resources));
        if is_sidecar(container) {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut largest, &sidecars);
        } else {
            let mut while_it_runs = own;
            add(&mut while_it_runs, &sidecars);
            raise(&mut largest, &while_it_runs);
        }
    }
    raise(&mut sum, &largest);
    if let Some(resources) = &pod.spec.resources {
        sum.extend(amounts(pick(resources)));
    }
    sum
}

pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

/// Reads a list of amounts; CPU is rounded up to thousandths, everything else to units.
fn amounts(list: &ResourceList) -> Amounts {
    list.iter()
        .filter_map(|(name, text)| {
            let exact = Quantity::parse(text).ok()?;
            let rounded = if name == "cpu" {
                Quantity::from_milli(exact.milli_value()?, Format::DecimalSi)
            } else {
                Quantity::new(exact.value()?, exact.format())
            };
            Some((name.clone(), rounded))
        })
        .collect()
}

pub fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        if let Some(so_far) = sum.get_mut(name) {
            *so_far += *amount;
        } else {
            sum.insert(name.clone(), *amount);
        }
    }
}

fn raise(least: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = least.entry(name.clone()).or_insert(*amount);
        *entry = entry.at_least(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(cpu: &str, restart: &str) -> Container {
        Container {
            resources: ContainerResources {
                requests: ResourceList::from([("cpu".into(), cpu.into())]),
                ..ContainerResources::default()
            },
            restart_policy: restart.into(),
            ..Container::default()
        }
    }

    fn cpu(pod: &Pod) -> String {
        requests(pod)["cpu"].to_string()
    }

    #[test]
    fn init_containers_count_with_the_sidecars_before_them() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("100m", ""), container("100u", "")].into();
        assert_eq!(cpu(&pod), "101m", "rounded up for each container");
        pod.spec.init_containers = vec![
            container("200m", ""),
            container("50m", "Always"),
            container("300m", ""),
        ]
        .into();
        assert_eq!(cpu(&pod), "350m", "300m with the sidecar beside it");
    }

    #[test]
    fn replicas_are_read_once_and_what_is_a_pods_own_counts() {
        let mut replica = Pod::default();
        replica.spec.containers = vec![container("100m", "")].into();
        let mut heavier = replica.clone();
        heavier.spec.overhead = ResourceList::from([("cpu".into(), "50m".into())]);
        let mut other = replica.clone();
        other.spec.containers = vec![container("300m", "")].into();
        let pods = [replica.clone(), heavier, replica, other];
        let mut known = ByContainers::new(requests);
        let cpu: Vec<_> = pods
            .iter()
            .map(|p| known.of(p)["cpu"].to_string())
            .collect();
        assert_eq!(cpu, ["100m", "150m", "100m", "300m"]);
        assert_eq!(known.known.len(), 2);
    }

    #[test]
    fn the_pod_level_and_the_overhead_count() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("100m", "")].into();
        pod.spec.resources = Some(container("1", "").resources.into());
        pod.spec.overhead = ResourceList::from([("cpu".into(), "250m".into())]);
        assert_eq!(cpu(&pod), "1250m");
    }

    #[test]
    fn overhead_is_added_to_limits_that_there_are() {
        let mut pod = Pod::default();
        let mut limited = container("100m", "");
        limited.resources.limits = ResourceList::from([("cpu".into(), "1".into())]);
        pod.spec.containers = vec![limited].into();
        pod.spec.overhead = [("cpu", "250m"), ("memory", "64Mi")]
            .map(|(k, v)| (k.into(), v.into()))
            .into();
        let limits = limits(&pod);
        assert_eq!(limits["cpu"].to_string(), "1250m");
        assert_eq!(limits.get("memory"), None, "no container has a limit");
        assert_eq!(requests(&pod)["memory"].to_string(), "64Mi");
    }
}
