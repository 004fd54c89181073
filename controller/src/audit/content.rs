//! [`Content`]: what one report of the audit is to say, and the division of an audit into reports.

use std::collections::BTreeMap;

use foldhash::HashMap;
use nodelife_audit::{AuditReport, Finding, NodeOf, Skipped};
use nodelife_core::snapshot::Snapshot;
use nodelife_core::text::Str;
use ring::digest::{Context, SHA256};

pub(super) const CLUSTER_REPORT: &str = "nodelife-cluster";
/// Of the report in a namespace.
const NAMESPACE_REPORT: &str = "nodelife";

const NODE_PREFIX: &str = "nodelife-node-";

const MAX_NAME: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeRef {
    pub(super) name: Str,
    pub(super) uid: Str,
}

/// By the name of the report, that of a namespace with the namespace before it.
pub(super) type Contents = BTreeMap<String, Content>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    /// None for the reports on the cluster and on a namespace.
    pub(super) node: Option<NodeRef>,
    /// Worst first.
    pub(super) findings: Vec<Finding>,
    /// The rules that were not checked: in the report on the cluster alone.
    pub(super) skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) facts: String,
    /// The facts with the numbers in their messages, ages among them.
    pub(super) texts: String,
}

impl Content {
    pub(super) fn digest(&self) -> Digest {
        let (mut facts, mut texts) = (Context::new(&SHA256), Context::new(&SHA256));
        let mut fact = |words: &[&str], text: &str| {
            for word in words {
                for context in [&mut facts, &mut texts] {
                    context.update(word.as_bytes());
                    context.update(b"\0");
                }
            }
            texts.update(text.as_bytes());
            texts.update(b"\0");
        };
        if let Some(node) = &self.node {
            fact(&[&node.uid], "");
        }
        for finding in &self.findings {
            let severity = format!("{:?}", finding.severity);
            let subject = finding.subject.path();
            fact(&[&finding.rule, &severity, &subject], &finding.message);
        }
        for skipped in &self.skipped {
            fact(&[&skipped.rule, "skipped"], &skipped.reason);
        }
        Digest {
            facts: hex(facts),
            texts: hex(texts),
        }
    }
}

/// So many bits as keep reports apart that differ.
fn hex(context: Context) -> String {
    let digest = context.finish();
    let first = digest.as_ref().first_chunk().copied();
    format!("{:016x}", u64::from_be_bytes(first.unwrap_or_default()))
}

/// Divides the findings: those about a node and its pods go to its report, those about other objects
/// of a namespace to the report there, for who may read no other, and the rest to the cluster's.
pub(super) fn divide(audit: AuditReport, snapshot: &Snapshot) -> Contents {
    let nodes: HashMap<&str, &Str> = (snapshot.nodes.iter())
        .map(|node| (node.metadata.name.as_str(), &node.metadata.uid))
        .collect();
    let node_of = NodeOf::new(&audit.findings, &snapshot.pods);
    let mut contents = Contents::new();
    let cluster = Content {
        skipped: audit.skipped,
        ..Content::default()
    };
    contents.insert(CLUSTER_REPORT.to_owned(), cluster);
    for finding in audit.findings {
        let node = node_of.get(&finding.subject);
        let node = node.and_then(|name| nodes.get_key_value(name));
        let name = match (node, &finding.subject.namespace) {
            (Some((name, _)), _) => report_name(name),
            (None, Some(namespace)) => format!("{namespace}/{NAMESPACE_REPORT}"),
            (None, None) => CLUSTER_REPORT.to_owned(),
        };
        let content = contents.entry(name).or_insert_with(|| Content {
            node: node.map(|(name, uid)| NodeRef {
                name: Str::from(*name),
                uid: (*uid).clone(),
            }),
            ..Content::default()
        });
        content.findings.push(finding);
    }
    contents
}

/// The name of a node's report. A name that is too long is cut, and made unique by its digest.
pub(super) fn report_name(node: &str) -> String {
    let name = format!("{NODE_PREFIX}{node}");
    if name.len() <= MAX_NAME {
        return name;
    }
    let mut context = Context::new(&SHA256);
    context.update(node.as_bytes());
    let digest = hex(context);
    // Names of nodes are ASCII.
    let start: String = name.chars().take(MAX_NAME - digest.len() - 1).collect();
    format!("{start}-{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_has_a_name_of_its_own() {
        assert_eq!(report_name("worker-1"), "nodelife-node-worker-1");
        let [a, b] = ["a", "b"].map(|end| report_name(&format!("{}{end}", "n".repeat(250))));
        assert_eq!((a.len(), b.len()), (MAX_NAME, MAX_NAME));
        assert_ne!(a, b);
    }
}
