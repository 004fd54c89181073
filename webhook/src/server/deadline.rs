//! [`DeadlineStream`]: a connection with a deadline for the head of a request, counted from its
//! first byte, and a longer one for an idle connection, which can be told to end.
//!
//! hyper has one timeout for both, so a client that sends a byte per minute could hold a connection
//! for as long as the API server's idle connections need; and it creates a timer per request.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nodelife_process::Turns;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

const TIMED_OUT: io::ErrorKind = io::ErrorKind::TimedOut;

#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// From the first byte of a head to its last one.
    pub(super) head: Duration,
    /// From a response to the first byte of the next head.
    pub(super) idle: Duration,
    /// A client that has not sent a head for so long after it connected keeps the connection for
    /// later.
    pub(super) settled: Duration,
    /// How soon whoever waits for a body is polled again, if nothing arrives.
    pub(super) body: Duration,
}

/// What the server waits for, and since when.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Nothing,
    Head(Instant),
    Rest(Instant),
}

/// A connection that fails after a deadline.
#[derive(Debug)]
pub(super) struct DeadlineStream<S> {
    stream: S,
    deadlines: Deadlines,
    turns: Turns,
    /// The count at the last read.
    turn: usize,
    wait: Wait,
    ended: bool,
    /// Fires at the end of the wait or before: resetting a timer for each request costs more than a
    /// spurious wake-up now and then.
    timer: Pin<Box<Sleep>>,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S, deadlines: Deadlines, turns: Turns) -> Self {
        Self {
            stream,
            deadlines,
            turn: turns.count(),
            turns,
            wait: Wait::Nothing,
            ended: false,
            timer: Box::pin(sleep(deadlines.idle)),
        }
    }

    /// Whether the reader found the end because the connection was told to end.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    /// Has the connection's task polled again within the deadline of a body.
    fn poll_again(&mut self, cx: &mut Context<'_>) {
        let soon = Instant::now() + self.deadlines.body;
        if self.timer.deadline() > soon {
            self.timer.as_mut().reset(soon);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            self.timer.as_mut().reset(soon);
        }
    }

    /// Ready once the deadline of the current wait has passed: with an error, unless the connection
    /// is told to end.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (end, result) = match self.wait {
            Wait::Rest(since) => (since + self.deadlines.head, Err(TIMED_OUT)),
            Wait::Head(since) if self.turns.ends() => (since + self.deadlines.settled, Ok(())),
            Wait::Head(since) => (since + self.deadlines.idle, Err(TIMED_OUT)),
            Wait::Nothing => {
                self.wait = Wait::Head(Instant::now());
                return self.poll_over(cx);
            }
        };
        if self.timer.deadline() > end {
            self.timer.as_mut().reset(end);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if Instant::now() >= end {
                self.ended = result.is_ok();
                return Poll::Ready(result.map_err(io::Error::from));
            }
            self.timer.as_mut().reset(end);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DeadlineStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let turn = this.turns.count();
        if mem::replace(&mut this.turn, turn) != turn {
            this.wait = Wait::Nothing;
        }
        let ours = this.turns.is_handling();
        if ours {
            let read = Pin::new(&mut this.stream).poll_read(cx, buf);
            if read.is_pending() {
                this.poll_again(cx);
            }
            return read;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() > before && !matches!(this.wait, Wait::Rest(_)) {
            this.wait = Wait::Rest(Instant::now());
        }
        if read.is_pending() {
            return this.poll_over(cx);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    /// Longer than the test.
    const NEVER: Duration = Duration::from_hours(1);

    fn connection(
        head: Duration,
        idle: Duration,
    ) -> (DuplexStream, DeadlineStream<DuplexStream>, Turns) {
        let (client, server) = duplex(64);
        let turns = Turns::default();
        let deadlines = Deadlines {
            head,
            idle,
            settled: SOON,
            body: SOON,
        };
        (
            client,
            DeadlineStream::new(server, deadlines, turns.clone()),
            turns,
        )
    }

    async fn ends(server: &mut DeadlineStream<DuplexStream>) -> bool {
        let error = server.read_u8().await.unwrap_err();
        error.kind() == io::ErrorKind::TimedOut
    }

    #[tokio::test]
    async fn an_idle_connection_times_out() {
        let (_client, mut server, _) = connection(NEVER, SOON);
        assert!(ends(&mut server).await);
    }

    /// The timer was set for the longer wait.
    #[tokio::test]
    async fn an_incomplete_head_times_out() {
        let (mut client, mut server, _) = connection(SOON, NEVER);
        client.write_all(b"P").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'P');
        assert!(ends(&mut server).await);
    }

    /// A head and its response in one step, without a read in between.
    #[tokio::test]
    async fn an_answered_head_has_no_deadline() {
        let (mut client, mut server, turns) = connection(NEVER, SOON);
        client.write_all(b"P").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'P');
        turns.pass();
        turns.pass();
        assert!(ends(&mut server).await);
    }

    #[tokio::test]
    async fn only_an_idle_connection_ends_when_told() {
        let (mut client, mut server, turns) = connection(NEVER, NEVER);
        turns.end_when_idle();
        let begun = Instant::now();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        assert!(begun.elapsed() >= SOON);
        client.write_all(b"P").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'P');
        // The head is not complete.
        let rest = tokio::time::timeout(SOON * 2, server.read_u8()).await;
        rest.unwrap_err();
    }

    #[tokio::test]
    async fn whoever_waits_for_a_body_is_polled_again() {
        let (_client, mut server, turns) = connection(NEVER, NEVER);
        turns.pass();
        let mut polls = 0;
        let three = poll_fn(|cx| {
            let mut byte = [0];
            let read = Pin::new(&mut server).poll_read(cx, &mut ReadBuf::new(&mut byte));
            assert!(read.is_pending());
            polls += 1;
            if polls == 3 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        three.await;
    }

    #[tokio::test]
    async fn a_body_has_no_deadline_here() {
        let (mut client, mut server, turns) = connection(SOON, SOON);
        turns.pass();
        let late = async {
            tokio::time::sleep(SOON * 3).await;
            client.write_all(b"{").await
        };
        let (body, written) = tokio::join!(server.read_u8(), late);
        assert!(written.is_ok());
        assert_eq!(body.unwrap(), b'{');
    }
}
