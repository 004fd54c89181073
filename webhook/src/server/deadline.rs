//! Read deadlines of a connection: for the head of a request from its first byte, and a longer one
//! for an idle connection.
//!
//! hyper has one timeout for both, which leaves a client that sends one byte a minute as long as
//! the API server's idle connections need; and it makes a timer for each request.

use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Whose turn it is on a connection: while a request is being answered, its body has a deadline
/// of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

impl Turns {
    /// A head has come to its end, or its answer.
    pub(super) fn pass(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// From the first byte of a head to its last one.
    pub(super) head: Duration,
    /// From an answer to the first byte of the next head.
    pub(super) idle: Duration,
}

/// What a connection is waited for, and until when.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Nothing,
    Head(Instant),
    Rest(Instant),
}

/// A connection that fails when it takes too long.
#[derive(Debug)]
pub(super) struct DeadlineStream<S> {
    stream: S,
    deadlines: Deadlines,
    turns: Turns,
    /// How many there were when it was read last.
    turn: usize,
    wait: Wait,
    /// Rings at the end of the wait, or before it: a timer that is moved for each request costs
    /// more than one that now and then rings for nothing.
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
            timer: Box::pin(sleep(deadlines.idle)),
        }
    }

    /// Whether the wait, for which nothing came, is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if matches!(self.wait, Wait::Nothing) {
            self.wait = Wait::Head(Instant::now() + self.deadlines.idle);
        }
        let (Wait::Head(end) | Wait::Rest(end)) = self.wait else {
            return Poll::Pending;
        };
        if self.timer.deadline() > end {
            self.timer.as_mut().reset(end);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if Instant::now() >= end {
                return Poll::Ready(());
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
        let ours = turn % 2 == 1;
        if ours {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() > before && !matches!(this.wait, Wait::Rest(_)) {
            this.wait = Wait::Rest(Instant::now() + this.deadlines.head);
        }
        if read.is_pending() {
            ready!(this.poll_over(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
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
        let deadlines = Deadlines { head, idle };
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
    async fn a_connection_on_which_nothing_comes_ends() {
        let (_client, mut server, _) = connection(NEVER, SOON);
        assert!(ends(&mut server).await);
    }

    /// Its timer was set for the longer wait.
    #[tokio::test]
    async fn a_head_that_does_not_come_to_its_end_ends_the_connection() {
        let (mut client, mut server, _) = connection(SOON, NEVER);
        client.write_all(b"P").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'P');
        assert!(ends(&mut server).await);
    }

    /// A head and its answer were one step: nothing was read between them.
    #[tokio::test]
    async fn a_head_that_was_answered_is_waited_for_no_more() {
        let (mut client, mut server, turns) = connection(NEVER, SOON);
        client.write_all(b"P").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'P');
        turns.pass();
        turns.pass();
        assert!(ends(&mut server).await);
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
