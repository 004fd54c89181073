//! Limits of concurrent work: the number of reviews, and the sum of the bytes of their bodies.
//!
//! Bytes count as they arrive, since anybody can promise a body and not send it. One address may
//! use half of each limit. A request over a limit gets 503 with `Retry-After`, and the API server
//! retries it up to ten times within the webhook's timeout (client-go v0.36.1
//! `rest/with_retry.go`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The largest body: two objects of 3 MiB and an envelope (apiserver `MaxRequestBodyBytes`).
pub(super) const LARGEST_BODY: usize = 7 << 20;
/// The largest body that is read. Go writes `<` with six bytes, so a node can make a review larger than
/// [`LARGEST_BODY`]; the bytes beyond that are dropped.
pub(super) const LARGEST_SENT: usize = 48 << 20;
/// Requests that one API server has in flight by default (`--max-requests-inflight` and
/// `--max-mutating-requests-inflight`): each may wait for a review.
const OF_API_SERVER: usize = 400 + 200;
/// Reviews that are decided concurrently: two API servers, each with its half.
const REVIEWS: usize = 2 * OF_API_SERVER;
/// Bytes of all bodies in memory.
const BYTES: usize = 24 << 20;

#[derive(Debug, Default)]
pub(super) struct Limit(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    all: Amount,
    peers: HashMap<IpAddr, Amount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    reviews: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Share {
    limit: Limit,
    peer: IpAddr,
    own: Amount,
}

impl Limit {
    pub(super) fn share(&self, peer: IpAddr) -> Share {
        let limit = Self(Arc::clone(&self.0));
        let own = Amount::default();
        Share { limit, peer, own }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.used().all.reviews
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Amount {
    fn plus(self, more: Self) -> Self {
        Self {
            reviews: self.reviews.saturating_add(more.reviews),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            reviews: self.reviews.saturating_sub(less.reviews),
            bytes: self.bytes.saturating_sub(less.bytes),
        }
    }

    fn is_within(self, part: usize) -> bool {
        self.reviews <= REVIEWS / part && self.bytes <= BYTES / part
    }
}

impl Share {
    /// Takes `bytes` more, unless a limit is reached.
    #[must_use]
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        self.take(Amount { reviews: 0, bytes })
    }

    /// Begins the review of a body that has arrived, unless a limit is reached.
    #[must_use]
    pub(super) fn begin(&mut self) -> bool {
        self.take(Amount {
            reviews: 1,
            bytes: 0,
        })
    }

    fn take(&mut self, more: Amount) -> bool {
        let mut used = self.limit.used();
        let all = used.all.plus(more);
        let peer = used.peers.entry(self.peer).or_default();
        let of_peer = peer.plus(more);
        if !all.is_within(1) || !of_peer.is_within(2) {
            return false;
        }
        *peer = of_peer;
        used.all = all;
        self.own = self.own.plus(more);
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.limit.used();
        used.all = used.all.minus(self.own);
        if let Some(peer) = used.peers.get_mut(&self.peer) {
            *peer = peer.minus(self.own);
            if peer.reviews == 0 && peer.bytes == 0 {
                used.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const API_SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn one_address_gets_half_and_releases_it() {
        let limit = Limit::default();
        let full = |peer| {
            let shares = std::iter::from_fn(|| {
                let mut share = limit.share(peer);
                share.grow(LARGEST_BODY).then_some(share)
            });
            shares.collect::<Vec<_>>()
        };
        let others = full(OTHER);
        assert_eq!(others.len(), BYTES / 2 / LARGEST_BODY);
        assert_eq!(full(API_SERVER).len(), BYTES / 2 / LARGEST_BODY);
        drop(others);
        assert!(limit.used().peers.is_empty());
        let begun = std::iter::from_fn(|| {
            let mut share = limit.share(OTHER);
            share.begin().then_some(share)
        });
        assert_eq!(begun.collect::<Vec<_>>().len(), REVIEWS / 2);
        assert_eq!(limit.in_flight(), 0);
    }
}
