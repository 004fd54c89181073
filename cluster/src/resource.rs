//! API paths: group, version, resource, subresource.

use std::fmt;

use nodelife_core::node_maintenance;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
}

impl Resource {
    pub const fn core(plural: &'static str) -> Self {
        Self::grouped("", "v1", plural)
    }

    pub const fn grouped(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            version,
            plural,
        }
    }

    pub fn all(self) -> Target {
        Target {
            resource: self,
            namespace: None,
            name: None,
            subresource: None,
        }
    }
}

impl fmt::Display for Resource {
    /// As `kubectl auth can-i` takes it: `pods`, `leases.coordination.k8s.io`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plural)?;
        if self.group.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", self.group)
    }
}

pub const NODES: Resource = Resource::core("nodes");
pub const PODS: Resource = Resource::core("pods");
pub const EVENTS: Resource = Resource::core("events");
pub const NODE_MAINTENANCES: Resource = Resource::grouped(
    node_maintenance::GROUP,
    node_maintenance::VERSION,
    node_maintenance::PLURAL,
);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub resource: Resource,
    /// Absent: cluster-scoped, or all namespaces.
    pub namespace: Option<String>,
    /// Absent: the list.
    pub name: Option<String>,
    /// `eviction`, `status`, …
    pub subresource: Option<&'static str>,
}

impl Target {
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    #[must_use]
    pub fn at(mut self, subresource: &'static str) -> Self {
        self.subresource = Some(subresource);
        self
    }

    pub fn path(&self) -> String {
        let Resource {
            group,
            version,
            plural,
        } = self.resource;
        let mut path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if let Some(namespace) = &self.namespace {
            path.push_str("/namespaces/");
            path.extend(escape(namespace));
        }
        path.extend(["/", plural]);
        if let Some(name) = &self.name {
            path.push('/');
            path.extend(escape(name));
        }
        if let Some(subresource) = self.subresource {
            path.extend(["/", subresource]);
        }
        path
    }
}

pub(crate) fn escape(text: &str) -> PercentEncode<'_> {
    /// RFC 3986, section 2.3.
    const RESERVED: AsciiSet = NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, &RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_segment() {
        let target = PODS.all().in_namespace("a").named("../b?c").at("eviction");
        assert_eq!(
            target.path(),
            "/api/v1/namespaces/a/pods/..%2Fb%3Fc/eviction"
        );
    }

    #[test]
    fn groups_stand_in_the_path() {
        let leases = Resource::grouped("coordination.k8s.io", "v1", "leases");
        assert_eq!(
            leases.all().in_namespace("kube-node-lease").path(),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        );
        assert_eq!(leases.to_string(), "leases.coordination.k8s.io");
    }
}
