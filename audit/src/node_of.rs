//! [`NodeOf`]: the node that a finding's object is, or is on.

use foldhash::{HashMap, HashSet};

use super::finding::{Finding, Subject};
use nodelife_core::object::Pod;

#[derive(Debug)]
pub struct NodeOf<'a>(HashMap<(&'a str, &'a str), &'a str>);

impl<'a> NodeOf<'a> {
    pub fn new(findings: &[Finding], pods: &'a [Pod]) -> Self {
        let subjects = findings.iter().map(|finding| &finding.subject);
        let subjects = subjects.filter(|subject| subject.kind == "Pod");
        let wanted: HashSet<(&str, &str)> = subjects.map(key).collect();
        if wanted.is_empty() {
            return Self(HashMap::default());
        }
        let pods = pods.iter().map(|pod| {
            let meta = &pod.metadata;
            let key = (meta.namespace.as_str(), meta.name.as_str());
            (key, pod.spec.node_name.as_str())
        });
        Self(pods.filter(|(key, _)| wanted.contains(key)).collect())
    }

    /// The node; none for objects that are on none, and for pods that are not bound.
    pub fn get(&self, subject: &'a Subject) -> Option<&'a str> {
        match subject.kind.as_str() {
            "Node" => Some(subject.name.as_str()),
            "Pod" => self.0.get(&key(subject)).copied(),
            _ => None,
        }
        .filter(|node| !node.is_empty())
    }
}

fn key(subject: &Subject) -> (&str, &str) {
    let namespace = subject.namespace.as_deref().unwrap_or_default();
    (namespace, subject.name.as_str())
}
