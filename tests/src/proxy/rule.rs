//! Fault rules: which requests fail, and how.

use std::time::Duration;

use http::{Method, Request};
use hyper::body::Incoming;

use super::gate::Gate;

/// What happens to a request that a rule matches.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is forwarded after this time.
    Delay(Duration),
    /// It is forwarded when the gate is open.
    Hold(Gate),
    /// It is forwarded, and the body of the answer comes while the gate is open.
    HoldBody(Gate),
    /// It and its answer pass while the gate is open, as over a network that fails and heals.
    Link(Gate),
    /// The connection is closed without an answer; the API server never sees the request.
    Drop,
    /// The API server carries the request out, but the connection is closed without an answer.
    DropAnswer,
    /// This is the answer; the API server never sees the request.
    Answer {
        status: u16,
        /// Further headers, for example `("retry-after", "1")`.
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// The body of the API server's answer breaks off after so many bytes.
    Truncate(usize),
    /// The body of the API server's answer comes at so many bytes a second.
    Throttle(usize),
}

/// Which requests a fault is for, and how many of them.
#[derive(Debug, Clone)]
pub struct FaultRule {
    pub(super) fault: Fault,
    method: Option<Method>,
    path: String,
    query: String,
    skip: usize,
    left: Option<usize>,
    /// How many of a hundred, and the state of the generator that chooses.
    chance: Option<(u64, u64)>,
}

impl FaultRule {
    /// A fault for every request.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            method: None,
            path: String::new(),
            query: String::new(),
            skip: 0,
            left: None,
            chance: None,
        }
    }

    /// Only for this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only where the path contains this text, for example `/eviction`.
    #[must_use]
    pub fn path(mut self, part: &str) -> Self {
        part.clone_into(&mut self.path);
        self
    }

    /// Only where the query contains this text, for example `watch=`.
    #[must_use]
    pub fn query(mut self, part: &str) -> Self {
        part.clone_into(&mut self.query);
        self
    }

    /// Leaves the first `count` matching requests alone.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// Only `count` times.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.left = Some(count);
        self
    }

    /// Only `share` of a hundred, as a generator chooses that begins with `seed`.
    #[must_use]
    pub fn percent(mut self, share: u64, seed: u64) -> Self {
        self.chance = Some((share, seed));
        self
    }

    /// Whether it strikes this request, which counts.
    pub(super) fn strikes(&mut self, request: &Request<Incoming>) -> bool {
        let uri = request.uri();
        let matches = self.left != Some(0)
            && self
                .method
                .as_ref()
                .is_none_or(|method| method == request.method())
            && uri.path().contains(&self.path)
            && uri.query().unwrap_or_default().contains(&self.query);
        if !matches {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some((share, state)) = &mut self.chance
            && next(state) % 100 >= *share
        {
            return false;
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        true
    }
}

/// The generator `SplitMix64`: small, and the same on every machine.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
