//! The plan of a maintenance, and the wait for its window.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nodelife_core::format;
use nodelife_core::text::Str;
use nodelife_drain::{DrainRequest, NodeSelection, Prepared, prepare};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::super::reporter::{StatusReporter, View};
use super::super::reservations::Limits;
use super::Worker;
use super::journal::{Begins, StatusJournal, earlier};

/// For so long a plan may wait for its lists: watches may end before they have shown anything.
const PLAN_TIMEOUT: Duration = Duration::from_mins(2);

/// What the drain of a plan will tell, and its limits.
pub(super) struct Told {
    pub(super) reporter: StatusReporter,
    pub(super) limits: Limits,
    pub(super) view: watch::Receiver<View>,
    pub(super) begins: mpsc::UnboundedReceiver<Begins>,
}

impl Worker {
    /// Plans the drain of these nodes, and takes nothing.
    pub(super) async fn plan(
        &self,
        mut request: DrainRequest,
        nodes: Vec<Str>,
    ) -> anyhow::Result<(Prepared, Told)> {
        request.nodes = NodeSelection::named(nodes);
        let limits = Limits {
            max_unavailable: request.max_unavailable,
            max_per_zone: request.settings.max_per_zone.map(usize::from),
        };
        let draining = request.nodes.names().iter().cloned().collect();
        request.process = Arc::clone(&self.reservation.reservations.process);
        request.shared = Some(self.reservation.limits(limits, draining));
        let (sender, begins) = mpsc::unbounded_channel();
        request.journal = Some(Arc::new(StatusJournal(sender)));
        request.earlier = {
            let known = self.reservation.reservations.known();
            earlier(&self.object.status, &known, self.cluster.clock().now())
        };
        let (mut reporter, view) = StatusReporter::new(&self.object);
        let latest = Instant::now() + PLAN_TIMEOUT;
        let latest = self.end.map_or(latest, |end| end.min(latest));
        let prepared = prepare(&self.cluster, &request, &mut reporter);
        let prepared = tokio::time::timeout_at(latest, prepared);
        let prepared = prepared
            .await
            .context("timed out reading the cluster for the plan")?;
        let told = Told {
            reporter,
            limits,
            view,
            begins,
        };
        Ok((prepared?, told))
    }

    /// The sentence about the wait for its window, with what it would wait for now.
    pub(super) fn until_window(&self, now: &str, blocked: bool) -> Option<String> {
        let (start, end) = self.ahead?;
        let end = end.map(|end| format!(" and ends at {end:.0}"));
        let begins = format!("begins at {start:.0}{}", end.unwrap_or_default());
        Some(match (blocked, now) {
            (true, now) => format!("{begins}; in its way now: {now}"),
            (false, "") => begins,
            (false, now) => format!("{begins}; {now}"),
        })
    }
}

impl Told {
    /// The sentence about what is not planned.
    pub(super) fn why_refused(&self, refused: &Prepared) -> String {
        match refused {
            Prepared::Refused { nodes, .. } if !nodes.is_empty() => {
                const SHOWN: usize = 3;
                let nodes = nodes.iter().map(|(node, why)| format!("{node}: {why}"));
                format!("refused: {}", format::first(SHOWN, nodes))
            }
            _ => self.reporter.last.clone(),
        }
    }
}
