//! [`DeadlineStream`]: a connection with a deadline for the head of a request, counted from its
//! first byte, and a longer one for an idle connection, which may have to close earlier.
//!
//! hyper has one timeout for both, so a client that sends a byte per minute could hold a connection
//! for as long as the API server's idle connections need; and it creates a timer per request.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, mem};

use nodelife_process::ConnectionState;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

const TIMED_OUT: io::ErrorKind = io::ErrorKind::TimedOut;

#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// From the first byte of a head to its last one.
    pub(super) head: Duration,
    /// From a response to the first byte of the next head.
    pub(super) idle: Duration,
    /// A client that has sent no head for so long after it connected keeps the connection for later.
    pub(super) settled: Duration,
    /// How soon the task that waits for a body is polled again, if nothing arrives.
    pub(super) body: Duration,
}

/// The part of a request that the server waits for, and since when.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Nothing,
    Head(Instant),
    Rest(Instant),
}

#[derive(Debug)]
pub(super) struct DeadlineStream<S> {
    stream: S,
    deadlines: Deadlines,
    state: ConnectionState,
    changes: usize,
    wait: Wait,
    closed_idle: bool,
    /// Fires at the end of the wait or before: a spurious wake-up is cheaper than a reset for each request.
    timer: Pin<Box<Sleep>>,
}

impl<S> DeadlineStream<S> {
    pub(super) fn new(stream: S, deadlines: Deadlines, state: ConnectionState) -> Self {
        Self {
            stream,
            deadlines,
            changes: state.changes(),
            state,
            wait: Wait::Nothing,
            closed_idle: false,
            timer: Box::pin(sleep(deadlines.idle)),
        }
    }

    pub(super) fn was_closed_idle(&self) -> bool {
        self.closed_idle
    }

    pub(super) fn into_inner(self) -> S {
        self.stream
    }

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
    /// has to close when it is idle.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (end, result) = match self.wait {
            Wait::Rest(since) => (since + self.deadlines.head, Err(TIMED_OUT)),
            Wait::Head(since) if self.state.closes_when_idle() => {
                (since + self.deadlines.settled, Ok(()))
            }
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
                self.closed_idle = result.is_ok();
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
        let changes = this.state.changes();
        if mem::replace(&mut this.changes, changes) != changes {
            this.wait = Wait::Nothing;
        }
        if this.state.is_handling() {
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
    ) -> (DuplexStream, DeadlineStream<DuplexStream>, ConnectionState) {
        let (client, server) = duplex(64);
        let state = ConnectionState::default();
        let deadlines = Deadlines {
            head,
            idle,
            settled: SOON,
            body: SOON,
        };
        (
            client,
            DeadlineStream::new(server, deadlines, state.clone()),
            state,
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
        let (mut client, mut server, state) = connection(NEVER, SOON);
        client.write_all(b"P").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'P');
        state.begin_request();
        state.end_request();
        assert!(ends(&mut server).await);
    }

    #[tokio::test]
    async fn only_an_idle_connection_closes_early() {
        let (mut client, mut server, state) = connection(NEVER, NEVER);
        state.close_when_idle();
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
    async fn a_task_that_waits_for_a_body_is_polled_again() {
        let (_client, mut server, state) = connection(NEVER, NEVER);
        state.begin_request();
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
        let (mut client, mut server, state) = connection(SOON, SOON);
        state.begin_request();
        let late = async {
            tokio::time::sleep(SOON * 3).await;
            client.write_all(b"{").await
        };
        let (body, written) = tokio::join!(server.read_u8(), late);
        assert!(written.is_ok());
        assert_eq!(body.unwrap(), b'{');
    }
}
