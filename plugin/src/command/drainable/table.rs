//! The table of `drainable`: the nodes with equal answers in one row.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anstyle::Style;
use nodelife_core::format::{self, count};
use nodelife_core::natural;
use nodelife_drain_plan::{Answer, AnswerReason, Estimate, NodeAnswer, Seconds};

use crate::output::{Cell, Table, style};

/// More rows than these are not all printed.
const MANY: usize = 12;
/// Rows that are printed of each answer then.
const ROWS: usize = 3;
/// Nodes that are named of each row, reasons of each node, and pods of each reason.
const NODES: usize = 5;
const REASONS: usize = 2;
const PODS: usize = 2;

/// A row for the nodes with equal answers, those with the worst last; of each answer those of most nodes
/// first.
pub(super) fn table(nodes: &[NodeAnswer]) -> Table {
    let mut groups: BTreeMap<_, Vec<&NodeAnswer>> = BTreeMap::new();
    for node in nodes {
        let reasons = blocking(node).map(|reason| &reason.reason);
        let reasons: Vec<_> = reasons.collect();
        let key = (node.answer, &node.flags, &node.warnings, reasons);
        groups.entry(key).or_default().push(node);
    }
    let mut rows: Vec<(Answer, Vec<&NodeAnswer>)> = groups
        .into_iter()
        .map(|((answer, ..), nodes)| (answer, nodes))
        .collect();
    rows.sort_by_key(|(answer, nodes)| (*answer, Reverse(nodes.len())));
    let (most, reasons) = match rows.len() {
        0..=MANY => (MANY, REASONS),
        _ => (ROWS, 1),
    };
    let mut table = Table::new(["DRAINABLE", "NODES", "WHY"]);
    for rows in rows.chunk_by(|one, next| one.0 == next.0) {
        let (told, others) = rows.split_at(format::listed(rows.len(), most));
        for (answer, nodes) in told {
            let warnings = nodes.first().map_or(&[][..], |first| &first.warnings);
            let why = [&[why(nodes, reasons)], warnings].concat();
            row(&mut table, *answer, nodes, why.join("; "));
        }
        if let Some((answer, _)) = others.first() {
            let nodes = others.iter().flat_map(|(_, nodes)| nodes).copied();
            let nodes: Vec<_> = nodes.collect();
            let why = format!("{}; -o json has all", count(others.len(), "other reason"));
            row(&mut table, *answer, &nodes, why);
        }
    }
    table
}

fn row(table: &mut Table, answer: Answer, nodes: &[&NodeAnswer], why: String) {
    let answer = Cell::styled(answer.to_string(), colour(answer));
    table.row([answer, nodes.len().to_string().into(), why.into()]);
    let names = nodes.iter().map(|node| &*node.name);
    table.note_names(NODES, |shown| format::first(shown, names.clone()));
}

fn colour(answer: Answer) -> Style {
    match answer {
        Answer::Yes => style::GOOD,
        Answer::Waits | Answer::Needs => style::WARNING,
        Answer::Never => style::ERROR,
    }
}

/// The reasons of an answer that is not yes; with its flags a drain begins, and then may wait.
fn blocking(node: &NodeAnswer) -> impl Iterator<Item = &AnswerReason> {
    let answers = match node.answer {
        Answer::Yes => &[][..],
        Answer::Waits => &[Answer::Waits],
        Answer::Needs => &[Answer::Needs, Answer::Waits],
        Answer::Never => &[Answer::Never],
    };
    let reasons = node.reasons.iter();
    reasons.filter(|reason| answers.contains(&reason.answer))
}

/// Why these nodes have their answer, with the first few of the reasons.
fn why(nodes: &[&NodeAnswer], most: usize) -> String {
    let Some(first) = nodes.first().filter(|node| node.answer != Answer::Yes) else {
        return time(nodes);
    };
    let mut texts: Vec<String> = blocking(first).map(|reason| text(reason, nodes)).collect();
    let more = texts.split_off(texts.len().min(most)).len();
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    let texts = texts.join("; ");
    match first.answer {
        Answer::Needs => {
            let flags: Vec<&str> = first.flags.iter().copied().collect();
            format!("{}: {texts}", flags.join(" "))
        }
        _ => texts,
    }
}

/// A reason, with the pods of all these nodes that it is about.
fn text(reason: &AnswerReason, nodes: &[&NodeAnswer]) -> String {
    let same =
        |other: &&AnswerReason| (other.answer, &other.reason) == (reason.answer, &reason.reason);
    let all = nodes
        .iter()
        .flat_map(|node| node.reasons.iter().filter(same));
    let mut pods: Vec<&str> = all.flat_map(|one| &one.pods).map(String::as_str).collect();
    // A sort of all pods of a large cluster would take as long as its plans.
    if let Some(last) = pods.len().min(PODS).checked_sub(1) {
        let order = |a: &&str, b: &&str| natural::compare(a, b);
        let (before, ..) = pods.select_nth_unstable_by(last, order);
        before.sort_by(order);
    }
    let mut text = reason.reason.clone();
    if !pods.is_empty() {
        text = format!("{}: {text}", format::first(PODS, pods));
    }
    if let Some(change) = &reason.change {
        text.push_str("; ");
        text.push_str(change);
    }
    text
}

/// How long the drain of a node takes, and what else is to be known of nodes that can be drained.
fn time(nodes: &[&NodeAnswer]) -> String {
    let busy: Vec<_> = nodes.iter().filter(|node| node.pods > 0).collect();
    let known = || busy.iter().filter_map(|node| node.estimate.as_ref());
    let shortest = known().map(|time: &Estimate| time.min_seconds).min();
    let longest = known().map(|time| time.max_seconds).max();
    let show = |time: Seconds| {
        let seconds = i64::try_from(time.rounded()).unwrap_or(i64::MAX);
        format::duration(seconds)
    };
    let mut text = match (shortest, longest) {
        _ if busy.is_empty() => return "there are no pods to evict".to_owned(),
        (Some(shortest), Some(longest)) if nodes.len() == 1 => {
            format!("{} to {}", show(shortest), show(longest))
        }
        (Some(shortest), Some(longest)) => {
            format!("{} to {} a node", show(shortest), show(longest))
        }
        _ => "how long is not known".to_owned(),
    };
    let unknown = busy.len() - known().count();
    if unknown > 0 && shortest.is_some() {
        text = format!("{text}, not known of {unknown}");
    }
    let homeless = |node: &&&&NodeAnswer| node.reasons.iter().any(|why| !why.pods.is_empty());
    let homeless = busy.iter().filter(homeless).count();
    if homeless > 0 {
        let of = count(homeless, "node");
        text = format!("{text}; pods of {of} fit on no other node, and will be Pending");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(i: usize, answer: Answer, reasons: &[&str]) -> NodeAnswer {
        let reasons = reasons.iter().map(|reason| AnswerReason {
            answer,
            reason: (*reason).to_owned(),
            change: (answer == Answer::Never)
                .then(|| format!("to change by who may {}", "x".repeat(90))),
            pods: vec![format!("shop/web-7c9f8d5b6d-{i:05}")],
        });
        NodeAnswer {
            name: format!(
                "ip-10-0-{}-{}.eu-central-1.compute.internal",
                i / 256,
                i % 256
            )
            .into(),
            answer,
            flags: [].into(),
            pods: i % 3,
            reasons: reasons.collect(),
            warnings: Vec::new(),
            estimate: None,
        }
    }

    fn lines(nodes: &[NodeAnswer]) -> Vec<String> {
        let mut text = Vec::new();
        table(nodes).write(&mut text, Some(80)).unwrap();
        let text = anstream::adapter::strip_bytes(&text).into_vec();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn nodes_with_equal_answers_share_a_row() {
        let nodes = [
            node(0, Answer::Yes, &[]),
            node(3, Answer::Yes, &[]),
            node(4, Answer::Never, &["budget shop/web never allows one"]),
            node(5, Answer::Never, &["budget shop/web never allows one"]),
        ];
        let lines = lines(&nodes);
        assert!(
            lines[1].starts_with("yes         2       there are no pods to evict"),
            "{lines:#?}"
        );
        assert!(
            lines[3].starts_with("never       2       shop/web-7c9f8d5b6d-00004, "),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_node_with_a_warning_has_a_row() {
        let warned = NodeAnswer {
            warnings: vec!["the node is about to be deleted".to_owned()],
            ..node(3, Answer::Yes, &[])
        };
        let lines = lines(&[node(0, Answer::Yes, &[]), warned]);
        assert!(
            lines[3]
                .starts_with("yes         1       there are no pods to evict; the node is about"),
            "{lines:#?}"
        );
    }

    /// Each with reasons of its own.
    #[test]
    fn a_thousand_nodes_take_one_screen() {
        let answers = [Answer::Yes, Answer::Waits, Answer::Needs, Answer::Never];
        let nodes: Vec<NodeAnswer> = (0..1000)
            .map(|i| {
                let long = format!("budget {i} {}", "of some length ".repeat(8));
                node(i, answers[i % 4], &[&long, &format!("{long} again")])
            })
            .collect();
        let lines = lines(&nodes);
        assert!(lines.len() <= 60, "{}: {lines:#?}", lines.len());
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:#?}");
        let said = lines.join("\n");
        assert!(
            said.contains("247 other reasons; -o json has all"),
            "{said}"
        );
    }
}
