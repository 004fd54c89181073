//! Limits of concurrent work: the number of reviews, and the sum of their bytes.
//!
//! A request over the limit gets 503 with `Retry-After`, and the API server retries it up to ten
//! times within the webhook's timeout (client-go v0.36.1 `rest/with_retry.go`).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest body: an old and a new object of 3 MiB each and an envelope
/// (apiserver `MaxRequestBodyBytes`).
pub(super) const LARGEST_BODY: usize = 7 << 20;
/// Reviews that are read or decided concurrently.
const REVIEWS: usize = 100;
/// Bytes of all bodies in memory.
const BYTES: usize = 32 << 20;
/// Bytes are counted in pieces of this size.
const PIECE: usize = 1024;

#[derive(Debug)]
pub(super) struct Limit {
    reviews: Arc<Semaphore>,
    pieces: Arc<Semaphore>,
}

/// One review's share, released on drop.
#[derive(Debug)]
pub(super) struct Share {
    _review: OwnedSemaphorePermit,
    _pieces: OwnedSemaphorePermit,
}

impl Limit {
    pub(super) fn new() -> Self {
        Self {
            reviews: Arc::new(Semaphore::new(REVIEWS)),
            pieces: Arc::new(Semaphore::new(BYTES / PIECE)),
        }
    }

    /// A share for a body of `bytes`, or `None` if a limit is reached.
    pub(super) fn take(&self, bytes: usize) -> Option<Share> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE)).ok()?;
        let review = Arc::clone(&self.reviews).try_acquire_owned().ok()?;
        let pieces = Arc::clone(&self.pieces)
            .try_acquire_many_owned(pieces)
            .ok()?;
        Some(Share {
            _review: review,
            _pieces: pieces,
        })
    }

    pub(super) fn in_flight(&self) -> usize {
        REVIEWS - self.reviews.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_limited_and_released() {
        let limit = Limit::new();
        let shares: Vec<Share> = std::iter::from_fn(|| limit.take(LARGEST_BODY)).collect();
        assert_eq!(shares.len(), BYTES / LARGEST_BODY);
        assert!(limit.take(1).is_some());
        drop(shares);
        assert_eq!(limit.in_flight(), 0);
        let shares: Vec<Share> = std::iter::from_fn(|| limit.take(10)).collect();
        assert_eq!(shares.len(), REVIEWS);
    }
}
