//! Retries on conflict, backoff between retries, and classification of transport errors.

use std::error::Error;
use std::time::Duration;

use crate::client::credentials;
use crate::error::{ApiError, ApiResult};

/// How often a write that conflicts is tried (client-go's `retry.DefaultRetry`, v0.36.3).
const CONFLICT_ATTEMPTS: usize = 5;

/// Runs `attempt`, a read and a write, again while it conflicts (client-go's `retry.RetryOnConflict`).
pub async fn retry_on_conflict<T, F>(mut attempt: impl FnMut() -> F) -> ApiResult<T>
where
    F: Future<Output = ApiResult<T>>,
{
    for _ in 1..CONFLICT_ATTEMPTS {
        match attempt().await {
            Err(ApiError::Conflict(_)) => {}
            done => return done,
        }
    }
    attempt().await
}

/// Waiting times that double up to a limit, each spread over half of itself: clients come back apart.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
    first: Duration,
}

impl Backoff {
    /// 0.2 s, 0.4 s … 5 s.
    pub(crate) fn for_reads() -> Self {
        Self::new(Duration::from_millis(200), Duration::from_secs(5))
    }

    /// 0.5 s … 30 s. client-go's reflector: 0.8 s to 30 s (v0.36.3, `tools/cache/reflector.go`).
    pub(crate) fn for_watches() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_secs(30))
    }

    fn new(first: Duration, longest: Duration) -> Self {
        Self {
            next: first,
            longest,
            first,
        }
    }

    /// The next wait: at least what the server asked for, in seconds.
    pub(crate) fn next(&mut self, asked: Option<u32>) -> Duration {
        let own = spread(self.next);
        self.next = (self.next * 2).min(self.longest);
        own.max(Duration::from_secs(asked.unwrap_or(0).into()))
    }

    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Between one half of `duration` and the whole of it.
pub(crate) fn spread(duration: Duration) -> Duration {
    let half = duration / 2;
    half + half.mul_f64(fastrand::f64())
}

/// A connection that could not be made, was not trusted or broke, or had no credentials.
pub(crate) fn unreachable(server: &str, error: &(dyn Error + 'static)) -> ApiError {
    let mut innermost = String::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<kube::client::AuthError>() {
            return ApiError::Credentials {
                server: server.to_owned(),
                reason: credentials::reason(error, None),
            };
        }
        innermost = error.to_string();
        // rustls 0.23 begins complaints about a certificate like this; an io::Error hides the type.
        if let Some(at) = innermost.find("invalid peer certificate") {
            return ApiError::Untrusted {
                server: server.to_owned(),
                reason: innermost.split_off(at),
            };
        }
        cause = error.source();
    }
    ApiError::Unreachable {
        server: server.to_owned(),
        reason: innermost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_and_respects_retry_after() {
        let mut backoff = Backoff::for_reads();
        for expected in [200, 400, 800, 1600, 3200, 5000, 5000] {
            let wait = backoff.next(None).as_millis();
            assert!((expected / 2..=expected).contains(&wait), "{wait}");
        }
        assert_eq!(backoff.next(Some(10)), Duration::from_secs(10));
        backoff.reset();
        assert!(backoff.next(None) <= Duration::from_millis(200));
    }
}
