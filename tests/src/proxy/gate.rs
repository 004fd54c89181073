//! `Gate`: what holds back requests and answers until a test lets them pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// A gate that a test opens and closes; clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    is_open: watch::Sender<bool>,
    reached: Arc<AtomicBool>,
}

impl Gate {
    /// A gate that lets all pass for now.
    pub fn opened() -> Self {
        Self::new(true)
    }

    /// A gate that holds all for now.
    pub fn closed() -> Self {
        Self::new(false)
    }

    fn new(is_open: bool) -> Self {
        Self {
            is_open: watch::Sender::new(is_open),
            reached: Arc::default(),
        }
    }

    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    pub fn close(&self) {
        self.is_open.send_replace(false);
    }

    /// Whether something has come to it.
    pub fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    pub(super) async fn pass(&self) {
        self.reached.store(true, Ordering::Relaxed);
        // The gate itself keeps its sender.
        let _ = self.is_open.subscribe().wait_for(|open| *open).await;
    }
}
