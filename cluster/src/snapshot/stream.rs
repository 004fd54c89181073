//! JSON documents as a stream, read piece by piece.
//!
//! `serde_json` reads a stream byte by byte, and a slice several times as fast. So each member of
//! a document, and each element of a list in it, is cut out of the stream first, by counting
//! brackets, and then read as a slice. No more is held than the largest of them.

use std::fmt;
use std::io::{self, BufRead};

use memchr::memchr2;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::transient::Transient;

/// Why a stream is no JSON document, and where.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The system.
    Io(io::Error),
    /// It ends in the middle of a value.
    Cut(Place),
    /// Not JSON, or not what it has to be.
    Wrong { reason: String, place: Place },
}

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Cut(Place { line, column }) => {
                write!(f, "it ends at line {line} column {column}")
            }
            Self::Wrong { reason, place } if place.line == 0 => f.write_str(reason),
            Self::Wrong { reason, place } => {
                write!(f, "{reason} at line {} column {}", place.line, place.column)
            }
        }
    }
}

impl std::error::Error for StreamError {}

impl serde::de::Error for StreamError {
    /// The place is put in by the one who knows it ([`Stream::located`]).
    fn custom<T: fmt::Display>(reason: T) -> Self {
        let place = Place { line: 0, column: 0 };
        let reason = reason.to_string();
        Self::Wrong { reason, place }
    }
}

/// The documents of a stream.
pub(super) struct Stream<R> {
    input: R,
    /// Of the byte that was read last.
    place: Place,
    /// The piece that is being read.
    piece: Vec<u8>,
}

impl<R: BufRead> Stream<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            place: Place { line: 1, column: 0 },
            piece: Vec::new(),
        }
    }

    /// The next document; none at the end of the stream.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; nothing behind it can be read.
    pub(super) fn document<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StreamError> {
        if self.peek()?.is_none() {
            return Ok(None);
        }
        let read = T::deserialize(Document(self));
        read.map(Some).map_err(|error| self.located(error))
    }

    /// Gives an error that has no place yet the present one.
    fn located(&self, error: StreamError) -> StreamError {
        match error {
            StreamError::Wrong { reason, place } if place.line == 0 => StreamError::Wrong {
                reason,
                place: self.place,
            },
            other => other,
        }
    }

    fn wrong(&self, reason: &str) -> StreamError {
        StreamError::Wrong {
            reason: reason.to_owned(),
            place: Place {
                line: self.place.line,
                column: self.place.column + 1,
            },
        }
    }

    /// The next byte that is no space, left where it is.
    fn peek(&mut self) -> Result<Option<u8>, StreamError> {
        loop {
            let buffer = self.input.fill_buf().map_err(StreamError::Io)?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let spaces = buffer.iter().take_while(|b| is_space(**b)).count();
            let next = buffer.get(spaces).copied();
            let passed = buffer.get(..spaces).unwrap_or_default();
            self.place.pass(passed);
            self.input.consume(spaces);
            if next.is_some() {
                return Ok(next);
            }
        }
    }

    /// As [`Stream::peek`], in the middle of a document.
    fn expect(&mut self) -> Result<u8, StreamError> {
        self.peek()?.ok_or(StreamError::Cut(self.place))
    }

    /// Passes the byte that was looked at.
    fn step(&mut self) {
        self.input.consume(1);
        self.place.column += 1;
    }

    /// Reads the next value, whatever it is, as a slice.
    fn value<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, StreamError> {
        self.expect()?;
        let start = self.place;
        self.piece.clear();
        let mut scan = Scan::default();
        loop {
            let buffer = self.input.fill_buf().map_err(StreamError::Io)?;
            if buffer.is_empty() {
                if scan.is_scalar && !self.piece.is_empty() {
                    break;
                }
                return Err(StreamError::Cut(self.place));
            }
            let (length, done) = scan.end(buffer);
            let passed = buffer.get(..length).unwrap_or_default();
            self.piece.extend_from_slice(passed);
            self.place.pass(passed);
            self.input.consume(length);
            if done {
                break;
            }
        }
        if self.piece.is_empty() {
            return Err(self.wrong("expected value"));
        }
        let mut reader = serde_json::Deserializer::from_slice(&self.piece);
        seed.deserialize(Transient::new(&mut reader))
            .and_then(|value| reader.end().map(|()| value))
            .map_err(|error| match error.classify() {
                // `tru`, and then nothing.
                serde_json::error::Category::Eof => StreamError::Cut(self.place),
                _ => inside(start, &error),
            })
    }
}

/// The error of a piece that begins behind `start`, with its place in the stream.
fn inside(start: Place, error: &serde_json::Error) -> StreamError {
    let text = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let reason = text.strip_suffix(&suffix).unwrap_or(&text);
    let before = if error.line() > 1 { 0 } else { start.column };
    StreamError::Wrong {
        reason: reason.to_owned(),
        place: Place {
            line: start.line + error.line().max(1) - 1,
            column: before + error.column(),
        },
    }
}

impl Place {
    fn pass(&mut self, bytes: &[u8]) {
        match memchr::memrchr(b'\n', bytes) {
            None => self.column += bytes.len(),
            Some(last) => {
                self.line += memchr::memchr_iter(b'\n', bytes).count();
                self.column = bytes.len() - last - 1;
            }
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

/// Looks for the end of a value, across the pieces of a buffer.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    is_scalar: bool,
}

impl Scan {
    /// How much of the buffer belongs to the value, and whether that is its end. What is wrong
    /// inside is for the reader of the slice to say.
    fn end(&mut self, buffer: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while let Some(byte) = buffer.get(at) {
            if self.in_text {
                if std::mem::take(&mut self.is_escaped) {
                    at += 1;
                    continue;
                }
                let rest = buffer.get(at..).unwrap_or_default();
                let Some(next) = memchr2(b'"', b'\\', rest) else {
                    return (buffer.len(), false);
                };
                at += next + 1;
                if rest.get(next) == Some(&b'\\') {
                    self.is_escaped = true;
                    continue;
                }
                self.in_text = false;
                if self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                b',' | b':' | b'}' | b']' if self.depth == 0 => return (at, true),
                byte if self.depth == 0 && is_space(*byte) => return (at, true),
                _ => self.is_scalar |= self.depth == 0,
            }
            at += 1;
        }
        (at, false)
    }
}

/// A document: an object whose members are read one by one.
struct Document<'a, R>(&'a mut Stream<R>);

impl<'de, R: BufRead> Deserializer<'de> for Document<'_, R> {
    type Error = StreamError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StreamError> {
        if self.0.expect()? != b'{' {
            return Err(self.0.wrong("expected a document: an object in `{}`"));
        }
        self.0.step();
        visitor.visit_map(Members {
            stream: self.0,
            is_first: true,
            is_over: false,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Goes to the next member or element; false at the end of the collection.
fn advance<R: BufRead>(
    stream: &mut Stream<R>,
    is_first: &mut bool,
    end: u8,
    wanted: &str,
) -> Result<bool, StreamError> {
    let next = stream.expect()?;
    if next == end {
        stream.step();
        return Ok(false);
    }
    if !std::mem::take(is_first) {
        if next != b',' {
            return Err(stream.wrong(wanted));
        }
        stream.step();
        if stream.expect()? == end {
            return Err(stream.wrong("trailing comma"));
        }
    }
    Ok(true)
}

struct Members<'a, R> {
    stream: &'a mut Stream<R>,
    is_first: bool,
    is_over: bool,
}

impl<'de, R: BufRead> MapAccess<'de> for Members<'_, R> {
    type Error = StreamError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, StreamError> {
        let wanted = "expected `,` or `}`";
        if self.is_over || !advance(self.stream, &mut self.is_first, b'}', wanted)? {
            self.is_over = true;
            return Ok(None);
        }
        if self.stream.expect()? != b'"' {
            return Err(self.stream.wrong("key must be a string"));
        }
        let key = self.stream.value(seed)?;
        if self.stream.expect()? != b':' {
            return Err(self.stream.wrong("expected `:`"));
        }
        self.stream.step();
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, StreamError> {
        if self.stream.expect()? == b'[' {
            let stream = &mut *self.stream;
            return seed.deserialize(List { stream });
        }
        self.stream.value(seed)
    }
}

/// A list whose elements are read one by one.
struct List<'a, R> {
    stream: &'a mut Stream<R>,
}

impl<'de, R: BufRead> Deserializer<'de> for List<'_, R> {
    type Error = StreamError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StreamError> {
        self.stream.step();
        let mut elements = Elements {
            stream: self.stream,
            is_first: true,
            is_over: false,
        };
        let value = visitor.visit_seq(&mut elements)?;
        if elements.is_over || elements.next_element::<serde::de::IgnoredAny>()?.is_none() {
            return Ok(value);
        }
        Err(elements.stream.wrong("the list is longer than expected"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, StreamError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, StreamError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Elements<'a, R> {
    stream: &'a mut Stream<R>,
    is_first: bool,
    is_over: bool,
}

impl<'de, R: BufRead> SeqAccess<'de> for Elements<'_, R> {
    type Error = StreamError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, StreamError> {
        let wanted = "expected `,` or `]`";
        if self.is_over || !advance(self.stream, &mut self.is_first, b']', wanted)? {
            self.is_over = true;
            return Ok(None);
        }
        self.stream.value(seed).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn read(text: &str, buffer: usize) -> Result<Vec<Map<String, Value>>, StreamError> {
        let mut stream = Stream::new(BufReader::with_capacity(buffer, text.as_bytes()));
        let mut all = Vec::new();
        while let Some(document) = stream.document()? {
            all.push(document);
        }
        Ok(all)
    }

    fn documents() -> impl Strategy<Value = Vec<Value>> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            Just(json!("\\\"]}{[,:")),
        ];
        let value = leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        let document = prop::collection::btree_map(any::<String>(), value, 0..5)
            .prop_map(|map| Value::Object(map.into_iter().collect()));
        prop::collection::vec(document, 0..3)
    }

    proptest! {
        #[test]
        fn reads_what_serde_json_reads(
            documents in documents(), pretty: bool, buffer in 1_usize..40,
        ) {
            let texts = documents.iter().map(|document| if pretty {
                serde_json::to_string_pretty(document).unwrap()
            } else {
                document.to_string()
            });
            let text = texts.collect::<Vec<_>>().join("\n");
            let read: Vec<_> = read(&text, buffer).unwrap().into_iter().map(Value::Object).collect();
            prop_assert_eq!(read, documents);
        }

        #[test]
        fn refuses_what_serde_json_refuses(text in "[\\[\\]{},:\"\\\\ a1tn\n]{0,24}", buffer in 1_usize..8) {
            let text = format!("{{{text}");
            let theirs: Result<Vec<Map<String, Value>>, _> =
                serde_json::Deserializer::from_str(&text).into_iter().collect();
            let ours = read(&text, buffer);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}: {:?}, {:?}", text, ours, theirs);
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                prop_assert_eq!(ours, theirs);
            }
        }

        #[test]
        fn a_cut_document_is_cut_where_it_ends(documents in documents(), pretty: bool, share in 0.0..1.0) {
            let Some(document) = documents.first() else { return Ok(()) };
            let text = if pretty {
                serde_json::to_string_pretty(document).unwrap()
            } else {
                document.to_string()
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a short text")]
            let mut end = 1 + ((text.len() - 2) as f64 * share) as usize;
            while !text.is_char_boundary(end) {
                end += 1;
            }
            prop_assume!(end < text.len());
            let theirs = serde_json::from_str::<Value>(&text[..end]).unwrap_err();
            let Err(StreamError::Cut(place)) = read(&text[..end], 16) else {
                return Err(TestCaseError::fail(text[..end].to_owned()));
            };
            prop_assert_eq!((place.line, place.column), (theirs.line(), theirs.column()));
        }
    }

    #[test]
    fn says_where_it_is_wrong() {
        for text in [
            "{\"a\": [1,\n 2,, 3]}",
            "{\"a\":\n {\"b\": [1, nul]}}",
            "{\"a\" 1}",
            "{\"a\": 1,}",
            "{a: 1}",
        ] {
            let theirs = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            let ours = read(text, 5).unwrap_err().to_string();
            assert_eq!(ours, theirs, "{text}");
        }
    }
}
