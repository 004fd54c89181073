//! A standard stream, written at once or by a thread of its own.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use anstream::AutoStream;
use anstream::stream::{AsLockedWrite, RawStream};
use tokio::sync::oneshot;

/// How many bytes may wait for a reader; more are dropped.
const MAX_WAITING: usize = 64 << 20;

/// Colours are taken out on the way if they are not wanted.
pub(super) enum Stream<S: RawStream> {
    Direct(AutoStream<S>),
    Detached(Detached),
    /// Its reader has gone (`| head`), or it was closed: what is written is dropped.
    Closed,
}

/// A stream that a thread of its own writes: nobody waits for a slow reader, or for a terminal that is held.
pub(super) struct Detached {
    chunks: mpsc::Sender<Chunk>,
    waiting: Arc<AtomicUsize>,
    room: usize,
    dropped: bool,
    ended: oneshot::Receiver<io::Result<()>>,
}

enum Chunk {
    Styled(Vec<u8>),
    Raw(Vec<u8>),
}

impl<S> Stream<S>
where
    S: RawStream + AsLockedWrite + Send + 'static,
{
    pub(super) fn detach(&mut self) {
        self.detach_with_room(MAX_WAITING);
    }

    fn detach_with_room(&mut self, room: usize) {
        let Self::Direct(mut stream) = std::mem::replace(self, Self::Closed) else {
            return;
        };
        let (chunks, received) = mpsc::channel::<Chunk>();
        let (sender, ended) = oneshot::channel();
        let waiting = Arc::<AtomicUsize>::default();
        let written = Arc::clone(&waiting);
        std::thread::spawn(move || {
            let mut result = Ok(());
            for chunk in received {
                let length = chunk.bytes().len();
                if result.is_ok() {
                    // What follows a failure is lost.
                    result = chunk.write(&mut stream);
                }
                written.fetch_sub(length, Ordering::Relaxed);
            }
            // Nobody may wait for it.
            let _ = sender.send(result);
        });
        *self = Self::Detached(Detached {
            chunks,
            waiting,
            room,
            dropped: false,
            ended,
        });
    }

    /// Waits until all is written. Nothing can be written afterwards.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        let Self::Detached(detached) = std::mem::replace(self, Self::Closed) else {
            return Ok(());
        };
        let Detached {
            chunks,
            dropped,
            ended,
            ..
        } = detached;
        drop(chunks);
        ended.await.unwrap_or(Ok(()))?;
        if dropped {
            return Err(io::Error::other("its reader was too slow"));
        }
        Ok(())
    }
}

impl Stream<io::Stderr> {
    /// Writes past the stream that takes colours out: with `NO_COLOR` the cursor moves all the same.
    pub(super) fn write_raw(&mut self, text: String) -> io::Result<()> {
        match self {
            Self::Direct(_) => Chunk::write_to_stderr(text.as_bytes()),
            Self::Detached(detached) => {
                detached.send(Chunk::Raw(text.into_bytes()));
                Ok(())
            }
            Self::Closed => Ok(()),
        }
    }
}

impl Detached {
    fn send(&mut self, chunk: Chunk) {
        let length = chunk.bytes().len();
        if self.waiting.load(Ordering::Relaxed).saturating_add(length) > self.room {
            self.dropped = true;
            return;
        }
        self.waiting.fetch_add(length, Ordering::Relaxed);
        // The thread takes chunks as long as this end is there.
        let _ = self.chunks.send(chunk);
    }
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Styled(bytes) | Self::Raw(bytes) => bytes,
        }
    }

    fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Styled(bytes) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
            Self::Raw(bytes) => Self::write_to_stderr(bytes),
        }
    }

    fn write_to_stderr(bytes: &[u8]) -> io::Result<()> {
        let mut raw = io::stderr().lock();
        raw.write_all(bytes)?;
        raw.flush()
    }
}

impl<S: RawStream + AsLockedWrite> Write for Stream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(stream) => {
                let result = stream.write(bytes);
                return self.unless_closed(result, bytes.len());
            }
            Self::Detached(detached) => detached.send(Chunk::Styled(bytes.to_vec())),
            Self::Closed => {}
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Direct(stream) => {
                let result = stream.flush();
                self.unless_closed(result, ())
            }
            Self::Detached(_) | Self::Closed => Ok(()),
        }
    }
}

impl<S: RawStream> Stream<S> {
    pub(super) fn is_behind(&self) -> bool {
        match self {
            Self::Detached(detached) => detached.waiting.load(Ordering::Relaxed) > 0,
            Self::Direct(_) | Self::Closed => false,
        }
    }

    /// A reader that goes away has what it wanted: that is no error, and ends no command.
    fn unless_closed<T>(&mut self, result: io::Result<T>, done: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                *self = Self::Closed;
                Ok(done)
            }
            Err(error) => {
                let text = format!("failed to write the output: {error}");
                Err(io::Error::new(error.kind(), text))
            }
            result => result,
        }
    }
}

#[cfg(test)]
mod tests;
