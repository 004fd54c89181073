//! Cuts the body of a watch into its events: lines of JSON, or protobuf with its length in front.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::request::Call;
use crate::retry::unreachable;
use crate::wire::Encoding;

/// The longest event that we are ready to hold, in bytes.
const MAX_EVENT_SIZE: usize = 16 << 20;

/// Bytes of a length: four, the highest first (k8s.io/apimachinery v0.36.3,
/// `pkg/util/framer/framer.go`).
const LENGTH: usize = size_of::<u32>();

pub(crate) struct Frames {
    body: Body,
    encoding: Encoding,
    buffer: BytesMut,
    /// Bytes at the start of the buffer that hold no end of line.
    searched: usize,
}

impl Frames {
    pub(crate) fn new(encoding: Encoding, body: Body) -> Self {
        Self {
            body,
            encoding,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next whole event; `None` at the regular end. What is left of an event that was
    /// cut off is dropped: the next stream brings it again.
    pub(crate) async fn next(
        &mut self,
        cluster: &Cluster,
        call: &Call,
    ) -> Result<Option<Bytes>, ApiError> {
        loop {
            match self.cut() {
                Cut::Event(event) => return Ok(Some(event)),
                Cut::TooLarge => return Err(call.too_large(MAX_EVENT_SIZE)),
                Cut::Incomplete => {}
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(unreachable(&cluster.server, &error)),
            }
        }
    }

    /// The next event of what is here.
    fn cut(&mut self) -> Cut {
        match self.encoding {
            Encoding::Json => self.line(),
            Encoding::Protobuf => self.with_length(),
        }
    }

    fn line(&mut self) -> Cut {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = fresh.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.buffer.len();
                return Cut::incomplete(self.searched);
            };
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Cut::Event(line);
            }
        }
    }

    fn with_length(&mut self) -> Cut {
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else {
            return Cut::Incomplete;
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if self.buffer.len() - LENGTH < length {
            return Cut::incomplete(length);
        }
        self.buffer.advance(LENGTH);
        Cut::Event(self.buffer.split_to(length).freeze())
    }
}

enum Cut {
    Event(Bytes),
    /// The rest is still to come.
    Incomplete,
    TooLarge,
}

impl Cut {
    /// An event of at least so many bytes.
    fn incomplete(length: usize) -> Self {
        if length > MAX_EVENT_SIZE {
            Self::TooLarge
        } else {
            Self::Incomplete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events that are cut while these bytes come one by one.
    fn cut(encoding: Encoding, bytes: &[u8]) -> Vec<Bytes> {
        let mut frames = Frames::new(encoding, Body::empty());
        let mut events = Vec::new();
        for byte in bytes {
            frames.buffer.extend_from_slice(&[*byte]);
            while let Cut::Event(event) = frames.cut() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn lines_are_cut_at_their_ends_and_empty_ones_left_out() {
        let events = cut(Encoding::Json, b"{\"a\":1}\n\n \n{}\n{\"cut");
        assert_eq!(events, [&b"{\"a\":1}\n"[..], b"{}\n"]);
    }

    #[test]
    fn protobuf_is_cut_by_its_lengths() {
        let events = cut(
            Encoding::Protobuf,
            b"\0\0\0\x03a\nb\0\0\0\0\0\0\0\x01c\0\0\0\x09cut",
        );
        assert_eq!(events, [&b"a\nb"[..], b"", b"c"]);
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_here() {
        let mut frames = Frames::new(Encoding::Protobuf, Body::empty());
        frames.buffer.extend_from_slice(&[0xff; LENGTH]);
        assert!(matches!(frames.cut(), Cut::TooLarge));
        let mut frames = Frames::new(Encoding::Json, Body::empty());
        frames.buffer.resize(MAX_EVENT_SIZE + 1, b' ');
        assert!(matches!(frames.cut(), Cut::TooLarge));
    }
}
