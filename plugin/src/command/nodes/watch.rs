//! `nodes --watch`: the table, drawn again when a node or a pod changes.

use std::time::Duration;

use nodelife_audit::nodes::{NodesReport, Options};
use tokio::time::Instant;

use super::live::Live;
use crate::cli::ClusterArgs;
use crate::command::{connect, input};
use crate::exit::ExitStatus;
use crate::output::{Printer, cut};
use crate::report::nodes::View;
use crate::signals::Resizes;

/// The shortest time between two drawings.
const PAUSE: Duration = Duration::from_millis(500);

/// A drawing that takes long is followed by a pause that is so many times as long.
const REST: u32 = 4;

/// Ages grow, and leases expire, although nothing changes.
const REFRESH: Duration = Duration::from_secs(5);

/// Draws until it is interrupted.
pub(super) async fn watch(
    options: &Options,
    view: View,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    printer.progress("reading the cluster");
    let cluster = connect::connect(cluster, printer).await?;
    let mut live = Live::open(&cluster).await?;
    input::check_nodes(
        live.snapshot(),
        &options.nodes,
        &crate::cli::InputArgs::default(),
    )?;
    let mut resizes = Resizes::listen();
    loop {
        let begun = Instant::now();
        draw(&mut live, options, view, printer)?;
        let drawn = Instant::now();
        let pause = PAUSE.max((drawn - begun) * REST);
        let mut due = drawn + REFRESH.max(pause);
        loop {
            tokio::select! {
                changed = live.next() => {
                    changed?;
                    due = drawn + pause;
                }
                () = resizes.next() => break,
                () = tokio::time::sleep_until(due) => break,
            }
        }
    }
}

fn draw(
    live: &mut Live,
    options: &Options,
    view: View,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let Some((width, height)) = Printer::screen() else {
        anyhow::bail!("the terminal is gone");
    };
    let snapshot = live.snapshot();
    let now = snapshot.taken_at.unwrap_or_default();
    let report = NodesReport::new(snapshot, options, now);
    let table = view.table(&report, Some(width));
    let mut lines = printer.lines(&table, width)?;
    let missing = report.pods_missing.iter();
    let missing = missing.map(|reason| format!("pods not read, requests not known: {reason}"));
    let below: Vec<String> = missing
        .chain(live.troubles())
        .map(|text| cut(&text, width))
        .collect();
    let sums = usize::from(report.nodes.len() > 1);
    fit(&mut lines, height.saturating_sub(below.len()), sums);
    lines.extend(below);
    Ok(printer.draw(&lines, (width, height))?)
}

/// Leaves out lines that the terminal has no room for: not the first ones, nor the last `sums`.
fn fit(lines: &mut Vec<String>, height: usize, sums: usize) {
    if lines.len() <= height {
        return;
    }
    let last = lines.split_off(lines.len() - sums.min(lines.len()));
    // A line says that some are not seen.
    let kept = height.saturating_sub(last.len() + 1);
    let left_out = lines.len().saturating_sub(kept);
    lines.truncate(kept);
    lines.push(format!("… and {left_out} more"));
    lines.extend(last);
    lines.truncate(height);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(count: usize, height: usize) -> Vec<String> {
        let mut lines: Vec<String> = (0..count).map(|line| line.to_string()).collect();
        fit(&mut lines, height, 1);
        lines
    }

    #[test]
    fn a_low_terminal_shows_the_first_nodes_and_the_sum() {
        assert_eq!(fitted(4, 4), ["0", "1", "2", "3"]);
        assert_eq!(fitted(9, 4), ["0", "1", "… and 6 more", "8"]);
        for height in 0..9 {
            assert!(fitted(9, height).len() <= height, "{height}");
        }
    }
}
