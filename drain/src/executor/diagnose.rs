//! Reports blocked budgets and failed watches.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::ApiError;
use nodelife_core::format::{count, join};
use nodelife_drain_plan::DrainEvent;

use super::Executor;
use super::blocked::Listed;
use crate::events::EventReason;
use crate::sentences::warn_budgets_unreadable;

/// How long a budget lets nothing go before that is reported: waves follow each other.
const REPORT_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// How many watches in a row may be answered that the credentials are not accepted.
const MAX_UNAUTHORIZED: u32 = 5;

/// The wait of a watch that was forbidden for at least four seconds: an API server that has just
/// started forbids everything until its authorizer has read the roles.
const LONG_FORBIDDEN: Duration = Duration::from_secs(4);

const MAX_NAMED: usize = 5;

impl Executor<'_> {
    /// Has Events tell of budgets that let nothing go for too long, and asks which pods each lacks.
    pub(super) fn report_blocked(&mut self, now: Timestamp) {
        if now < self.report_at {
            return;
        }
        // Budgets that block from now on are not reported earlier.
        self.report_at = now + REPORT_AFTER;
        for tracked in self.machine.pods() {
            let Some(since) = self.machine.stalled_since(tracked) else {
                continue;
            };
            let due = since + REPORT_AFTER;
            if now < due {
                self.report_at = self.report_at.min(due);
                continue;
            }
            let name = tracked.pod.metadata.full_name();
            let text = format!("{name}: {}", tracked.state);
            let about = tracked.budget().unwrap_or_default();
            let node = &tracked.pod.spec.node_name;
            self.events
                .record(node, EventReason::BLOCKED, &about, &text);
            // Which pods a budget counts that is not seen is not known.
            if let Some(blocked) = tracked.state.blocked()
                && !blocked.is_by_unreadable_budget()
                && let Some((budget, refusal)) = blocked.budget()
                && let Some(budget) = self.machine.budget(budget)
            {
                let from = (&self.cluster, &self.request.process);
                let refusal = refusal.clone().of_any_pod();
                self.blocked.ask(from, (budget, refusal), now);
            }
        }
    }

    pub(super) fn report_unhealthy(&mut self, (budget, pods): Listed) {
        let pods = match pods {
            Ok(pods) => pods,
            Err(error) => return tracing::debug!(%budget, %error, "failed to list its pods"),
        };
        let now = self.now();
        let seen = self.machine.budget(&budget);
        let unhealthy = seen.map_or_else(Vec::new, |seen| seen.unhealthy_pods(&pods.pods, now));
        if unhealthy.is_empty() {
            return;
        }
        let waits = unhealthy.iter().find_map(|pod| {
            let words = pods.pending.get(&pod.name)?;
            Some((&pod.name, words))
        });
        let mut blocks = (self.machine.pods()).filter_map(|pod| pod.state.blocked()?.budget());
        if let Some((pod, words)) = waits
            && let Some((_, refusal)) = blocks.find(|(blocks, _)| **blocks == budget)
        {
            let refusal = refusal.clone().of_any_pod();
            let said = self.blocked.unscheduled.get(&budget);
            // What was said before is not said anew for its time.
            if !said.is_some_and(|(of, said)| *of == refusal && said.ends_with(words)) {
                let said = format!("{pod} was Pending at {now:.0}: {words}");
                self.blocked
                    .unscheduled
                    .insert(budget.clone(), (refusal, said));
            }
        }
        let named = unhealthy.iter().take(MAX_NAMED);
        let named = named.map(|pod| match pods.pending.get(&pod.name) {
            Some(words) => format!("{pod}: {words}"),
            None => pod.to_string(),
        });
        let is_cut = unhealthy.len() > MAX_NAMED;
        let more = if is_cut { "; …" } else { "" };
        let text = format!(
            "budget {budget}: {}: {}{more}",
            count(unhealthy.len(), "unhealthy pod"),
            join(named, "; ")
        );
        if self.blocked.told.get(&budget) != Some(&text) {
            self.reporter.note(&text);
            self.blocked.told.insert(budget, text);
        }
    }

    /// Trouble that passes is reported and waited out; a right that is missing for long does not come back.
    pub(super) fn watch_failed(
        &mut self,
        (what, essential): (&str, bool),
        error: ApiError,
        wait: Duration,
    ) -> anyhow::Result<()> {
        if !essential {
            tracing::debug!(what, %error, "a watch failed");
            return Ok(());
        }
        // One 401 may be the authentication webhook's, many are the credentials'.
        self.unauthorized += u32::from(matches!(error, ApiError::Unauthorized { .. }));
        let is_final = match error {
            ApiError::Forbidden(_) => wait >= LONG_FORBIDDEN,
            ApiError::Untrusted { .. } => true,
            _ => self.unauthorized > MAX_UNAUTHORIZED,
        };
        if is_final {
            return Err(anyhow::Error::from(error).context(format!("failed to watch {what}")));
        }
        self.reporter
            .warn(format_args!("watch of {what} failed, retrying: {error}"));
        Ok(())
    }

    /// Who may not watch nodes drains them all the same.
    pub(super) fn nodes_forbidden(&mut self, why: &ApiError) {
        if !std::mem::replace(&mut self.nodes_forbidden, true) {
            self.reporter.note(format_args!(
                "cannot notice whether somebody uncordons or deletes a node: {why}"
            ));
        }
    }

    /// The right to see budgets was lost under way. The drain goes on as it would have begun without
    /// it: the API server holds each eviction to the budgets as before, and to end here would
    /// leave a node half empty for the sake of a plan. A right that is given back is noticed.
    pub(super) fn budgets_unreadable(&mut self, why: &ApiError) -> anyhow::Result<()> {
        self.decide()?;
        // The watch tries again, and gets the same answer.
        if !self.machine.can_read_budgets() {
            return Ok(());
        }
        if !self.request.settings.method().delete {
            warn_budgets_unreadable(why, self.reporter);
        }
        self.step(DrainEvent::BudgetsUnreadable)
    }
}
