//! What follows the end of a drain: the end of its object, or the next window of its schedule.

use jiff::{SignedDuration, Timestamp};
use nodelife_cluster::ApiError;
use nodelife_core::node_maintenance::{LastRun, MaintenanceStatus, Unfinished};

use super::super::events::ended;
use super::super::settings::times;
use super::{Next, Worker};

impl Worker {
    /// When what has ended gives its nodes back; none if it keeps them.
    pub(super) fn leaves_at(&self, now: Timestamp) -> Option<Timestamp> {
        let (spec, status) = (&self.object.spec, &self.object.status);
        let ttl = spec.ttl_seconds_after_finished;
        let ttl = ttl.map(|ttl| SignedDuration::from_secs(ttl.into()));
        let ttl = ttl.and_then(|ttl| status.finished_at?.checked_add(ttl).ok());
        if !self.recurs(now) {
            return ttl;
        }
        let keeps = spec.schedule.as_ref()?.unfinished == Unfinished::Keep;
        if keeps && status.exit_status != Some(0) {
            return None;
        }
        let (_, end) = times(&self.object, now).ok()?;
        end.into_iter().chain(ttl).min()
    }

    /// Whether another window follows.
    fn recurs(&self, now: Timestamp) -> bool {
        let spec = &self.object.spec;
        spec.schedule.is_some() && spec.deadline.is_none_or(|deadline| now < deadline)
    }

    /// Deletes the object; or gives its nodes back, and waits for its next window.
    pub(super) async fn leave(&mut self, now: Timestamp) -> anyhow::Result<Next> {
        if !self.recurs(now) {
            return match self.cluster.delete_maintenance(&self.object).await {
                // The watch shows it soon.
                Ok(()) | Err(ApiError::NotFound(_)) => Ok(Next::Idle),
                Err(error) => Err(error.into()),
            };
        }
        if let Some(wait) = self.return_nodes().await? {
            return self.blocked_by(wait).await;
        }
        let (_, end) = times(&self.object, now).map_err(anyhow::Error::msg)?;
        let old = &self.object.status;
        let finished_at = old.finished_at.unwrap_or(now);
        let status = MaintenanceStatus {
            last_run: Some(LastRun {
                started_at: old.started_at,
                finished_at,
                window_end: end.unwrap_or(finished_at),
                exit_status: old.exit_status.unwrap_or_default(),
                message: ended(old).1.into(),
            }),
            // An approval holds for a plan that does no more, and channels know what they were told.
            plan: old.plan.clone(),
            notified: old.notified.clone(),
            ..MaintenanceStatus::default()
        };
        self.write(status).await?;
        (self.given_back, self.retries) = (false, 0);
        self.events.forget();
        self.reservation.release();
        Ok(Next::Now)
    }

    /// Notes the window that a run is for, so that one that passes without it is told.
    pub(super) async fn note_scheduled(&mut self, start: Option<Timestamp>) -> anyhow::Result<()> {
        let start = start.filter(|_| self.object.spec.schedule.is_some());
        let mut status = self.object.status.clone();
        if status.started_at.is_some() || status.scheduled_for == start {
            return Ok(());
        }
        status.scheduled_for = start;
        self.write_news(status).await
    }
}
