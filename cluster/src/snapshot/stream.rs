//! Incremental reader of JSON documents from a byte stream.
//!
//! `serde_json` reads a stream byte by byte, and a slice several times as fast. So each member of
//! a document, and each element of a list in it, is cut out of the stream first, by counting
//! brackets, and then read as a slice. No more is held than the largest of them.

use std::io::BufRead;

use memchr::memchr2;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::piece::{Kept, Piece, Place, Result, StreamError};

pub(super) struct Stream<'a> {
    input: &'a mut dyn BufRead,
    place: Place,
    piece: Vec<u8>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(input: &'a mut dyn BufRead) -> Self {
        Self {
            input,
            place: Place { line: 1, column: 0 },
            piece: Vec::new(),
        }
    }

    /// A document that was made of another: its places mean nothing, and are none.
    pub(super) fn made(input: &'a mut dyn BufRead) -> Self {
        Self {
            place: Place { line: 0, column: 0 },
            ..Self::new(input)
        }
    }

    /// A piece again, out of `input`, which is its text; with the places that it had.
    pub(super) fn again(piece: &Kept, input: &'a mut dyn BufRead) -> Self {
        Self {
            place: piece.start,
            ..Self::new(input)
        }
    }

    /// An error about what was read so far.
    pub(super) fn over(&self, reason: &str) -> StreamError {
        StreamError::Wrong {
            reason: reason.to_owned(),
            place: self.place,
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
    fn peek(&mut self) -> Result<Option<u8>> {
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
    fn expect(&mut self) -> Result<u8> {
        self.peek()?.ok_or(StreamError::Cut(self.place))
    }

    fn step(&mut self) {
        self.input.consume(1);
        self.place.column += 1;
    }

    pub(super) fn piece(&mut self) -> Result<Piece<'_>> {
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
        let text = self.piece.as_slice().into();
        let end = self.place;
        Ok(Piece { text, start, end })
    }

    pub(super) fn value<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.piece()?.read()
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

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

/// Where a collection ends, and whether anything of it was passed already.
pub(super) struct Inside {
    end: u8,
    is_first: bool,
}

impl Stream<'_> {
    /// Goes into the next document; none at the end of the stream.
    pub(super) fn document(&mut self) -> Result<Option<Inside>> {
        while self.peek()? == Some(b'=') {
            self.skip_logs()?;
        }
        if self.peek()?.is_none() {
            return Ok(None);
        }
        if self.expect()? != b'{' {
            return Err(self.wrong("expected a snapshot, a list or an object of Kubernetes"));
        }
        self.step();
        Ok(Some(Inside {
            end: b'}',
            is_first: true,
        }))
    }

    /// Passes the logs of a container, as `kubectl cluster-info dump` prints them behind its lists
    /// (`pkg/cmd/clusterinfo/clusterinfo_dump.go` of k8s.io/kubectl, v0.36.3).
    fn skip_logs(&mut self) -> Result<()> {
        let mut line = self.line()?;
        if !line.starts_with(b"==== START logs for container") {
            return Err(self.over("expected a snapshot, a list or an object of Kubernetes"));
        }
        while !line.starts_with(b"==== END logs for container") {
            line = self.line()?;
        }
        Ok(())
    }

    fn line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line);
        read.map_err(StreamError::Io)?;
        self.place.pass(&line);
        if line.is_empty() {
            return Err(StreamError::Cut(self.place));
        }
        Ok(line)
    }

    /// The key of the next member of an object, whose value is to be read then; none at its end.
    pub(super) fn key(&mut self, inside: &mut Inside) -> Result<Option<String>> {
        if !self.advance(inside, "expected `,` or `}`")? {
            return Ok(None);
        }
        if self.expect()? != b'"' {
            return Err(self.wrong("key must be a string"));
        }
        let key = self.value()?;
        if self.expect()? != b':' {
            return Err(self.wrong("expected `:`"));
        }
        self.step();
        Ok(Some(key))
    }

    /// Hands over the elements of a list one by one; `null` is an empty list.
    pub(super) fn list(&mut self, mut each: impl FnMut(&Piece<'_>) -> Result<()>) -> Result<()> {
        if self.expect()? != b'[' {
            return match self.value::<Value>()? {
                Value::Null => Ok(()),
                _ => Err(self.wrong("expected a list")),
            };
        }
        self.step();
        let mut inside = Inside {
            end: b']',
            is_first: true,
        };
        while self.advance(&mut inside, "expected `,` or `]`")? {
            each(&self.piece()?)?;
        }
        Ok(())
    }

    /// Goes to the next member or element; false behind the last.
    fn advance(&mut self, inside: &mut Inside, wanted: &str) -> Result<bool> {
        let next = self.expect()?;
        if next == inside.end {
            self.step();
            return Ok(false);
        }
        if !std::mem::take(&mut inside.is_first) {
            if next != b',' {
                return Err(self.wrong(wanted));
            }
            self.step();
            if self.expect()? == inside.end {
                return Err(self.wrong("trailing comma"));
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn read(text: &str, buffer: usize) -> Result<Vec<Map<String, Value>>> {
        let mut input = BufReader::with_capacity(buffer, text.as_bytes());
        let mut stream = Stream::new(&mut input);
        let mut all = Vec::new();
        while let Some(mut inside) = stream.document()? {
            let mut document = Map::new();
            while let Some(key) = stream.key(&mut inside)? {
                let value = if stream.expect()? == b'[' {
                    let mut list = Vec::new();
                    stream.list(|piece| {
                        list.push(piece.read()?);
                        Ok(())
                    })?;
                    Value::Array(list)
                } else {
                    stream.value()?
                };
                document.insert(key, value);
            }
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
