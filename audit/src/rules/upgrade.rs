//! UPG: what does not start or run with the kubelet of another version (`--target`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{component, event, version};
use crate::kubelet_config::found;
use crate::kubelet_start::{self, Cgroups, Judgement, Refusal, Target};
use crate::rule::rules;
use crate::{Context, FindingBuilder, Findings, Rule, Statement};
use nodelife_core::allocatable::{KubeletConfiguration, refusals_of_files};
use nodelife_core::machine::{Class, NodeMachine};
use nodelife_core::object::Node;
use nodelife_core::version::Version;

pub(super) const RULES: &[Rule] = rules! {
    "NL-UPG-001" Error [Nodes, KubeletConfigs] Target(refused_gates),
    "NL-UPG-002" Error [Nodes, KubeletConfigs] Target(refused_values),
    "NL-UPG-003" Warning [Nodes, KubeletConfigs] Target(ignored),
    "NL-UPG-004" Error [Nodes, Events] Target(cgroup_v1),
    "NL-UPG-005" Error [Nodes] Target(runtime),
    "NL-UPG-006" Error [Nodes] Target(skew),
    "NL-UPG-008" Error [Nodes, Pods] Target(component::skew),
};

/// Judges each configuration of a kubelet that the target would replace; equal ones once.
fn judged<'a>(context: &Context<'a>, target: Target) -> Vec<(Judgement, Vec<&'a Node>)> {
    let mut documents: BTreeMap<String, (Map<String, Value>, Vec<&Node>)> = BTreeMap::new();
    for node in context.nodes() {
        let Some(config) = context.config(&node.metadata.name) else {
            continue;
        };
        // What configz says of a newer kubelet are its own defaults, too; NL-UPG-006 reports it.
        if kubelet(node).is_some_and(|own| own.minor > target.minor()) {
            continue;
        }
        let document = document(config);
        let text = Value::Object(document.clone()).to_string();
        let (_, nodes) = documents.entry(text).or_insert((document, Vec::new()));
        nodes.push(node);
    }
    let documents = documents.into_values();
    documents
        .map(|(document, nodes)| {
            // Control groups are a matter of NL-UPG-004.
            let start = kubelet_start::judge(&document, target, Cgroups::V2);
            (start, nodes)
        })
        .collect()
}

fn document(config: &KubeletConfiguration) -> Map<String, Value> {
    let mut document = match serde_json::to_value(config) {
        Ok(Value::Object(document)) => document,
        _ => Map::new(),
    };
    // Absent fields of ours are null, and a duration must not be.
    document.retain(|_, value| !value.is_null());
    document.insert("apiVersion".into(), "kubelet.config.k8s.io/v1beta1".into());
    document.insert("kind".into(), "KubeletConfiguration".into());
    document
}

/// Reports each text once, with the nodes that it holds for.
fn report(
    context: &Context<'_>,
    target: Target,
    findings: &mut Findings<'_>,
    says: &'static str,
    texts: impl Fn(&Judgement) -> Vec<String>,
) {
    let mut answers: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for (start, nodes) in judged(context, target) {
        for text in texts(&start) {
            answers.entry(text).or_default().extend(&nodes);
        }
    }
    let statement = |text| {
        Statement::from(says)
            .with("target", target.to_string())
            .with("setting", text)
    };
    for (text, nodes) in answers {
        findings.push(found(&nodes, statement(text)));
    }
    for (name, files) in &context.snapshot.kubelet_files {
        let files = kubelet_start::Document::of(files);
        let mut start = kubelet_start::judge_files(&files, target, Cgroups::V2);
        // What a running kubelet says it has, it has not refused.
        let config = KubeletConfiguration::from_merged(files.fields.into());
        let more = config.iter().flat_map(refusals_of_files);
        start.refusals.extend(more.map(Refusal::Value));
        for text in texts(&start) {
            let statement = statement(text);
            findings.push(FindingBuilder::named(
                "KubeletConfiguration",
                name,
                statement,
            ));
        }
    }
}

fn refused_gates(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    let is_gate = |refusal: &Refusal| matches!(refusal, Refusal::Gate(..));
    refused(context, target, findings, is_gate);
}

fn refused_values(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    let is_value = |refusal: &Refusal| matches!(refusal, Refusal::Value(_));
    refused(context, target, findings, is_value);
}

fn refused(
    context: &Context<'_>,
    target: Target,
    findings: &mut Findings<'_>,
    is_wanted: fn(&Refusal) -> bool,
) {
    let says = "the kubelet of {target} does not start: {setting}";
    report(context, target, findings, says, |start| {
        let refusals = start.refusals.iter().filter(|one| is_wanted(one));
        refusals.map(ToString::to_string).collect()
    });
}

fn ignored(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    let says = "the kubelet of {target} does not know {setting}";
    report(context, target, findings, says, |start| {
        start.ignored.clone()
    });
    let says = "the file has {setting} more than once: the kubelet of {target} uses the last value";
    report(context, target, findings, says, |start| {
        start.doubled.clone()
    });
}

fn cgroup_v1(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    /// The first version that refuses cgroup v1 by default.
    const FIRST: u32 = 35;
    if target.minor() < FIRST {
        return;
    }
    for (node, _) in event::seen(context, "CgroupV1") {
        // Configz of an earlier kubelet says false where nobody has set it.
        let is_explicit = kubelet(node).is_some_and(|own| own.minor >= FIRST);
        let config = context.config(&node.metadata.name);
        let is_allowed = config.is_some_and(|c| c.fail_cgroup_v1 == Some(false));
        if is_explicit && is_allowed {
            continue;
        }
        let says = "the machine has cgroup v1 (its kubelet reports CgroupV1): the kubelet of \
                    {target} does not start there unless failCgroupV1 is set to false";
        findings.push(FindingBuilder::node(node, says).with("target", target.to_string()));
    }
}

fn runtime(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    /// The last version that supports containerd 1.x.
    const LAST: u32 = 35;
    for node in context.nodes() {
        let text = &node.status.node_info.container_runtime_version;
        let containerd = text.strip_prefix("containerd://").and_then(Version::parse);
        if target.minor() > LAST && containerd.is_some_and(|version| version.major < 2) {
            let says = "{runtime}: {last} is the last version that supports it";
            let found = FindingBuilder::node(node, says).with("runtime", text);
            findings.push(found.with("last", format!("1.{LAST}")));
        }
    }
}

fn skew(context: &Context<'_>, target: Target, findings: &mut Findings<'_>) {
    /// How many minor versions a kubelet may be older than its API server.
    const MOST: u32 = 3;
    for node in context.nodes() {
        // A virtual kubelet is a program of its own, and has its own versions.
        let is_virtual = NodeMachine::of(node).class == Class::VirtualKubelet;
        let Some(own) = kubelet(node).filter(|_| !is_virtual) else {
            continue;
        };
        let says = if own.minor > target.minor() {
            "kubelet {kubelet} is newer than {target}"
        } else if own.minor + MOST < target.minor() {
            "kubelet {kubelet} is {behind} minor versions older than {target}; {most} are allowed"
        } else {
            continue;
        };
        let found = FindingBuilder::node(node, says)
            .with("kubelet", own.to_string())
            .with("target", target.to_string())
            .with("behind", i64::from(target.minor()) - i64::from(own.minor))
            .with("most", MOST);
        findings.push(found);
    }
}

fn kubelet(node: &Node) -> Option<Version> {
    version::kubelet(node).filter(|version| version.major == 1)
}
