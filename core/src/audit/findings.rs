//! `Findings`, the collector of a check's findings: filters by selection, suppresses by
//! annotation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::context::Context;
use super::finding::{Confidence, Finding, Severity, Subject};
use super::selection::{Selection, names};
use crate::object::{Budget, Meta, Node, Pod};
use crate::text::Str;

/// Lists the rules and groups, separated by commas, that do not apply to the object.
pub const SKIP_ANNOTATION: &str = "nodelife.dev/skip-rules";

/// Builds a [`Finding`].
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

    /// A finding about a subject that is not an object: a zone, a pool, the cluster.
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

    /// Adds a node that the finding concerns. Without nodes it concerns the cluster.
    #[must_use]
    pub fn on(mut self, node: &'a str) -> Self {
        self.nodes.push(node);
        self
    }

    #[must_use]
    pub fn on_all(mut self, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        self.nodes.extend(nodes);
        self
    }

    /// Sets the namespace of a subject that is not an object of the snapshot.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.subject.namespace = Some(namespace.into());
        self
    }

    /// Uses the skip annotation of another object.
    pub fn skippable_by(&mut self, meta: Option<&'a Meta>) {
        self.skip = meta.and_then(|meta| meta.annotations.get(SKIP_ANNOTATION));
    }

    /// Overrides the rule's severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Overrides the rule's severity if `special`.
    #[must_use]
    pub fn severity_if(self, special: bool, severity: Severity) -> Self {
        if special {
            self.severity(severity)
        } else {
            self
        }
    }

    /// Marks the finding as concluded, not measured.
    #[must_use]
    pub fn inferred(mut self) -> Self {
        self.confidence = Confidence::Inferred;
        self
    }

    /// Overrides the rule's fix.
    #[must_use]
    pub fn fix(mut self, fix: String) -> Self {
        self.fix = Some(fix);
        self
    }
}

/// Collects one rule's findings: drops unselected ones and counts suppressed ones.
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
        // A finding about several nodes is kept if one of them does not skip the rule.
        let unwanted = |name: &&str| {
            let node = self.context.node(name);
            node.is_some_and(|node| self.selection.skips_on(self.rule, node))
        };
        by_annotation || (!found.nodes.is_empty() && found.nodes.iter().all(unwanted))
    }
}
