//! Operators that guard their own pods: whether and how an eviction that is refused becomes
//! possible.
//!
//! A budget of an operator often allows nothing at all until the operator has acted: it moves the
//! primary, rebuilds a replica, migrates a virtual machine. The budget alone cannot tell whether
//! that will happen, so the operator's own resources are read, if the permission is there. Each
//! submodule names the source that it follows.
//!
//! A new operator is a file with its `objects!` and an `Operator`, and a line in `operators!`. The audit and drains
//! ask [`is_guarded`], the ClusterRoles in `manifests/` have the rights of [`resources`].

mod around;
mod cnpg;
mod kubevirt;
mod longhorn;
mod rook;
mod strimzi;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::object::{Meta, Pod, nullable};
use crate::text::Str;

pub use around::{Around, Outlook};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperatorResource {
    pub group: &'static str,
    /// The versions that can be read, the newest first.
    pub versions: &'static [&'static str],
    pub plural: &'static str,
    /// The name of the only object that matters; absent: all objects do.
    pub name: Option<&'static str>,
    /// Whether the objects of all namespaces matter, or the resource has none.
    pub everywhere: bool,
}

impl OperatorResource {
    const fn new(
        group: &'static str,
        versions: &'static [&'static str],
        plural: &'static str,
    ) -> Self {
        Self {
            group,
            versions,
            plural,
            name: None,
            everywhere: false,
        }
    }

    const fn named(self, name: &'static str) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    const fn everywhere(self) -> Self {
        Self {
            everywhere: true,
            ..self
        }
    }
}

trait Objects: fmt::Debug {
    fn resources(&self) -> &'static [OperatorResource];

    fn add(&mut self, resource: OperatorResource, items: &[Value]);
}

/// Defines the [`Objects`] of an operator: lists of them, each of a resource.
macro_rules! objects {
    ($operator:ident { $($list:ident: $object:ty = $resource:expr,)+ }) => {
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(super) struct $operator {
            $($list: Vec<$object>,)+
        }

        impl $crate::operator::Objects for $operator {
            fn resources(&self) -> &'static [OperatorResource] {
                const RESOURCES: &[OperatorResource] = &[$($resource),+];
                RESOURCES
            }

            fn add(&mut self, resource: OperatorResource, items: &[::serde_json::Value]) {
                $(if resource == $resource {
                    $crate::operator::parse(&mut self.$list, items);
                })+
            }
        }
    };
}
use objects;

trait Operator: Objects {
    /// Whether the operator guards this pod, so that a refusal may end by itself.
    fn guards(&self, pod: &Pod) -> bool;

    fn pod_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// The outlook of a pod that it guards; none if its objects do not say. `refused`: whether the
    /// pod's budget allows no eviction now.
    fn outlook(&self, around: &Around, pod: &Pod, refused: bool) -> Option<Outlook>;
}

macro_rules! operators {
    ($($module:ident::$operator:ident),+ $(,)?) => {
        #[derive(Clone, Debug, Default, PartialEq)]
        struct Operators {
            $($module: $module::$operator),+
        }

        impl Operators {
            fn all(&self) -> impl Iterator<Item = &dyn Operator> {
                [$(&self.$module as &dyn Operator),+].into_iter()
            }

            fn all_mut(&mut self) -> impl Iterator<Item = &mut dyn Operator> {
                [$(&mut self.$module as &mut dyn Operator),+].into_iter()
            }
        }
    };
}

operators!(
    cnpg::CloudNativePg,
    kubevirt::VirtualMachines,
    longhorn::Longhorn,
    rook::Ceph,
    strimzi::Strimzi,
);

impl Operators {
    fn of(&self, pod: &Pod) -> Option<&dyn Operator> {
        self.all().find(|operator| operator.guards(pod))
    }
}

static KNOWN: LazyLock<Operators> = LazyLock::new(Operators::default);

pub fn is_guarded(pod: &Pod) -> bool {
    KNOWN.of(pod).is_some()
}

pub fn reads_annotation(key: &str) -> bool {
    let mut operators = KNOWN.all();
    operators.any(|operator| operator.pod_annotations().contains(&key))
}

pub fn resources() -> impl Iterator<Item = OperatorResource> {
    let resources = KNOWN.all().flat_map(Objects::resources);
    resources.copied()
}

pub type Sources = BTreeSet<(OperatorResource, Str)>;

pub fn sources<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Sources {
    let mut sources = Sources::new();
    for pod in pods {
        let resources = KNOWN
            .of(pod)
            .map_or(&[][..], |operator| operator.resources());
        sources.extend(resources.iter().map(|resource| {
            let namespace = if resource.everywhere {
                "".into()
            } else {
                pod.metadata.namespace.clone()
            };
            (*resource, namespace)
        }));
    }
    sources
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorObjects {
    /// The resources that could be read, also those without objects.
    read: BTreeSet<OperatorResource>,
    operators: Operators,
    pub around: Around,
}

impl OperatorObjects {
    /// No object of an operator, among these pods. Of them it keeps those that one guards.
    pub fn among(pods: &[Pod]) -> Self {
        let mut objects = Self::default();
        let guarded = pods.iter().filter(|pod| is_guarded(pod));
        objects.around.pods = guarded.cloned().collect();
        objects
    }

    pub fn add(&mut self, resource: OperatorResource, items: &[Value]) {
        self.read.insert(resource);
        for operator in self.operators.all_mut() {
            if operator.resources().contains(&resource) {
                operator.add(resource, items);
            }
        }
    }

    /// The guarded pod that this pod belongs to: it serves that one, and ends with it.
    pub fn guarded_owner(&self, pod: &Pod) -> Option<&Pod> {
        let owner = pod.metadata.controller()?;
        if (&*owner.api_version, &*owner.kind) != ("v1", "Pod") {
            return None;
        }
        let mut pods = self.around.pods.iter();
        pods.find(|other| other.metadata.uid == owner.uid && is_guarded(other))
    }

    /// The outlook of a pod; none if no operator guards it, or the operator's resources could not
    /// be read. `refused`: whether its budget allows no eviction now.
    pub fn outlook(&self, pod: &Pod, refused: bool) -> Option<Outlook> {
        let operator = self.operators.of(pod)?;
        let resources = operator.resources();
        if !resources
            .iter()
            .all(|resource| self.read.contains(resource))
        {
            return None;
        }
        operator.outlook(&self.around, pod, refused)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, bound = "Spec: Default + DeserializeOwned, Status: Default + DeserializeOwned")]
struct Object<Spec, Status = IgnoredAny> {
    metadata: Meta,
    spec: Spec,
    #[serde(deserialize_with = "nullable")]
    status: Status,
}

fn controller_of(pod: &Pod) -> Option<(&str, &str)> {
    let controller = pod.metadata.controller()?;
    let group = controller.api_version.split('/').next().unwrap_or_default();
    Some((group, controller.kind.as_str()))
}

/// Adds the objects that can be read; nothing is said about the pods of the others.
fn parse<T: DeserializeOwned>(to: &mut Vec<T>, items: &[Value]) {
    to.extend(items.iter().filter_map(|item| T::deserialize(item).ok()));
}

#[cfg(test)]
mod tests;
