//! Cuts the body of a watch into its events, which are lines of JSON.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use crate::client::Cluster;
use crate::error::ApiResult;
use crate::request::Call;
use crate::retry::unreachable;

/// The longest event that we are ready to hold, in bytes.
const MAX_EVENT_SIZE: usize = 16 << 20;

pub(crate) struct Frames {
    body: Body,
    buffer: BytesMut,
    /// Bytes at the start of the buffer that hold no end of line.
    searched: usize,
}

impl Frames {
    pub(crate) fn new(body: Body) -> Self {
        Self {
            body,
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
    ) -> ApiResult<Option<Bytes>> {
        loop {
            if let Some(event) = self.cut() {
                return Ok(Some(event));
            }
            if self.is_too_large() {
                return Err(call.too_large(MAX_EVENT_SIZE));
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

    /// The next event of what is here; none if the rest of it is still to come.
    fn cut(&mut self) -> Option<Bytes> {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = fresh.iter().position(|&byte| byte == b'\n') else {
                self.searched = self.buffer.len();
                // It would keep the room of the first, large answer, and most watches are quiet later.
                if self.searched == 0 {
                    self.buffer = BytesMut::new();
                }
                return None;
            };
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    fn is_too_large(&self) -> bool {
        self.searched > MAX_EVENT_SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_their_ends_and_empty_ones_left_out() {
        let mut frames = Frames::new(Body::empty());
        let mut events = Vec::new();
        for byte in b"{\"a\":1}\n\n \n{}\n{\"cut" {
            frames.buffer.extend_from_slice(&[*byte]);
            while let Some(event) = frames.cut() {
                events.push(event);
            }
        }
        assert_eq!(events, [&b"{\"a\":1}\n"[..], b"{}\n"]);
    }

    #[test]
    fn a_quiet_watch_holds_no_room() {
        let mut frames = Frames::new(Body::empty());
        frames.buffer.resize(100_000, b'x');
        frames.buffer.extend_from_slice(b"\n");
        assert!(frames.cut().is_some());
        assert!(frames.cut().is_none() && !frames.is_too_large());
        assert_eq!(frames.buffer.capacity(), 0);
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_is_here() {
        let mut frames = Frames::new(Body::empty());
        frames.buffer.resize(MAX_EVENT_SIZE + 1, b' ');
        assert!(frames.cut().is_none() && frames.is_too_large());
    }
}
