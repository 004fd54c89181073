//! Tests that an audit says the same of the same facts: however old the input is, and whatever else
//! was read.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use nodelife_audit::{Check, Finding, Rule, Selection};
use nodelife_core::snapshot::{Clock, Snapshot, Source};
use nodelife_core::text::Str;
use serde_json::Value;

use super::{cluster, fixtures, with_target};

const FAULTY: &str = include_str!("../../../../examples/faulty-cluster.json");

/// Rules that judge a version by the calendar.
const CALENDAR: [&str; 2] = ["NL-VER-003", "NL-VER-004"];

/// The faulty cluster as `kubectl get` gives it, with all of its times moved.
fn moved(by: SignedDuration) -> Snapshot {
    let faulty: Snapshot = serde_json::from_str(FAULTY).unwrap();
    let mut snapshot = all_moved(&faulty, by);
    snapshot.taken_at = None;
    snapshot
}

fn all_moved(snapshot: &Snapshot, by: SignedDuration) -> Snapshot {
    let mut value = serde_json::to_value(snapshot).unwrap();
    move_times(&mut value, by);
    serde_json::from_value(value).unwrap()
}

fn move_times(value: &mut Value, by: SignedDuration) {
    match value {
        Value::String(text) => {
            if let Ok(time) = text.parse::<Timestamp>() {
                *text = (time + by).to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_times(item, by)),
        Value::Object(fields) => fields.values_mut().for_each(|field| move_times(field, by)),
        _ => {}
    }
}

/// Rule and subject of each finding that `takes`, as read on a machine whose clock says `now`.
fn findings(
    mut snapshot: Snapshot,
    now: Timestamp,
    takes: impl Fn(&Rule, &Finding) -> bool,
) -> BTreeSet<String> {
    snapshot.set_time(None);
    let audit = nodelife_audit::audit(&snapshot, &Selection::default(), now);
    let wanted = |finding: &&Finding| takes(nodelife_audit::find(&finding.rule).unwrap(), finding);
    let found = audit.findings.iter().filter(wanted);
    found
        .map(|finding| format!("{} {}", finding.rule, finding.subject.name))
        .collect()
}

fn without_calendar(rule: &Rule, _: &Finding) -> bool {
    !CALENDAR.contains(&rule.id)
}

fn hours(hours: i64) -> SignedDuration {
    SignedDuration::from_hours(hours)
}

#[test]
fn the_age_of_the_input_changes_no_finding() {
    let now = serde_json::from_str::<Snapshot>(FAULTY).unwrap();
    let now = now.taken_at.unwrap();
    let fresh = findings(moved(hours(0)), now, without_calendar);
    assert!(fresh.len() > 20, "{fresh:#?}");
    let two_minutes = SignedDuration::from_mins(-2);
    for by in [two_minutes, hours(-2 * 365 * 24), hours(1)] {
        assert_eq!(findings(moved(by), now, without_calendar), fresh, "{by}");
    }
}

/// A file with one Node says nothing of the others, and all that concerns the node alone.
#[test]
fn one_node_has_the_findings_that_it_has_among_others() {
    let now = Timestamp::UNIX_EPOCH;
    let of_one_node = |rule: &Rule| {
        rule.sources == [Source::Nodes]
            && matches!(
                rule.check,
                Check::Node(_) | Check::Machine(_) | Check::EachNode(_)
            )
    };
    let mut compared = 0;
    let whole = moved(hours(0));
    let mut dated = whole.clone();
    dated.set_time(None);
    for node in &whole.nodes {
        let name = node.metadata.name.as_str();
        let its_own = |rule: &Rule, found: &Finding| {
            of_one_node(rule) && found.subject.kind == "Node" && found.subject.name == *name
        };
        let single = Snapshot {
            nodes: vec![node.clone()],
            missing: [
                (Source::AllNodes, "it is a single Node".into()),
                (Source::Pods, "it has none".into()),
            ]
            .into(),
            // Facts about the cluster.
            taken_at: dated.taken_at,
            server_version: whole.server_version.clone(),
            ..Snapshot::default()
        };
        let alone = findings(single, now, its_own);
        compared += alone.len();
        assert_eq!(alone, findings(whole.clone(), now, its_own), "{name}");
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn without_pods_the_rules_about_nodes_find_the_same() {
    let now = Timestamp::UNIX_EPOCH;
    let needs_none = |rule: &Rule, _: &Finding| !rule.sources.contains(&Source::Pods);
    let whole = moved(hours(0));
    let mut unread = whole.clone();
    unread.pods.clear();
    unread.missing.insert(Source::Pods, "not read".into());
    let expected = findings(whole, now, needs_none);
    assert!(expected.len() > 10, "{expected:#?}");
    assert_eq!(findings(unread, now, |_, _| true), expected);
}

/// Compares what each rule finds in the fixture that fires it with what it finds after a change.
fn compare(
    subject_only: bool,
    takes: impl Fn(&Rule) -> bool,
    changed: impl Fn(&Rule, &Snapshot) -> Vec<(String, Snapshot)>,
) {
    let mut differences = String::new();
    for fixture in fixtures() {
        let rule = nodelife_audit::find(fixture.rule).unwrap();
        if !takes(rule) {
            continue;
        }
        let mut snapshot = cluster::healthy();
        (fixture.fires)(&mut snapshot);
        let says = |snapshot: &Snapshot| -> BTreeSet<String> {
            let selection = Selection {
                rules: vec![rule.id.into()],
                ..with_target()
            };
            let audit = nodelife_audit::audit(snapshot, &selection, Timestamp::MAX);
            let found = audit.findings.into_iter();
            found
                .map(|finding| {
                    if subject_only {
                        finding.subject.name.to_string()
                    } else {
                        format!("{}: {}", finding.subject.name, finding.message)
                    }
                })
                .collect()
        };
        let expected = says(&snapshot);
        for (change, changed) in changed(rule, &snapshot) {
            let found = says(&changed);
            if found != expected {
                let line = format!("{} {change}: {expected:?}, {found:?}\n", rule.id);
                differences.push_str(&line);
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn every_rule_says_the_same_two_years_earlier() {
    compare(
        false,
        |rule| !CALENDAR.contains(&rule.id),
        |_, snapshot| {
            let old = all_moved(snapshot, hours(-2 * 365 * 24));
            vec![("two years earlier".into(), old)]
        },
    );
}

#[test]
fn every_rule_takes_a_time_that_is_given_for_the_servers() {
    compare(
        false,
        |_| true,
        |_, snapshot| {
            let mut given = snapshot.clone();
            given.taken_at = None;
            given.set_time(snapshot.taken_at);
            vec![("--at".into(), given)]
        },
    );
}

/// One of nine clocks is a day ahead, and the input does not say when it was read.
#[test]
fn no_rule_believes_a_clock_that_is_ahead() {
    compare(
        true,
        // NL-HB-004 is about the clock itself.
        |rule| !rule.sources.contains(&Source::Clock) && rule.id != "NL-HB-004",
        |_, snapshot| {
            let mut ahead = snapshot.clone();
            let Some(node) = ahead.nodes.last_mut() else {
                return Vec::new();
            };
            let by = hours(24);
            for condition in &mut node.status.conditions {
                condition.last_heartbeat_time = condition.last_heartbeat_time.map(|t| t + by);
            }
            let name = node.metadata.name.clone();
            for lease in ahead.leases.iter_mut().filter(|l| l.metadata.name == name) {
                lease.spec.renew_time = lease.spec.renew_time.map(|t| t + by);
            }
            ahead.taken_at = None;
            ahead.set_time(None);
            vec![("a clock ahead".into(), ahead)]
        },
    );
}

#[test]
fn a_rule_needs_no_data_but_its_sources() {
    compare(
        true,
        |_| true,
        |rule, snapshot| {
            let unread = Source::ALL.into_iter().chain([Source::AllPods]);
            let unread = unread.filter(|source| !rule.sources.contains(source));
            unread
                .map(|source| (source.noun().to_owned(), without(snapshot, source)))
                .collect()
        },
    );
}

/// Of the namespaces whose pods were read, each rule says what it says of them with all pods.
#[test]
fn pods_of_some_namespaces_are_judged_as_with_all() {
    let (mut kept, mut skipped) = (0, 0);
    for fixture in fixtures() {
        let rule = nodelife_audit::find(fixture.rule).unwrap();
        let mut whole = cluster::healthy();
        (fixture.fires)(&mut whole);
        let says = |snapshot: &Snapshot| -> BTreeSet<(Option<Str>, Str)> {
            let selection = Selection {
                rules: vec![rule.id.into()],
                ..with_target()
            };
            let audit = nodelife_audit::audit(snapshot, &selection, Timestamp::MAX);
            let found = audit.findings.into_iter().map(|finding| finding.subject);
            found.map(|about| (about.namespace, about.name)).collect()
        };
        let all = says(&whole);
        let pods = whole.pods.iter();
        let namespaces: BTreeSet<_> = pods.map(|pod| &pod.metadata.namespace).collect();
        for namespace in namespaces {
            let mut part = whole.clone();
            part.pods.retain(|pod| pod.metadata.namespace != *namespace);
            part.missing.insert(Source::AllPods, "some only".into());
            let found = says(&part);
            let needed = [Source::Pods, Source::AllPods];
            if needed.iter().all(|source| rule.sources.contains(source)) {
                assert!(found.is_empty(), "{}: {found:?}", rule.id);
                skipped += 1;
                continue;
            }
            assert!(found.is_subset(&all), "{}: {found:?}, {all:?}", rule.id);
            for lost in all.difference(&found) {
                // A fact about a node or the cluster may be one of the pods that are left out.
                let place = lost.0.as_ref();
                assert!(
                    place.is_none_or(|place| place == namespace),
                    "{}: {lost:?}",
                    rule.id
                );
            }
            kept += found.len();
        }
    }
    assert!(kept > 100 && skipped >= 10, "{kept}, {skipped}");
}

/// The cluster as somebody sees it who may not read this.
fn without(snapshot: &Snapshot, source: Source) -> Snapshot {
    let mut snapshot = snapshot.clone();
    snapshot.missing.insert(source, "not read".into());
    match source {
        Source::Nodes => snapshot.nodes.clear(),
        Source::Leases => snapshot.leases.clear(),
        Source::Pods => snapshot.pods.clear(),
        Source::Budgets => snapshot.budgets.clear(),
        Source::Workloads => snapshot.workloads.clear(),
        Source::KubeletConfigs => snapshot.kubelet_configs.clear(),
        Source::Volumes => snapshot.volumes = None,
        Source::VolumeAttachments => snapshot.volume_attachments = None,
        Source::CsiNodes => snapshot.csi_nodes = None,
        Source::SigningRequests => snapshot.signing_requests = None,
        Source::ClusterRoles => snapshot.cluster_roles = None,
        Source::ClusterRoleBindings => snapshot.cluster_role_bindings = None,
        Source::Events => snapshot.events = None,
        Source::Autoscalers => snapshot.autoscalers = None,
        Source::NodeAuthorizer => snapshot.node_authorizer = None,
        Source::NodeRestriction => snapshot.node_restriction = None,
        Source::Clock => snapshot.clock = Clock::NewestHeartbeat,
        Source::AllNodes | Source::AllPods => {}
    }
    snapshot
}
