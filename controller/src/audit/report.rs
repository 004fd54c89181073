//! `ClusterReport` and `Report` objects of openreports.io, written after the published schema
//! (openreports/reports-api v0.2, `openreports.io_clusterreports.yaml` and `_reports.yaml`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use nodelife_audit::{Finding, Severity, Skipped, find, find_group};
use nodelife_cluster::event_recorder::ObjectReference;
use nodelife_cluster::resource::{Resource, Target};
use nodelife_core::format;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::content::{Content, Digest};

pub(super) const CLUSTER_REPORTS: Resource =
    Resource::grouped("openreports.io", "v1alpha1", "clusterreports");
pub(super) const REPORTS: Resource = Resource::grouped("openreports.io", "v1alpha1", "reports");

/// Who writes: the field manager, the source of the reports and the value of [`MANAGED_BY`].
pub(super) const WRITER: &str = "nodelife-controller";
pub(super) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(super) const DIGEST: &str = "nodelife.dev/report-digest";
const LEFT_OUT: &str = "nodelife.dev/results-left-out";
const POLICY: &str = "nodelife-audit";

/// The longest report, in bytes.
pub(super) const MAX_REPORT: usize = 256 << 10;
/// The bytes of a report beside its results, managed fields included.
const HEAD: usize = 8 << 10;
/// The longest text of one field: a finding's evidence may be a long list.
const MAX_TEXT: usize = 4 << 10;

/// Rule and object of a result, by which it is known again.
pub(super) type ResultKey = (String, String);
pub(super) type FirstFound = BTreeMap<ResultKey, Timestamp>;

#[derive(Debug, Deserialize)]
pub(super) struct KnownResult {
    #[serde(default)]
    rule: String,
    #[serde(default)]
    properties: BTreeMap<String, String>,
    timestamp: Option<Time>,
}

#[derive(Debug, Deserialize)]
pub(super) struct KnownReport {
    #[serde(default)]
    results: Vec<KnownResult>,
}

impl KnownReport {
    pub(super) fn first_found(self) -> FirstFound {
        let results = self.results.into_iter();
        results
            .filter_map(|mut result| {
                let subject = result.properties.remove("subject")?;
                let time = result.timestamp?;
                let time = Timestamp::new(time.seconds, time.nanos).ok()?;
                Some(((result.rule, subject), time))
            })
            .collect()
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Time {
    seconds: i64,
    nanos: i32,
}

#[derive(Debug, Serialize)]
struct ReportResult<'a> {
    policy: &'static str,
    rule: &'a str,
    category: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    result: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<ObjectReference<'a>>,
    properties: BTreeMap<&'a str, String>,
    timestamp: Time,
}

pub(super) fn key(finding: &Finding) -> ResultKey {
    (finding.rule.to_string(), finding.subject.path())
}

/// Of a `ClusterReport`, or with its namespace of a `Report`.
pub(super) fn target(name: &str) -> Target {
    match name.split_once('/') {
        Some((namespace, name)) => REPORTS.all().in_namespace(namespace).named(name),
        None => CLUSTER_REPORTS.all().named(name),
    }
}

/// The object for a server-side apply. What was first found earlier keeps its time.
pub(super) fn render(name: &str, content: &Content, digest: &Digest, found: &FirstFound) -> Value {
    let mut room = MAX_REPORT - HEAD;
    let mut results = Vec::new();
    let mut left_out = 0_usize;
    let all = (content
        .findings
        .iter()
        .map(|one| of_finding(one, content, found)))
    .chain(content.skipped.iter().map(|one| of_skipped(one, found)));
    for result in all {
        let result = json!(result);
        let size = result.to_string().len() + 1;
        if left_out > 0 || size > room {
            left_out += 1;
            continue;
        }
        room -= size;
        results.push(result);
    }
    let mut annotations = BTreeMap::from([(DIGEST, format!("{}-{}", digest.facts, digest.texts))]);
    if left_out > 0 {
        annotations.insert(LEFT_OUT, left_out.to_string());
    }
    let node = content.node.as_ref();
    let node = node.map(
        |node| json!({"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}),
    );
    let count = |wanted: &str| {
        let findings = content.findings.iter();
        findings
            .filter(|one| outcome(one.severity) == wanted)
            .count()
    };
    let (kind, namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => ("Report", Some(namespace), name),
        None => ("ClusterReport", None, name),
    };
    let mut report = json!({
        "apiVersion": "openreports.io/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": { MANAGED_BY: WRITER },
            "annotations": annotations,
            // Not blockOwnerDeletion, which needs the right to update the node's finalizers.
            "ownerReferences": node.iter().collect::<Vec<_>>(),
        },
        "source": WRITER,
        "summary": {
            "pass": 0,
            "fail": count("fail"),
            "warn": count("warn"),
            "error": 0,
            "skip": content.skipped.len(),
        },
        "results": results,
    });
    if let (Some(node), Some(fields)) = (node, report.as_object_mut()) {
        fields.insert("scope".to_owned(), node);
    }
    report
}

fn of_finding<'a>(finding: &'a Finding, content: &Content, found: &FirstFound) -> ReportResult<'a> {
    let subject = &finding.subject;
    let mut properties: BTreeMap<&str, String> = finding
        .evidence
        .iter()
        .map(|(name, fact)| (*name, shorten(text(fact.value()))))
        .collect();
    properties.insert("subject", subject.path());
    properties.insert("title", finding.title.to_string());
    properties.insert("fix", finding.fix.clone());
    properties.insert("link", finding.link.to_string());
    properties.insert("confidence", text(&json!(finding.confidence)));
    let is_scope = (content.node.as_ref())
        .is_some_and(|node| subject.kind == "Node" && node.name == subject.name);
    let api_version = api_version(&subject.kind).filter(|_| !is_scope);
    let resources = api_version.map(|api_version| ObjectReference {
        api_version,
        kind: &subject.kind,
        name: &subject.name,
        namespace: subject.namespace.as_deref(),
        uid: None,
    });
    ReportResult {
        policy: POLICY,
        rule: &finding.rule,
        category: category(&finding.rule),
        severity: Some(severity(finding.severity)),
        result: outcome(finding.severity),
        message: shorten(finding.message.clone()),
        resources: resources.into_iter().collect(),
        properties,
        timestamp: time(found.get(&key(finding))),
    }
}

fn of_skipped<'a>(skipped: &'a Skipped, found: &FirstFound) -> ReportResult<'a> {
    let subject = "skipped".to_owned();
    let key = (skipped.rule.to_string(), subject.clone());
    ReportResult {
        policy: POLICY,
        rule: &skipped.rule,
        category: category(&skipped.rule),
        severity: None,
        result: "skip",
        message: shorten(skipped.reason.clone()),
        resources: Vec::new(),
        properties: [("subject", subject)].into(),
        timestamp: time(found.get(&key)),
    }
}

pub(super) fn keys(content: &Content) -> impl Iterator<Item = ResultKey> {
    let skipped = content.skipped.iter();
    let skipped = skipped.map(|one| (one.rule.to_string(), "skipped".to_owned()));
    content.findings.iter().map(key).chain(skipped)
}

fn time(time: Option<&Timestamp>) -> Time {
    let time = time.copied().unwrap_or(Timestamp::UNIX_EPOCH);
    Time {
        seconds: time.as_second(),
        nanos: 0,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A text of a field, which ends in `…` if it was too long.
fn shorten(text: String) -> String {
    match format::cut(&text, MAX_TEXT) {
        cut if cut.len() < text.len() => format!("{cut}…"),
        _ => text,
    }
}

fn category(rule: &str) -> &'static str {
    let group = find(rule).and_then(|rule| find_group(rule.group()));
    group.map_or("", |group| group.title)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "high",
        Severity::Warning => "medium",
        Severity::Info => "info",
    }
}

/// A warning of openreports.io is a requirement that is not met and not scored.
fn outcome(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "fail",
        Severity::Warning | Severity::Info => "warn",
    }
}

/// Group and version of the kinds that findings are about; none for zones, pools and the like.
pub(super) fn api_version(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Node" | "Pod" | "PersistentVolume" | "ReplicationController" | "Namespace" => "v1",
        "Lease" => "coordination.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps/v1",
        "Job" => "batch/v1",
        "VolumeAttachment" | "CSINode" => "storage.k8s.io/v1",
        "CertificateSigningRequest" => "certificates.k8s.io/v1",
        "ClusterRole" | "ClusterRoleBinding" => "rbac.authorization.k8s.io/v1",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use nodelife_audit::{Confidence, Subject};

    use super::*;
    use crate::audit::content::NodeRef;

    fn finding(number: usize, message: &str) -> Finding {
        Finding {
            rule: "NL-RES-001".into(),
            title: "title".into(),
            severity: Severity::Error,
            subject: Subject {
                kind: "Pod".into(),
                name: format!("pod-{number}").into(),
                namespace: Some("shop".into()),
            },
            message: message.to_owned(),
            template: "".into(),
            evidence: [("count", 3.into())].into(),
            confidence: Confidence::Measured,
            fix: "fix".to_owned(),
            link: "https://example.com".into(),
        }
    }

    fn report(findings: Vec<Finding>) -> Value {
        let content = Content {
            node: Some(NodeRef {
                name: "a".into(),
                uid: "u".into(),
            }),
            findings,
            skipped: Vec::new(),
        };
        render("r", &content, &content.digest(), &FirstFound::new())
    }

    #[test]
    fn a_long_report_is_cut_and_says_so() {
        let findings = (0..2000).map(|number| finding(number, &"long ".repeat(100)));
        let report = report(findings.collect());
        assert!(report.to_string().len() <= MAX_REPORT);
        let results = report["results"].as_array().unwrap().len();
        let left_out = &report["metadata"]["annotations"][LEFT_OUT];
        assert_eq!(left_out.as_str().unwrap(), (2000 - results).to_string());
        assert_eq!(report["summary"]["fail"], 2000);
    }

    #[test]
    fn a_result_names_rule_object_and_evidence() {
        let report = report(vec![finding(1, "m")]);
        let result = &report["results"][0];
        assert_eq!(result["rule"], "NL-RES-001");
        assert_eq!(result["result"], "fail");
        assert_eq!(result["severity"], "high");
        assert_eq!(result["properties"]["count"], "3");
        assert_eq!(result["properties"]["subject"], "pod/shop/pod-1");
        assert_eq!(result["resources"][0]["namespace"], "shop");
        assert_eq!(report["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn numbers_in_a_message_are_not_a_new_fact() {
        let digest = |message| {
            let content = Content {
                findings: vec![finding(1, message)],
                ..Content::default()
            };
            content.digest()
        };
        let (one, two) = (digest("40 s old"), digest("50 s old"));
        assert_eq!(one.facts, two.facts);
        assert_ne!(one.texts, two.texts);
    }
}
