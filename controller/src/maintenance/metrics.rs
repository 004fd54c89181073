//! [`MaintenanceMetrics`]: metrics of the maintenances that this replica carries out. Only the leader has
//! any.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodelife_core::metric::{Labels, Metric};
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
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut states: BTreeMap<String, i64> = BTreeMap::new();
        let mut blocked: BTreeMap<String, i64> = BTreeMap::new();
        let mut deleted: Option<i64> = None;
        for one in self.served().values() {
            let one = one.borrow();
            let Some(one) = &*one else { continue };
            *states.entry(one.state().to_owned()).or_default() += 1;
            if let Some(at) = one.metadata.deletion_timestamp {
                let at = at.as_second();
                deleted = Some(deleted.map_or(at, |first| first.min(at)));
            } else if let Some(why) = one.status.blocked()
                && one.status.finished_at.is_none()
            {
                let since = why.last_transition_time.as_second();
                let first = blocked.entry(why.reason.to_string()).or_insert(since);
                *first = since.min(*first);
            }
        }
        let by = |label: &'static str, series: BTreeMap<String, i64>| {
            let series = series.into_iter();
            series
                .map(|(value, number)| (vec![(label, value)], number))
                .collect()
        };
        let metrics = [
            Metric {
                name: "maintenances",
                help: "NodeMaintenances by their state",
                series: by("state", states),
            },
            Metric {
                name: "maintenance_blocked_since_timestamp_seconds",
                help: "Since when the first of the NodeMaintenances is blocked that are, by the reason",
                series: by("reason", blocked),
            },
            Metric {
                name: "maintenance_deleted_timestamp_seconds",
                help: "When the first of the NodeMaintenances was deleted that still give back nodes",
                series: deleted.map(|at| (Labels::new(), at)).into_iter().collect(),
            },
        ];
        encode(&metrics, &mut encoder)
    }
}
