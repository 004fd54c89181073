//! Each rule has a fixture that fires it and a near miss that must not, both made from
//! the healthy cluster of `examples/` by a small change.

mod authorization;
mod budget;
mod capacity;
mod certificate;
mod cluster;
mod configuration;
mod event;
mod fixture;
mod heartbeat;
mod kinds;
mod label;
mod operations;
mod operators;
mod pod;
mod real_nodes;
mod redaction;
mod registration;
mod reserved;
mod same_facts;
mod shutdown;
mod strangers;
mod taint;
mod toleration;
mod upgrade;
mod version;
mod volume;
mod zone;

use std::collections::BTreeSet;

use nodelife_audit::{Audit, Finding, Selection};
use nodelife_core::snapshot::Snapshot;

use fixture::{Change, Fixture};

const FIXTURES: &[&[Fixture]] = &[
    registration::FIXTURES,
    heartbeat::FIXTURES,
    taint::FIXTURES,
    reserved::FIXTURES,
    capacity::FIXTURES,
    toleration::FIXTURES,
    budget::FIXTURES,
    label::FIXTURES,
    shutdown::FIXTURES,
    version::FIXTURES,
    certificate::FIXTURES,
    authorization::FIXTURES,
    volume::FIXTURES,
    zone::FIXTURES,
    pod::FIXTURES,
    operations::FIXTURES,
    event::FIXTURES,
    upgrade::FIXTURES,
];

fn fixtures() -> impl Iterator<Item = &'static Fixture> {
    FIXTURES.iter().copied().flatten()
}

/// Whether the rule finds something after this change.
fn fires(rule: &str, change: Change) -> bool {
    let mut snapshot = cluster::healthy();
    change(&mut snapshot);
    finds(&snapshot, rule)
}

fn finds(snapshot: &Snapshot, rule: &str) -> bool {
    let selection = Selection {
        rules: vec![rule.into()],
        ..with_target()
    };
    let now = snapshot.taken_at.unwrap();
    says(&nodelife_audit::audit(snapshot, &selection, now), rule)
}

/// What these rules find; all of them where none is named.
fn findings(snapshot: &Snapshot, rules: &[&str]) -> Vec<Finding> {
    let selection = Selection {
        rules: rules.iter().copied().map(String::from).collect(),
        ..Selection::default()
    };
    let now = snapshot.taken_at.unwrap();
    nodelife_audit::audit(snapshot, &selection, now).findings
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|found| &*found.rule).collect()
}

/// A selection with which every rule can be checked.
fn with_target() -> Selection {
    Selection {
        target: "1.37".parse().ok(),
        ..Selection::default()
    }
}

fn says(audit: &Audit, rule: &str) -> bool {
    audit.findings.iter().any(|finding| finding.rule == *rule)
}

#[test]
fn the_healthy_cluster_is_clean_and_every_rule_looked_at_it() {
    let snapshot = cluster::healthy();
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &with_target(), now);
    assert!(audit.findings.is_empty(), "{:#?}", audit.findings);
    assert!(audit.skipped.is_empty(), "{:#?}", audit.skipped);
    assert_eq!(audit.checked, nodelife_audit::all().count());
}

#[test]
fn every_rule_has_its_fixtures() {
    let ids: Vec<_> = nodelife_audit::all().map(|rule| rule.id).collect();
    let unique: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id is given twice");
    let proved: Vec<_> = fixtures().map(|fixture| fixture.rule).collect();
    let proved_once: BTreeSet<_> = proved.iter().copied().collect();
    assert_eq!(proved.len(), proved_once.len(), "a rule has two fixtures");
    let missing: Vec<_> = unique.symmetric_difference(&proved_once).collect();
    assert!(missing.is_empty(), "rules and fixtures differ: {missing:?}");
}

#[test]
fn the_texts_of_every_rule_are_there() {
    for rule in nodelife_audit::all() {
        let texts = [rule.title(), rule.why(), rule.confirm(), rule.fix()];
        assert!(texts.iter().all(|text| text.len() > 10), "{}", rule.id);
        assert!(rule.link().starts_with("https://"), "{}", rule.id);
        assert!(!rule.sources.is_empty(), "{}", rule.id);
        assert!(!rule.title().ends_with('.'), "{}", rule.id);
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rules");
    let pages = std::fs::read_dir(folder).unwrap();
    assert_eq!(
        pages.count(),
        nodelife_audit::all().count(),
        "a page without a rule"
    );
}

#[test]
fn the_fault_is_found() {
    let deaf: Vec<_> = fixtures()
        .filter(|fixture| !fires(fixture.rule, fixture.fires))
        .map(|fixture| fixture.rule)
        .collect();
    assert!(deaf.is_empty(), "rules that do not fire: {deaf:?}");
}

#[test]
fn every_template_has_its_facts() {
    for fixture in fixtures() {
        let mut snapshot = cluster::healthy();
        (fixture.fires)(&mut snapshot);
        let now = snapshot.taken_at.unwrap();
        for found in nodelife_audit::audit(&snapshot, &with_target(), now).findings {
            assert!(
                !found.message.contains('{'),
                "{}: {}",
                found.rule,
                found.message
            );
        }
    }
}

#[test]
fn the_near_miss_is_not() {
    let noisy: Vec<_> = fixtures()
        .filter(|fixture| fires(fixture.rule, fixture.silent))
        .map(|fixture| fixture.rule)
        .collect();
    assert!(
        noisy.is_empty(),
        "rules that fire without a fault: {noisy:?}"
    );
}

#[test]
fn without_its_data_a_rule_is_skipped_and_never_silent() {
    let snapshot = Snapshot {
        missing: [(
            nodelife_core::snapshot::Source::Pods,
            "forbidden: may not list pods".into(),
        )]
        .into(),
        ..cluster::healthy()
    };
    let now = snapshot.taken_at.unwrap();
    let audit = nodelife_audit::audit(&snapshot, &with_target(), now);
    let skipped = audit.skipped.iter().find(|s| s.rule == "NL-TOL-001");
    assert_eq!(
        skipped.unwrap().reason,
        "pods not read: forbidden: may not list pods"
    );
    assert_eq!(
        audit.checked + audit.skipped.len(),
        nodelife_audit::all().count()
    );
}

#[test]
fn an_annotation_keeps_findings_away_unless_a_node_wrote_it() {
    let mut snapshot = cluster::healthy();
    cluster::condition(&mut snapshot, 0, "Ready", "Unknown", 60);
    snapshot.pods[0].spec.node_name = "gone".into();
    let now = snapshot.taken_at.unwrap();
    let audit = |snapshot: &Snapshot| {
        let audit = nodelife_audit::audit(snapshot, &Selection::default(), now);
        let kinds = audit
            .findings
            .iter()
            .map(|one| one.subject.kind.to_string());
        (kinds.collect::<Vec<String>>(), audit.suppressed.len())
    };
    let of_nodes = |kinds: &[String]| {
        let written = ["Node", "Lease", "CertificateSigningRequest"];
        let of_nodes = kinds.iter().filter(|kind| written.contains(&kind.as_str()));
        of_nodes.count()
    };
    let (before, none) = audit(&snapshot);
    assert!(of_nodes(&before) > 0 && none == 0, "{before:?}");
    let groups: BTreeSet<&str> = nodelife_audit::all()
        .filter_map(|rule| rule.id.split('-').nth(1))
        .collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    let skip = || {
        let annotation = nodelife_audit::SKIP_ANNOTATION.into();
        [(annotation, groups.join(",").as_str().into())]
    };
    for node in &mut snapshot.nodes {
        node.metadata.annotations.extend(skip());
    }
    for lease in &mut snapshot.leases {
        lease.metadata.annotations.extend(skip());
    }
    assert_eq!(audit(&snapshot), (before.clone(), 0));
    for pod in &mut snapshot.pods {
        pod.metadata.annotations.extend(skip());
    }
    let (after, suppressed) = audit(&snapshot);
    assert_eq!(of_nodes(&after), of_nodes(&before));
    assert!(after.len() < before.len() && suppressed > 0, "{after:?}");
}

#[test]
fn other_nodes_are_left_out_when_nodes_are_named() {
    let mut snapshot = cluster::healthy();
    cluster::condition(&mut snapshot, 0, "Ready", "Unknown", 60);
    let other = snapshot.nodes[1].metadata.name.clone();
    let selection = Selection {
        nodes: vec![other],
        ..Selection::default()
    };
    let now = snapshot.taken_at.unwrap();
    assert!(!says(
        &nodelife_audit::audit(&snapshot, &selection, now),
        "NL-HB-002"
    ));
}

#[test]
fn a_finding_about_several_kubelets_is_reported_at_the_named_node() {
    let mut snapshot = cluster::healthy();
    cluster::configure(&mut snapshot, |config| config.rotate_certificates = None);
    let named = snapshot.nodes[4].metadata.name.clone();
    let selection = Selection {
        nodes: vec![named.clone()],
        ..Selection::default()
    };
    let now = snapshot.taken_at.unwrap();
    let findings = nodelife_audit::audit(&snapshot, &selection, now).findings;
    let found = findings.iter().find(|found| found.rule == *"NL-CRT-001");
    let found = found.unwrap();
    assert_eq!(found.subject.name, named);
    assert!(found.message.contains("the same on"), "{}", found.message);
}
