//! Clusters as strangers send them, read as `audit -f` reads them: clocks of single nodes are wrong,
//! namespaces and statuses are left out, other things lie beside. No rule says anything else of what it
//! sees for that, and none tells of a negative age.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use nodelife_audit::{Audit, Finding};
use nodelife_core::snapshot::{Snapshot, Source};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::{cluster, fixtures, with_target};

/// The lists of a snapshot, with the type of their objects.
const LISTS: [(&str, &str, &str); 10] = [
    ("nodes", "v1", "Node"),
    ("leases", "coordination.k8s.io/v1", "Lease"),
    ("pods", "v1", "Pod"),
    ("budgets", "policy/v1", "PodDisruptionBudget"),
    ("volumes", "v1", "PersistentVolume"),
    ("volumeAttachments", "storage.k8s.io/v1", "VolumeAttachment"),
    ("csiNodes", "storage.k8s.io/v1", "CSINode"),
    (
        "signingRequests",
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
    ),
    (
        "clusterRoles",
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
    ),
    (
        "clusterRoleBindings",
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
    ),
];

/// What is different about an input.
#[derive(Clone, Debug, Default)]
struct Strangeness {
    /// Which nodes' clocks are wrong, and by how many hours.
    clocks: Vec<(usize, i64)>,
    /// Which namespace is left out.
    namespace: Option<usize>,
    /// Which node has no status.
    stripped: Option<usize>,
    has_foreign: bool,
}

fn strangeness() -> impl Strategy<Value = (usize, Strangeness)> {
    let hours = prop_oneof![-48..0i64, 1..48i64];
    let clocks = prop::collection::vec((0..9usize, hours), 0..3);
    let one = || prop::option::weighted(0.4, 0..9usize);
    let all = (any::<usize>(), clocks, one(), one(), any::<bool>());
    all.prop_map(|(base, clocks, namespace, stripped, has_foreign)| {
        let strange = Strangeness {
            clocks,
            namespace,
            stripped,
            has_foreign,
        };
        (base, strange)
    })
}

#[test]
fn what_is_strange_about_an_input_changes_no_other_finding() {
    let cases = env::var("NODELIFE_CASES").map_or(20, |cases| cases.parse().unwrap());
    let mut runner = TestRunner::deterministic();
    let strategy = strangeness();
    let mut differences = BTreeSet::new();
    let mut compared = 0;
    let mut known = BTreeMap::new();
    for _ in 0..cases {
        let (base, strange) = strategy.new_tree(&mut runner).unwrap().current();
        let base = base % (fixtures().count() + 5);
        let (rule, snapshot, was) = known.entry(base).or_insert_with(|| {
            let (rule, snapshot) = world(base);
            let audit = audit(&snapshot, &Strangeness::default());
            (rule, snapshot, audit)
        });
        let (all, is) = (&*was, audit(snapshot, &strange));
        for finding in &is.findings {
            // RES and CAP tell of amounts below others, `-80m`.
            let tells_of_amounts = ["RES", "CAP"].contains(&&finding.rule[3..6]);
            if !tells_of_amounts && has_negative_age(&finding.message) {
                differences.insert(format!("{rule}: {}: {}", finding.rule, finding.message));
            }
        }
        let [was, now] = [all, &is].map(|audit| verdicts(audit, snapshot, &strange));
        compared += was.len();
        let is_unseen = |(rule, subject): &(String, String)| {
            let sources = nodelife_audit::find(rule).unwrap().sources;
            is.skipped.iter().any(|skipped| *skipped.rule == **rule)
                // What a node or the cluster has may be in the namespace that is left out.
                || strange.namespace.is_some() && subject.contains("namespace: None")
                // Where a volume can go depends on each node of its zone.
                || strange.stripped.is_some() && sources.contains(&Source::Volumes)
        };
        for lost in was.difference(&now).filter(|verdict| !is_unseen(verdict)) {
            differences.insert(format!("{rule}: lost {lost:?}: {strange:?}"));
        }
        // A finding about several nodes begins with another, if the first is strange.
        let is_known = |(rule, _): &(String, String)| {
            let mut known = all.findings.iter().filter(|found| *found.rule == **rule);
            known.any(|found| {
                strange_nodes(snapshot, &strange)
                    .iter()
                    .any(|n| tells_of(found, n))
            })
        };
        for new in now.difference(&was).filter(|verdict| !is_known(verdict)) {
            differences.insert(format!("{rule}: new {new:?}: {strange:?}"));
        }
    }
    let count = differences.len();
    let differences: Vec<_> = differences.into_iter().collect();
    assert!(count == 0, "{count}: {}", differences.join("\n"));
    assert!(compared > cases, "{compared}");
}

/// A cluster with the fault of one rule, or with many.
fn world(base: usize) -> (&'static str, Snapshot) {
    let Some(fixture) = fixtures().nth(base) else {
        let many = include_str!("../../../../examples/faulty-cluster.json");
        return ("many faults", serde_json::from_str(many).unwrap());
    };
    let mut snapshot = cluster::healthy();
    (fixture.fires)(&mut snapshot);
    (fixture.rule, snapshot)
}

fn namespaces(snapshot: &Snapshot) -> Vec<&str> {
    let pods = snapshot.pods.iter();
    let all: BTreeSet<_> = pods.map(|pod| pod.metadata.namespace.as_str()).collect();
    all.into_iter().collect()
}

fn name_of(snapshot: &Snapshot, node: usize) -> &str {
    let node = snapshot.nodes.get(node);
    node.map_or("", |node| node.metadata.name.as_str())
}

fn strange_nodes<'a>(snapshot: &'a Snapshot, strange: &Strangeness) -> BTreeSet<&'a str> {
    let clocks = strange.clocks.iter().map(|(node, _)| *node);
    let all = clocks.chain(strange.stripped);
    all.map(|node| name_of(snapshot, node)).collect()
}

/// Rule and subject of each finding about what is not strange.
fn verdicts(
    audit: &Audit,
    snapshot: &Snapshot,
    strange: &Strangeness,
) -> BTreeSet<(String, String)> {
    let nodes = strange_nodes(snapshot, strange);
    let namespaces = namespaces(snapshot);
    let left_out = strange.namespace.and_then(|which| namespaces.get(which));
    let of_pod = |name: &str| {
        let pods = snapshot.pods.iter();
        pods.filter(move |pod| pod.metadata.name == name)
            .any(|pod| nodes.contains(pod.spec.node_name.as_str()))
    };
    let is_plain = |finding: &&Finding| {
        let subject = &finding.subject;
        let is_object = !["Cluster", "Zone", "Pool"].contains(&subject.kind.as_str());
        let is_here = subject.namespace.as_deref() != left_out.copied() || left_out.is_none();
        is_object
            && is_here
            && !nodes.contains(subject.name.as_str())
            && !of_pod(&subject.name)
            && !nodes.iter().any(|node| tells_of(finding, node))
    };
    let findings = audit.findings.iter().filter(is_plain);
    let verdict = |finding: &Finding| (finding.rule.to_string(), format!("{:?}", finding.subject));
    findings.map(verdict).collect()
}

fn tells_of(finding: &Finding, node: &str) -> bool {
    finding.message.contains(node) || format!("{:?}", finding.evidence).contains(node)
}

/// Whether a text has such as `-3h`.
fn has_negative_age(text: &str) -> bool {
    let mut words = text.split([' ', '(', ')', ',', ';', ':']);
    words.any(|word| {
        let Some(amount) = word.strip_prefix(['-', '−']) else {
            return false;
        };
        let unit = amount.trim_start_matches(|c: char| c.is_ascii_digit());
        unit != amount
            && ["s", "m", "h", "d", "y"]
                .iter()
                .any(|one| unit.starts_with(one))
    })
}

/// Writes the cluster as `kubectl get -o json` gives it, and audits the folder.
fn audit(snapshot: &Snapshot, strange: &Strangeness) -> Audit {
    let folder = tempfile::tempdir().unwrap();
    let mut changed = snapshot.clone();
    let names: Vec<String> = (0..9).map(|i| name_of(snapshot, i).to_owned()).collect();
    for (node, hours) in &strange.clocks {
        set_clock(
            &mut changed,
            &names[*node],
            SignedDuration::from_hours(*hours),
        );
    }
    let namespaces = namespaces(snapshot);
    if let Some(left_out) = strange.namespace.and_then(|which| namespaces.get(which)) {
        changed
            .pods
            .retain(|pod| pod.metadata.namespace != *left_out);
        changed
            .budgets
            .retain(|budget| budget.metadata.namespace != *left_out);
        changed
            .workloads
            .retain(|workload| workload.metadata.namespace != *left_out);
    }
    let mut value = serde_json::to_value(&changed).unwrap();
    for (list, api_version, kind) in LISTS {
        let Some(items) = value[list].as_array_mut() else {
            continue;
        };
        for item in &mut *items {
            item["apiVersion"] = api_version.into();
            item["kind"] = kind.into();
            if kind == "Node"
                && strange
                    .stripped
                    .is_some_and(|i| item["metadata"]["name"] == *names[i])
            {
                item.as_object_mut().unwrap().remove("status");
            }
        }
        if strange.has_foreign {
            let foreign =
                json!({"apiVersion": "x.example/v1", "kind": kind, "metadata": {"name": names[0]}});
            items.insert(0, foreign);
        }
        write(
            folder.path(),
            list,
            &json!({"apiVersion": "v1", "kind": "List", "items": items}),
        );
    }
    let mut workloads = value["workloads"].as_array().unwrap().clone();
    for workload in &mut workloads {
        let group = match workload["kind"].as_str() {
            Some("Job") => "batch/v1",
            Some("ReplicationController") => "v1",
            _ => "apps/v1",
        };
        workload["apiVersion"] = group.into();
    }
    write(
        folder.path(),
        "workloads",
        &json!({"apiVersion": "v1", "kind": "List", "items": workloads}),
    );
    for (node, configuration) in &changed.kubelet_configs {
        write(
            folder.path(),
            node,
            &json!({"kubeletconfig": configuration}),
        );
    }
    if strange.has_foreign {
        write(
            folder.path(),
            "a",
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}),
        );
        write(
            folder.path(),
            "z",
            &json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetricsList", "items": [{}]}),
        );
        fs::write(folder.path().join("0.yaml"), "a: [1\n").unwrap();
        fs::write(folder.path().join("1.json"), "{\"name\": \"x\", \"name\": ").unwrap();
    }
    let mut read = nodelife_cluster::snapshot::read(&[folder.path().to_owned()])
        .unwrap()
        .snapshot;
    read.set_time(None);
    nodelife_audit::audit(&read, &with_target(), Timestamp::MAX)
}

fn write(folder: &Path, name: &str, value: &Value) {
    fs::write(folder.join(format!("{name}.json")), value.to_string()).unwrap();
}

/// Moves the times that the machine of this node has written.
fn set_clock(snapshot: &mut Snapshot, name: &str, by: SignedDuration) {
    let nodes = snapshot.nodes.iter_mut();
    for node in nodes.filter(|node| node.metadata.name == name) {
        for condition in &mut node.status.conditions {
            condition.last_heartbeat_time = condition.last_heartbeat_time.map(|time| time + by);
        }
    }
    let leases = snapshot.leases.iter_mut();
    for lease in leases.filter(|lease| lease.metadata.name == name) {
        lease.spec.renew_time = lease.spec.renew_time.map(|time| time + by);
    }
}
