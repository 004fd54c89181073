//! Tests that an audit says the same of the same facts: however old the input is, and whatever else
//! was read.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use nodelife_core::audit::{self, Check, Finding, Rule, Selection};
use nodelife_core::snapshot::{Snapshot, Source};
use serde_json::Value;

const FAULTY: &str = include_str!("../../../examples/faulty-cluster.json");

/// Rules that judge a version by the calendar.
const CALENDAR: [&str; 2] = ["NL-VER-003", "NL-VER-004"];

/// The faulty cluster as `kubectl get` gives it, with all of its times moved.
fn moved(by: SignedDuration) -> Snapshot {
    let mut value: Value = serde_json::from_str(FAULTY).unwrap();
    move_times(&mut value, by);
    let mut snapshot: Snapshot = serde_json::from_value(value).unwrap();
    snapshot.taken_at = None;
    snapshot
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
    let audit = audit::audit(&snapshot, &Selection::default(), now);
    let wanted = |finding: &&Finding| takes(audit::find(&finding.rule).unwrap(), finding);
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
        rule.sources == [Source::Nodes] && matches!(rule.check, Check::Node(_) | Check::Machine(_))
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
            single_node: true,
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
