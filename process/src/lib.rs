//! What nodelife's long-running programs share: the log, signals, listening, connecting to the
//! cluster, and the server of probes and metrics.

mod connect;
mod connections;
mod health;
mod listen;
mod logging;
mod signals;
mod turns;

use std::time::Duration;

pub use connect::connect;
pub use connections::{Connections, Place};
pub use health::{metrics_response, serve_health};
pub use listen::{BoundSocket, bind};
pub use logging::start_logging;
pub use signals::ShutdownSignals;
pub use turns::Turns;

/// Pause after a failed accept, for example without free file descriptors.
pub const EXHAUSTED: Duration = Duration::from_millis(100);
