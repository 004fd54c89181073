//! `Findings`, the collector of a check's findings: filters by selection, suppresses by
//! annotation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::context::Context;
use super::finding::{Confidence, Finding, Severity, Subject};
use super::selection::{Selection, names};
use crate::object::{Budget, Meta, Node, Pod};
use crate::text::Str;

/// Ids and groups of rules, separated by commas, that an object does not want to hear of.
pub const SKIP_ANNOTATION: &str = "nodelife.dev/skip-rules";

/// Something that a rule found, on its way to being a [`Finding`].
#[derive(Debug)]
pub struct FindingBuilder<'a> {
    subject: Subject,
    message: String,
    evidence: BTreeMap<Str, Value>,
    severity: Option<Severity>,
    confidence: Confidence,
    fix: Option<String>,
    nodes: Vec<&'a str>,
    skip: Option<&'a Str>,
}

impl<'a> FindingBuilder<'a> {
    pub fn node(node: &'a Node, message: String) -> Self {
        let found = Self::object("Node", &node.metadata, message);
        found.on(&node.metadata.name)
    }

    pub fn pod(pod: &'a Pod, message: String) -> Self {
        let found = Self::object("Pod", &pod.metadata, message);
        if pod.spec.node_name.is_empty() {
            found
        } else {
            found.on(&pod.spec.node_name)
        }
    }

    pub fn budget(budget: &'a Budget, message: String) -> Self {
        Self::object("PodDisruptionBudget", &budget.metadata, message)
    }

    pub fn object(kind: &str, meta: &'a Meta, message: String) -> Self {
        let namespace = Some(meta.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let mut found = Self::named(kind, &meta.name, message);
        found.subject.namespace = namespace;
        found.skip = meta.annotations.get(SKIP_ANNOTATION);
        found
    }

    /// About something that is no object: a zone, a pool, the cluster.
    pub fn named(kind: &str, name: &str, message: String) -> Self {
        Self {
            subject: Subject {
                kind: kind.into(),
                name: name.into(),
                namespace: None,
            },
            message,
            evidence: BTreeMap::new(),
            severity: None,
            confidence: Confidence::Measured,
            fix: None,
            nodes: Vec::new(),
            skip: None,
        }
    }

    /// Adds a number or a name to the evidence.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(key.into(), value.into());
        self
    }

    /// Names a node that it is about. Without any it is about the cluster.
    #[must_use]
    pub fn on(mut self, node: &'a str) -> Self {
        self.nodes.push(node);
        self
    }

    /// Names the nodes that it is about.
    #[must_use]
    pub fn on_all(mut self, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    /// Names the namespace of something that is no object of the snapshot.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.subject.namespace = Some(namespace.into());
        self
    }

    /// Lets the annotation of another object keep it away.
    pub fn skippable_by(&mut self, meta: Option<&'a Meta>) {
        self.skip = meta.and_then(|meta| meta.annotations.get(SKIP_ANNOTATION));
    }

    /// Says another severity than the rule's.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Another severity than the rule's in a special case.
    #[must_use]
    pub fn severity_if(self, special: bool, severity: Severity) -> Self {
        if special {
            self.severity(severity)
        } else {
            self
        }
    }

    /// Says that it was concluded, not measured.
    #[must_use]
    pub fn inferred(mut self) -> Self {
        self.confidence = Confidence::Inferred;
        self
    }

    /// Says what to do here, where that is more than the rule's text.
    #[must_use]
    pub fn fix(mut self, fix: String) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// Takes what one rule found, and keeps what was asked for.
#[derive(Debug)]
pub struct Findings<'a> {
    rule: &'static str,
    severity: Severity,
    fix: &'static str,
    selection: &'a Selection,
    context: &'a Context<'a>,
    pub(super) kept: Vec<Finding>,
    pub(super) suppressed: usize,
}

impl<'a> Findings<'a> {
    pub(super) fn new(
        rule: &'static str,
        severity: Severity,
        fix: &'static str,
        selection: &'a Selection,
        context: &'a Context<'a>,
    ) -> Self {
        Self {
            rule,
            severity,
            fix,
            selection,
            context,
            kept: Vec::new(),
            suppressed: 0,
        }
    }

    pub fn push(&mut self, found: FindingBuilder<'_>) {
        let severity = found.severity.unwrap_or(self.severity);
        if severity < self.selection.severity || !self.concerns_wanted_node(&found) {
            return;
        }
        if self.is_suppressed(&found) {
            self.suppressed += 1;
            return;
        }
        self.kept.push(Finding {
            rule: self.rule.into(),
            severity,
            subject: found.subject,
            message: found.message,
            evidence: found.evidence,
            confidence: found.confidence,
            fix: found.fix.unwrap_or_else(|| self.fix.into()),
        });
    }

    fn concerns_wanted_node(&self, found: &FindingBuilder<'_>) -> bool {
        let wanted = |name: &&str| match self.context.node(name) {
            Some(node) => self.selection.wants_node(node),
            None => self.selection.nodes.iter().any(|wanted| wanted == name),
        };
        self.selection.wants_all_nodes() || found.nodes.is_empty() || found.nodes.iter().any(wanted)
    }

    fn is_suppressed(&self, found: &FindingBuilder<'_>) -> bool {
        let by_annotation = found
            .skip
            .is_some_and(|list| list.split(',').any(|name| names(name, self.rule)));
        // What one node at least has to hear of is said.
        let unwanted = |name: &&str| {
            let node = self.context.node(name);
            node.is_some_and(|node| self.selection.skips_on(self.rule, node))
        };
        by_annotation || (!found.nodes.is_empty() && found.nodes.iter().all(unwanted))
    }
}
