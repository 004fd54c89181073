//! A deadline for the head of a request, from its first byte on.
//!
//! hyper's own header timeout also runs while a kept-alive connection is idle, where the
//! API server's 90 s have to be outlived; a client that sends one byte a minute must not
//! have as long.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Whether a request is being answered on a connection: its body has a deadline of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(super) fn set(&self, busy: bool) {
        self.0.store(busy, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection that fails when a head takes longer than `limit`.
#[derive(Debug)]
pub(super) struct Impatient<S> {
    stream: S,
    limit: Duration,
    busy: Busy,
    /// The end of the head that has begun.
    end: Option<Instant>,
    /// Set only for a head that comes in pieces.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, limit: Duration, busy: Busy) -> Self {
        Self {
            stream,
            limit,
            busy,
            end: None,
            timer: None,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.busy.is_set() {
            this.end = None;
            this.timer = None;
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        if buf.filled().len() > before && this.end.is_none() {
            this.end = Some(Instant::now() + this.limit);
        }
        if read.is_pending()
            && let Some(end) = this.end
        {
            let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
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
