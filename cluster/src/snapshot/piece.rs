//! Values extracted from a JSON stream, and their syntax errors.

use std::borrow::Cow;
use std::io;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

use crate::json;

pub(super) type Result<T, E = StreamError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error("{0}")]
    Io(io::Error),
    #[error("it ends{}", .0.words())]
    Cut(Place),
    #[error("{reason}{}", .place.words())]
    Wrong { reason: String, place: Place },
}

/// Line and column, from 1; line 0 is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    fn words(self) -> String {
        match self {
            Self { line: 0, .. } => String::new(),
            Self { line, column } => format!(" at line {line} column {column}"),
        }
    }

    /// Goes on behind these bytes.
    pub(super) fn pass(&mut self, bytes: &[u8]) {
        match memchr::memrchr(b'\n', bytes) {
            None => self.column += bytes.len(),
            Some(last) => {
                self.line += memchr::memchr_iter(b'\n', bytes).count();
                self.column = bytes.len() - last - 1;
            }
        }
    }
}

impl StreamError {
    pub(super) fn about(self, kind: &str, object: &Piece<'_>) -> Self {
        let Self::Wrong { reason, place } = self else {
            return self;
        };
        let value: Value = object.read().unwrap_or_default();
        let part = |name: &str| value.pointer(name).and_then(Value::as_str);
        let name = part("/metadata/name").unwrap_or("without a name");
        let namespace = part("/metadata/namespace").map(|namespace| format!("{namespace}/"));
        let reason = format!("{kind} {}{name}: {reason}", namespace.unwrap_or_default());
        Self::Wrong { reason, place }
    }
}

pub(super) struct Piece<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// Of the byte before it.
    pub(super) start: Place,
    /// Of its last byte.
    pub(super) end: Place,
}

impl Piece<'_> {
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        json::read(&self.text).map_err(|error| self.inside(&error))
    }

    /// As Kubernetes' own decoder reads it: null is a member that is not there.
    pub(super) fn read_without_nulls<T: DeserializeOwned>(&self) -> Option<T> {
        fn drop_nulls(value: &mut Value) {
            match value {
                Value::Object(members) => {
                    members.retain(|_, member| !member.is_null());
                    members.values_mut().for_each(drop_nulls);
                }
                Value::Array(items) => items.iter_mut().for_each(drop_nulls),
                _ => (),
            }
        }
        memchr::memmem::find(&self.text, b"null")?;
        let mut value = self.read().ok()?;
        drop_nulls(&mut value);
        json::read(value.to_string().as_bytes()).ok()
    }

    pub(super) fn inside(&self, error: &serde_json::Error) -> StreamError {
        if error.classify() == Category::Eof {
            // `tru`, and then nothing.
            return StreamError::Cut(self.end);
        }
        let text = error.to_string();
        let suffix = format!(" at line {} column {}", error.line(), error.column());
        let reason = text.strip_suffix(&suffix).unwrap_or(&text);
        let before = if error.line() > 1 {
            0
        } else {
            self.start.column
        };
        StreamError::Wrong {
            reason: reason.to_owned(),
            place: Place {
                line: self.start.line + error.line().max(1) - 1,
                column: before + error.column(),
            },
        }
    }

    pub(super) fn keep(&self) -> Kept {
        self.with_text(self.text.to_vec())
    }

    pub(super) fn with_text(&self, text: Vec<u8>) -> Kept {
        Piece {
            text: text.into(),
            start: self.start,
            end: self.end,
        }
    }
}

pub(super) type Kept = Piece<'static>;

impl Kept {
    /// An object of these members. Places in it are those of its first member, and behind.
    pub(super) fn object(members: Vec<(String, Self)>) -> Self {
        let nowhere = Place { line: 1, column: 0 };
        let start = members.first().map_or(nowhere, |(_, first)| first.start);
        let end = members.last().map_or(nowhere, |(_, last)| last.end);
        let mut text = vec![b'{'];
        for (index, (key, value)) in members.into_iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(Value::String(key).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(&value.text);
        }
        text.push(b'}');
        let text = text.into();
        Self { text, start, end }
    }
}
