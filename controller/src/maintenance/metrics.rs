//! [`MaintenanceMetrics`]: metrics of the maintenances that this replica carries out. Only the leader has
//! any.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodelife_core::metric::Metric;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Served;
use crate::metrics::encode;

/// The objects, from which a scrape reads. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct MaintenanceMetrics(Arc<Mutex<Served>>);

impl MaintenanceMetrics {
    pub(super) fn served(&self) -> MutexGuard<'_, Served> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for MaintenanceMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (mut states, mut blocked, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
        for one in self.served().values() {
            let one = one.borrow();
            let Some(one) = &*one else { continue };
            let name = ("maintenance", one.metadata.name.to_string());
            states.push((vec![name.clone(), ("state", one.state().to_owned())], 1));
            if let Some(at) = one.metadata.deletion_timestamp {
                deleted.push((vec![name], at.as_second()));
            } else if let Some(why) = one.status.blocked()
                && one.status.finished_at.is_none()
            {
                let labels = vec![name, ("reason", why.reason.to_string())];
                blocked.push((labels, why.last_transition_time.as_second()));
            }
        }
        let metrics = [
            Metric {
                name: "maintenances",
                help: "The NodeMaintenances and their state",
                series: states,
            },
            Metric {
                name: "maintenance_blocked_since_timestamp_seconds",
                help: "Since when a NodeMaintenance is blocked, and the reason",
                series: blocked,
            },
            Metric {
                name: "maintenance_deleted_timestamp_seconds",
                help: "When a NodeMaintenance was deleted that still gives back nodes",
                series: deleted,
            },
        ];
        encode(&metrics, &mut encoder)
    }
}
