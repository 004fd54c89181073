//! A thread for the audit, which takes in what the watches bring some times a second.
//!
//! A large cluster changes some hundred times a second. A thread that is woken for each change
//! spends more time on being woken than on the changes; one that rests before it waits takes in
//! all that has come meanwhile at once. Connections belong to the runtime that opened them, so the
//! audit has one of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime;
use tokio::task::spawn_blocking;

/// How long the thread rests. The API server ends a watch whose buffers are full, but it has room
/// for more than comes in this time.
const REST: Duration = Duration::from_millis(100);

/// Whether the thread rests before it waits.
#[derive(Clone, Default)]
pub(super) struct Rests(Arc<AtomicBool>);

impl Rests {
    /// From now on. Before, while lists come page after page, a rest would only delay the next one.
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a job on a thread of its own. It must end by itself, also when nobody waits any more.
pub(super) async fn on_own_thread<F: Future>(
    job: impl FnOnce(Rests) -> F + Send + 'static,
) -> anyhow::Result<F::Output>
where
    F::Output: Send + 'static,
{
    let rests = Rests::default();
    #[expect(
        clippy::disallowed_methods,
        reason = "the thread is to rest, whatever happens meanwhile"
    )]
    let before_waiting = {
        let rests = rests.clone();
        move || {
            if rests.0.load(Ordering::Relaxed) {
                sleep(REST);
            }
        }
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(before_waiting)
        .build()
        .context("failed to start the runtime of the audit")?;
    let running = spawn_blocking(move || runtime.block_on(job(rests)));
    running.await.context("the thread of the audit failed")
}
