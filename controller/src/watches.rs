//! [`Watches`]: what probes and metrics are told of the watches of this replica. Only the leader has any.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nodelife_cluster::WatchStates;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Every step of a watch has a shorter deadline: one that does nothing for so long will never do
/// anything again, or what it has seen waits for a part that hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// The watches, once there is a connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<OnceLock<WatchStates>>);

impl Watches {
    /// From now on these are told of.
    pub fn follow(&self, states: &WatchStates) {
        let _ = self.0.set(states.clone());
    }

    /// The kind of a watch that stands still.
    pub(crate) fn stuck(&self) -> Option<&'static str> {
        self.0.get()?.stuck_for(LIMIT)
    }
}

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(states) = self.0.get() else {
            return Ok(());
        };
        let seconds = |silence: Duration| i64::try_from(silence.as_secs()).unwrap_or(i64::MAX);
        let silence = states.silence().into_iter();
        let silence = silence.map(|(kind, silence)| (kind, seconds(silence)));
        let unreadable = states.unreadable().into_iter();
        let unreadable =
            unreadable.map(|(kind, count)| (kind, i64::try_from(count).unwrap_or(i64::MAX)));
        for (name, help, values) in [
            (
                "controller_watch_silence_seconds",
                "For how long the API server has sent nothing to the watches of a kind",
                silence.collect::<Vec<_>>(),
            ),
            (
                "controller_unreadable_objects",
                "Objects that cannot be read and are passed by",
                unreadable.collect(),
            ),
        ] {
            let family = Family::<[(&str, &str); 1], Gauge>::default();
            for (kind, value) in values {
                family.get_or_create(&[("kind", kind)]).set(value);
            }
            family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)?;
        }
        Ok(())
    }
}
