use nodelife_audit::nodes::{GroupBy, Options, SortBy, narrowed};
use nodelife_core::snapshot::Snapshot;
use nodelife_drain_plan::Answer;
use std::collections::BTreeMap;

use super::*;

const FAULTY: &str = include_str!("../../../../../examples/faulty-cluster.json");

fn report(options: &Options) -> NodesReport {
    let snapshot: Snapshot = serde_json::from_str(FAULTY).unwrap();
    let now = snapshot.taken_at.unwrap();
    NodesReport::new(&narrowed(snapshot), options, now)
}

fn shown(report: &NodesReport, format: NodesFormat, width: Option<usize>) -> String {
    let first = &report.nodes[0].name;
    let view = View {
        format,
        unicode: true,
        no_headers: false,
        drainable: &match format {
            NodesFormat::Wide => BTreeMap::from([(first.clone(), Answer::Waits)]),
            _ => BTreeMap::new(),
        },
    };
    let table = table(report, view, report.taken_at.unwrap(), width);
    let mut out = Vec::new();
    table.write(&mut out, width).unwrap();
    let text = String::from_utf8(out).unwrap();
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn groups_have_a_line_with_their_sum() {
    let report = report(&Options {
        group_by: Some(GroupBy::Zone),
        sort_by: SortBy::Memory,
        ..Options::default()
    });
    insta::assert_snapshot!("groups", shown(&report, NodesFormat::Table, Some(120)));
}

#[test]
fn wide_shows_everything() {
    let report = report(&Options::default());
    insta::assert_snapshot!("wide", shown(&report, NodesFormat::Wide, None));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for group_by in [None, Some(GroupBy::Pool)] {
        let report = report(&Options {
            group_by,
            ..Options::default()
        });
        for width in (56..240).step_by(12) {
            let text = shown(&report, NodesFormat::Table, Some(width));
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
            // One line each: the header, the nodes, the groups and the sum.
            let lines = 2 + report.nodes.len() + report.groups.len();
            assert_eq!(text.lines().count(), lines, "{width}:\n{text}");
        }
    }
}

#[test]
fn amounts_have_three_digits_and_the_unit_of_the_whole() {
    let amount = |text: &str| Some(Quantity::parse(text).unwrap());
    for (part, whole, expected) in [
        ("4550m", "3920m", "4.55/3.92"),
        ("0", "4", "0/4"),
        ("100m", "64", "0.1/64"),
        ("10", "100", "10/100"),
        ("12345", "20000", "12345/20000"),
    ] {
        assert_eq!(cores(amount(part), amount(whole)), expected);
    }
    for (part, whole, expected) in [
        ("64Mi", "512Mi", "64/512Mi"),
        ("1536Mi", "14Gi", "1.5/14Gi"),
        ("0", "15061192Ki", "0/14.4Gi"),
        ("512Gi", "2Ti", "0.5/2Ti"),
    ] {
        assert_eq!(bytes(amount(part), amount(whole)), expected);
    }
    assert_eq!(cores(None, amount("4")), "-/4");
    assert_eq!(bytes(amount("1Gi"), None), "1/-Gi");
}

#[test]
fn ages_are_short() {
    for (seconds, text) in [
        (59, "59s"),
        (3 * 3600, "3h"),
        (3 * 86_400 + 7200, "3d2h"),
        (214 * 86_400 + 7200, "214d"),
    ] {
        assert_eq!(age(seconds), text);
    }
}
