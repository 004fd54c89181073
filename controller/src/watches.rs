//! [`Watches`]: what probes and metrics are told of the watches of this replica. Only the leader has any.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nodelife_cluster::WatchStates;
use nodelife_core::metric::Metric;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::encode;

/// Every step of a watch has a shorter deadline: one that does nothing for so long will never do
/// anything again, or what it has seen waits for a part that hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// The watches, once there is a connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Watches(Arc<OnceLock<WatchStates>>);

impl Watches {
    pub fn follow(&self, states: &WatchStates) {
        let _ = self.0.set(states.clone());
    }

    pub(crate) fn stuck(&self) -> Option<&'static str> {
        self.0.get()?.stuck_for(LIMIT)
    }
}

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(states) = self.0.get() else {
            return Ok(());
        };
        let of = |kind: &str| vec![("kind", kind.to_owned())];
        let silence = states.silence().into_iter();
        let silence = silence.map(|(kind, silence)| (of(kind), number(silence.as_secs())));
        let unreadable = states.unreadable().into_iter();
        let unreadable = unreadable.map(|(kind, count)| (of(kind), number(count)));
        let metrics = [
            Metric {
                name: "controller_watch_silence_seconds",
                help: "For how long the API server has sent nothing to the watches of a kind",
                series: silence.collect(),
            },
            Metric {
                name: "controller_unreadable_objects",
                help: "Objects that cannot be read and are passed by",
                series: unreadable.collect(),
            },
        ];
        encode(&metrics, &mut encoder)
    }
}

fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}
