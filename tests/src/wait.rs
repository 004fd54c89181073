//! Waits for a condition with a deadline.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::time::Instant;

/// How long a test waits for something that normally takes seconds: generous, since the machine
/// may be slow and busy. A condition that holds is noticed at once, so this costs nothing.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// The first pause between two looks; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Looks again and again until `condition` gives a value, for at most `deadline`.
///
/// The condition answers `Ok(Some(value))` when it holds, `Ok(None)` or an error when it does
/// not hold yet. The last error becomes part of the failure, so a condition should say what it
/// saw: `anyhow::bail!("2 of 3 pods are ready")`.
///
/// ```
/// # async fn example() -> anyhow::Result<()> {
/// use nodelife_tests::wait::{TIMEOUT, wait_until};
/// let answer = wait_until("the answer", TIMEOUT, async || Ok(Some(42))).await?;
/// # Ok(()) }
/// ```
pub async fn wait_until<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    let mut seen = String::from("it did not hold");
    loop {
        // A look that hangs must not outlive the deadline either.
        match tokio::time::timeout_at(end, condition()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => seen = format!("{error:#}"),
            Err(_) => seen = format!("the last look did not come back; before that: {seen}"),
        }
        if Instant::now() + pause >= end {
            return Err(anyhow!(
                "failed to see {what} within {} s; seen last: {seen}",
                deadline.as_secs_f32()
            ));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// As [`wait_until`], in a test: it fails if the condition does not hold within [`TIMEOUT`].
///
/// # Panics
///
/// When the time is over, with what was seen last.
#[expect(clippy::panic, reason = "tests' code, as where it is called")]
pub async fn until<T>(what: &str, condition: impl AsyncFnMut() -> Result<Option<T>>) -> T {
    match wait_until(what, TIMEOUT, condition).await {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn says_what_was_seen_last() {
        let error = wait_until::<()>("three pods", Duration::from_millis(250), async || {
            anyhow::bail!("2 of 3 are there")
        })
        .await
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to see three pods within 0.25 s; seen last: 2 of 3 are there"
        );
    }

    #[tokio::test]
    async fn gives_up_on_a_look_that_hangs() {
        let error = wait_until::<()>("an end", Duration::from_millis(250), async || {
            std::future::pending().await
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains("did not come back"), "{error}");
    }
}
