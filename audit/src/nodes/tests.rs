//! Tests of the report on the nodes.

use jiff::SignedDuration;

use super::*;
use crate::Severity;
use crate::fixtures::{node, pod};
use nodelife_core::object::{Container, ContainerResources, Pod, ResourceList};

/// A pod on `node` that requests this much CPU and memory, with twice as much as its limits.
fn asking(name: &str, node: &str, cpu: &str, memory: &str) -> Pod {
    let mut pod = pod(name, node);
    pod.spec.containers = vec![Container {
        resources: ContainerResources {
            requests: list(cpu, memory),
            limits: list(cpu, memory),
        },
        ..Container::default()
    }]
    .into();
    pod
}

fn list(cpu: &str, memory: &str) -> ResourceList {
    [("cpu".into(), cpu.into()), ("memory".into(), memory.into())].into()
}

fn labelled(name: &str, labels: &[(&str, &str)]) -> Node {
    let mut node = node(name);
    for (key, value) in labels {
        node.metadata.labels.insert((*key).into(), (*value).into());
    }
    node
}

fn cluster() -> Snapshot {
    let zone = "topology.kubernetes.io/zone";
    let pool = "karpenter.sh/nodepool";
    let mut snapshot = Snapshot {
        taken_at: Some(Timestamp::UNIX_EPOCH + SignedDuration::from_hours(48)),
        nodes: vec![
            labelled("node-10", &[(zone, "b"), (pool, "spot")]),
            labelled("node-2", &[(zone, "a"), (pool, "spot")]),
            labelled("node-1", &[(zone, "a")]),
            labelled("other", &[]),
        ],
        pods: vec![
            asking("big", "node-10", "5", "4Gi"),
            asking("half", "node-2", "2", "8Gi"),
            asking("none", "node-1", "0", "0"),
            asking("unbound", "", "1", "1Gi"),
        ],
        ..Snapshot::default()
    };
    for (node, hours) in snapshot.nodes.iter_mut().zip([1, 3, 2]) {
        let created = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        node.metadata.creation_timestamp = Some(created);
    }
    narrowed(snapshot)
}

fn report(snapshot: &Snapshot, options: &Options) -> NodesReport {
    NodesReport::new(snapshot, options, Timestamp::UNIX_EPOCH)
}

fn names(snapshot: &Snapshot, sort_by: SortBy) -> Vec<Str> {
    let options = Options {
        sort_by,
        ..Options::default()
    };
    let rows = report(snapshot, &options).nodes;
    rows.into_iter().map(|row| row.name).collect()
}

#[test]
fn requests_stand_beside_allocatable() {
    let report = report(&cluster(), &Options::default());
    let row = report
        .nodes
        .iter()
        .find(|row| row.name == "node-2")
        .unwrap();
    let text = |amount: Option<nodelife_core::quantity::Quantity>| amount.unwrap().to_string();
    assert_eq!(text(row.cpu.requests), "2");
    assert_eq!(text(row.cpu.allocatable), "4");
    assert_eq!(row.cpu.requests_percent, Some(50.0));
    assert_eq!(text(row.memory.limits), "8Gi");
    assert_eq!(row.memory.limits_percent, Some(50.0));
    assert_eq!(row.pods.count, Some(1));
    assert_eq!(row.pods.allocatable, Some(110));
    let empty = report.nodes.iter().find(|row| row.name == "other").unwrap();
    assert_eq!(text(empty.cpu.requests), "0");
    assert_eq!(empty.pods.count, Some(0));
    // The pod that is not bound counts nowhere.
    assert_eq!(text(report.total.cpu.requests), "7");
    assert_eq!(text(report.total.memory.allocatable), "64Gi");
    assert_eq!((report.total.size, report.total.ready), (4, 4));
    assert_eq!(report.total.pods.count, Some(3));
}

#[test]
fn terminated_pods_do_not_count() {
    let mut snapshot = cluster();
    for (pod, phase) in snapshot.pods.iter_mut().zip(["Failed", "Succeeded"]) {
        pod.status.phase = phase.into();
    }
    let report = report(&snapshot, &Options::default());
    assert_eq!(report.total.cpu.requests.unwrap().to_string(), "0");
    assert_eq!(report.total.pods.count, Some(1));
}

#[test]
fn orders_are_natural_fullest_oldest_and_worst_first() {
    let snapshot = cluster();
    for (by, expected) in [
        (SortBy::Name, ["node-1", "node-2", "node-10", "other"]),
        (SortBy::Cpu, ["node-10", "node-2", "node-1", "other"]),
        (SortBy::Memory, ["node-2", "node-10", "node-1", "other"]),
        (SortBy::Pods, ["node-1", "node-2", "node-10", "other"]),
        (SortBy::Age, ["node-10", "node-1", "node-2", "other"]),
        (SortBy::Zone, ["node-1", "node-2", "node-10", "other"]),
        (SortBy::Pool, ["node-2", "node-10", "node-1", "other"]),
    ] {
        assert_eq!(names(&snapshot, by), expected, "{by:?}");
    }
    assert_eq!(names(&snapshot, SortBy::Finding)[0], "node-10");
}

#[test]
fn groups_have_totals_and_nodes_without_one_come_last() {
    let options = Options {
        group_by: Some(GroupBy::Zone),
        sort_by: SortBy::Age,
        ..Options::default()
    };
    let report = report(&cluster(), &options);
    assert_eq!(report.group_by.as_deref(), Some("zone"));
    let rows: Vec<_> = report.nodes.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(rows, ["node-1", "node-2", "node-10", "other"]);
    let groups: Vec<_> = report
        .groups
        .iter()
        .map(|group| (group.name.as_deref(), group.totals.size))
        .collect();
    assert_eq!(groups, [(Some("a"), 2), (Some("b"), 1), (None, 1)]);
    let a = &report.groups[0].totals;
    assert_eq!(a.cpu.requests_percent, Some(25.0));
    let label = Options {
        group_by: Some(GroupBy::Label("karpenter.sh/nodepool".into())),
        ..Options::default()
    };
    let by_label = super::NodesReport::new(&cluster(), &label, Timestamp::UNIX_EPOCH);
    let pool = Options {
        group_by: Some(GroupBy::Pool),
        ..label
    };
    let by_pool = super::NodesReport::new(&cluster(), &pool, Timestamp::UNIX_EPOCH);
    assert_eq!(by_label.groups, by_pool.groups);
}

#[test]
fn a_selection_narrows_rows_and_totals() {
    let options = Options {
        nodes: vec!["node-2".into()],
        ..Options::default()
    };
    let report = report(&cluster(), &options);
    assert_eq!(report.nodes.len(), 1);
    assert_eq!(report.total.cpu.requests.unwrap().to_string(), "2");
}

#[test]
fn the_worst_finding_is_about_the_node_or_its_pods() {
    let snapshot = cluster();
    let all = report(&snapshot, &Options::default());
    let row = all.nodes.iter().find(|row| row.name == "node-10").unwrap();
    let finding = row.finding.as_ref().unwrap();
    assert_eq!(
        (&*finding.rule, finding.severity),
        ("NL-CAP-001", Severity::Error)
    );
    assert!(finding.findings >= 1);
    assert_eq!(all.total.with_errors, 1);
    assert!(all.checked > 20);
    assert_eq!(all.skipped, []);
}

#[test]
fn findings_about_pods_count_for_their_node() {
    let finding = |kind: &str, namespace: Option<&str>, name: &str| Finding {
        rule: format!("NL-{kind}").into(),
        title: "".into(),
        severity: Severity::Warning,
        subject: crate::Subject {
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(Str::from),
        },
        message: String::new(),
        template: "".into(),
        evidence: [].into(),
        confidence: crate::Confidence::Measured,
        fix: String::new(),
        link: "".into(),
    };
    let findings = [
        finding("Pod", Some("default"), "half"),
        finding("Pod", Some("elsewhere"), "big"),
        finding("Node", None, "node-2"),
        finding("Zone", None, "node-2"),
        finding("Cluster", None, "cluster"),
    ];
    let worst = by_node(&findings, &cluster().pods);
    assert_eq!(worst.len(), 1, "{worst:?}");
    let found = &worst["node-2"];
    assert_eq!((&*found.rule, found.findings), ("NL-Pod", 2));
}

#[test]
fn without_pods_requests_are_unknown_and_not_zero() {
    let mut snapshot = cluster();
    snapshot.pods.clear();
    snapshot.missing.insert(Source::Pods, "forbidden".into());
    let report = report(&snapshot, &Options::default());
    assert_eq!(report.pods_missing.as_deref(), Some("forbidden"));
    for row in &report.nodes {
        assert_eq!(row.cpu.requests, None);
        assert_eq!(row.cpu.requests_percent, None);
        assert_eq!(row.pods.count, None);
        assert!(row.cpu.allocatable.is_some());
    }
    assert_eq!(report.total.cpu.requests, None);
    assert_eq!(report.total.pods.count, None);
    assert!(!report.skipped.is_empty(), "rules that need pods");
}

#[test]
fn the_report_is_the_same_whatever_else_was_read() {
    let mut rich = cluster();
    rich.missing.clear();
    rich.budgets = vec![crate::fixtures::budget("web", 0, 1, 1)];
    rich.workloads = vec![crate::fixtures::workload(
        nodelife_core::object::WorkloadKind::ReplicaSet,
        "web",
        1,
    )];
    let options = Options::default();
    assert_eq!(
        report(&narrowed(rich), &options),
        report(&cluster(), &options)
    );
}

#[test]
fn the_state_is_what_the_condition_says() {
    let mut node = node("a");
    assert_eq!(ReadyState::of(&node), ReadyState::Ready);
    node.status.conditions[0].status = "False".into();
    assert_eq!(ReadyState::of(&node), ReadyState::NotReady);
    node.status.conditions[0].status = "Unknown".into();
    assert_eq!(ReadyState::of(&node), ReadyState::Unknown);
    node.status.conditions.clear();
    assert_eq!(ReadyState::of(&node), ReadyState::Missing);
}
