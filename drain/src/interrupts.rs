//! `Interrupts`: how a drain learns that it is to stop.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;

/// Requests to stop. The first has a drain send nothing more and wait for the answers to what it has
/// sent, the second ends that wait, a third the uncordons of the end.
pub trait Interrupts: Send {
    /// Waits for the next. May be cancelled without losing one.
    fn next(&mut self) -> BoxFuture<'_, ()>;
}

/// Each message is a request; without a sender there are none.
impl Interrupts for UnboundedReceiver<()> {
    fn next(&mut self) -> BoxFuture<'_, ()> {
        async {
            if self.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
