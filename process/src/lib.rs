//! Shared by nodelife's long-running programs: the log, signals, listening, connecting to the cluster,
//! and the server of probes and metrics.

mod connect;
mod connection_state;
mod connections;
mod health;
mod listen;
mod logging;
mod signals;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

pub use connect::connect;
pub use connection_state::ConnectionState;
pub use connections::{ConnectionSlot, Connections};
pub use health::{metrics_response, serve_health};
pub use listen::{BoundSocket, bind};
pub use logging::start_logging;
pub use signals::ShutdownSignals;

/// Pause after a failed accept, for example without free file descriptors.
pub const EXHAUSTED: Duration = Duration::from_millis(100);

/// What a program exits with. An error is told on stderr.
pub fn exit_code(ended: anyhow::Result<ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|error| {
        // Nothing can be reported if stderr is closed.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}
