//! Screen of a running drain: a header, and a line for each pod that is not done. A pure function,
//! so that tests need no terminal.

use jiff::{SignedDuration, Timestamp};
use nodelife_core::disruption::BudgetRefusal;
use nodelife_core::object::Node;
use nodelife_drain_plan::{BlockReason, DrainMachine, PodState, Tracked, diagnosis};
use unicode_width::UnicodeWidthStr as _;

use crate::output::{cut, shorten};

/// A pod is worth this many columns before its reason is worth any.
const NARROWEST_POD: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    rank: u8,
    pod: String,
    state: &'static str,
    since: Option<SignedDuration>,
    reason: String,
}

/// The lines of the screen, at most `height` of them, none wider than `width` columns.
pub(super) fn screen(
    machine: &DrainMachine,
    nodes: &[Node],
    (started, now): (Timestamp, Timestamp),
    (width, height): (usize, usize),
) -> Vec<String> {
    let open = machine.pods().filter(|tracked| !tracked.state.is_settled());
    let mut rows: Vec<Row> = open.map(|tracked| row(tracked, nodes, now)).collect();
    rows.sort_by(|a, b| (a.rank, &a.pod).cmp(&(b.rank, &b.pod)));
    let settled = |wanted: fn(&PodState) -> bool| {
        let states = machine.pods().map(|tracked| &tracked.state);
        states.filter(|state| wanted(state)).count()
    };
    let gone = settled(|state| *state == PodState::Gone);
    let staying = settled(|state| matches!(state, PodState::Skipped(_)));
    let total = machine.pods().count() - staying;
    let head = format!(
        "{gone} of {total} pods gone, {} in progress or waiting,  {}",
        rows.len(),
        clock(now.duration_since(started))
    );
    draw(&head, &rows, (width, height))
}

fn row(tracked: &Tracked, nodes: &[Node], now: Timestamp) -> Row {
    let meta = &tracked.pod.metadata;
    let (rank, state, since) = match &tracked.state {
        PodState::Terminating { since } => (1, "terminating", Some(*since)),
        PodState::Evicting | PodState::Fetching => (2, "evicting", tracked.started_at),
        PodState::Blocked(blocked) => (0, "blocked", Some(blocked.first)),
        PodState::Completing => (3, "completing", None),
        _ => (4, "waiting", None),
    };
    let reason = match &tracked.state {
        PodState::Terminating { .. } => diagnosis(&tracked.pod, nodes, now).join("; "),
        PodState::Waiting | PodState::Evicting => String::new(),
        PodState::Blocked(blocked) => numbers(&blocked.block),
        state => state.to_string(),
    };
    Row {
        rank,
        pod: meta.full_name(),
        state,
        since: since.map(|since| now.duration_since(since)),
        reason,
    }
}

/// The numbers first: a narrow terminal cuts the end, and budgets are often named as their pods.
fn numbers(block: &BlockReason) -> String {
    match block {
        BlockReason::Budget {
            budget,
            refusal:
                BudgetRefusal::Exhausted {
                    needs,
                    has,
                    expected,
                    uncounted,
                    ..
                },
        } => {
            let evicted = match uncounted {
                0 => String::new(),
                more => format!(", {more} just evicted"),
            };
            let budget = &budget.name;
            format!("has {has} of {expected}, needs {needs}{evicted}: budget {budget}")
        }
        BlockReason::Implicit {
            workload,
            needs,
            has,
            ..
        } => format!("{has} healthy, needs {needs}: implicit budget of {workload}"),
        block => block.to_string(),
    }
}

/// The head, as many rows as there is room for, and how many are left out.
fn draw(head: &str, rows: &[Row], (width, height): (usize, usize)) -> Vec<String> {
    let mut lines = vec![cut(head, width)];
    let room = height.saturating_sub(1);
    let shown = if rows.len() <= room {
        rows.len()
    } else {
        // The last line says what is not seen.
        room.saturating_sub(1)
    };
    let widest = rows.iter().map(|row| row.pod.width()).max().unwrap_or(0);
    let reasons = rows.iter().map(|row| row.reason.width()).max().unwrap_or(0);
    let times: Vec<String> = rows
        .iter()
        .map(|row| row.since.map(clock).unwrap_or_default())
        .collect();
    let time = times.iter().map(String::len).max().unwrap_or(0);
    let state = rows.iter().map(|row| row.state.len()).max().unwrap_or(0);
    let others = state + time + 6;
    let pod = widest
        .min(width.saturating_sub(others + reasons).max(width * 2 / 5))
        .max(NARROWEST_POD.min(widest));
    for (row, since) in rows.iter().zip(&times).take(shown) {
        let name = shorten(&row.pod, pod);
        let pad = " ".repeat(pod.saturating_sub(name.width()));
        let line = format!(
            "{name}{pad}  {:state$}  {since:>time$}  {}",
            row.state, row.reason
        );
        lines.push(cut(line.trim_end(), width));
    }
    if rows.len() > shown && room > 0 {
        lines.push(cut(&format!("… and {} more", rows.len() - shown), width));
    }
    lines.truncate(height);
    lines
}

/// `1:05`, or `2:00:00`.
fn clock(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |rank, pod: &str, state, seconds: Option<i64>, reason: &str| Row {
            rank,
            pod: pod.to_owned(),
            state,
            since: seconds.map(SignedDuration::from_secs),
            reason: reason.to_owned(),
        };
        vec![
            row(
                0,
                "shop/checkout-7d9c5b6f4-x2x9p",
                "blocked",
                Some(75),
                "has 2 of 3, needs 2: budget checkout",
            ),
            row(
                1,
                "shop/a-deployment-with-a-rather-long-name-5c6d7f8b9-q8zkt",
                "terminating",
                Some(3),
                "27 s of grace period left",
            ),
            row(
                1,
                "db/pg-0",
                "terminating",
                Some(4000),
                "grace period over for 3970 s; held by finalizers (example.com/backup); the \
                 controller that set them must remove them",
            ),
            row(2, "shop/web-1", "evicting", Some(0), ""),
            row(4, "shop/web-2", "waiting", None, ""),
        ]
    }

    const HEAD: &str = "3 of 8 pods gone, 5 in progress or waiting,  1:15";

    #[test]
    fn eighty_columns() {
        insta::assert_snapshot!(draw(HEAD, &rows(), (80, 24)).join("\n"));
    }

    #[test]
    fn two_hundred_columns() {
        insta::assert_snapshot!(draw(HEAD, &rows(), (200, 24)).join("\n"));
    }

    #[test]
    fn four_lines_and_a_count_of_the_rest() {
        insta::assert_snapshot!(draw(HEAD, &rows(), (80, 4)).join("\n"));
    }

    #[test]
    fn no_line_is_wider_or_lower_than_the_screen() {
        for width in 0..220 {
            for height in 0..9 {
                let lines = draw(HEAD, &rows(), (width, height));
                assert!(lines.len() <= height, "{height}: {lines:#?}");
                for line in &lines {
                    assert!(line.width() <= width, "{width}: {line:?}");
                }
            }
        }
    }
}
