//! Finds the end of a JSON value without parsing it.
//!
//! A rule reads a few fields of an object that has hundreds. `serde_json` skips the others token
//! by token, and the processor mispredicts the end of most of them. This compares sixteen bytes at
//! a time and counts brackets per block of 64; bit arithmetic masks what is inside strings, as in
//! simdjson (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", section 3.1). The parent
//! module says what it is worth.
//!
//! Nothing is validated: the bytes come from an API server, which has parsed them already.
//!
//! `nodelife_cluster`'s snapshot reader counts brackets too, but in a stream: its buffers end
//! anywhere, and it tracks lines and columns. Sharing this code would need a third crate and a
//! scanner that resumes in the middle of a block.

use wide::u8x16;

/// Bytes per block, one bit each in a mask.
const BLOCK: usize = 64;
/// Bytes per comparison.
const LANE: usize = 16;

/// The length of the value at the start of `bytes`; `None` if it is cut off or not a value.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'{' | b'[' => collection(bytes),
        b'"' => text(bytes).map(|text| text.length),
        _ => {
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']') || is_space(*byte);
            let length = bytes.iter().position(is_end).unwrap_or(bytes.len());
            (length > 0).then_some(length)
        }
    }
}

/// Whether `byte` is white space between tokens.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringSpan {
    pub(crate) length: usize,
    pub(crate) is_plain: bool,
}

pub(crate) fn text(bytes: &[u8]) -> Option<StringSpan> {
    let mut at = 1;
    let mut is_plain = true;
    loop {
        at += special(bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            let length = at + 1;
            return Some(StringSpan { length, is_plain });
        }
        is_plain = false;
        at += 2;
    }
}

fn special(bytes: &[u8]) -> Option<usize> {
    let (lanes, rest) = bytes.as_chunks();
    for (index, lane) in lanes.iter().enumerate() {
        let lane = u8x16::new(*lane);
        let found = lane.simd_eq(u8x16::splat(b'"')) | lane.simd_eq(u8x16::splat(b'\\'));
        let found = found.to_bitmask();
        if found != 0 {
            return Some(index * LANE + found.trailing_zeros() as usize);
        }
    }
    let found = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(lanes.len() * LANE + found)
}

fn collection(bytes: &[u8]) -> Option<usize> {
    let mut brackets = Brackets::default();
    let (blocks, rest) = bytes.as_chunks();
    for (index, block) in blocks.iter().enumerate() {
        if let Some(end) = brackets.end(block) {
            return Some(index * BLOCK + end);
        }
    }
    let mut last = [b' '; BLOCK];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    Some(blocks.len() * BLOCK + brackets.end(&last)?)
}

/// The brackets that the blocks so far have opened.
#[derive(Default)]
struct Brackets {
    depth: u32,
    texts: StringState,
}

impl Brackets {
    /// The offset in the block after the byte that closes the outermost bracket.
    fn end(&mut self, block: &[u8; BLOCK]) -> Option<usize> {
        let marks = Marks::of(block);
        let outside = !self.texts.inside(&marks);
        let (opens, closes) = (marks.opens & outside, marks.closes & outside);
        if closes.count_ones() < self.depth {
            self.depth = self.depth - closes.count_ones() + opens.count_ones();
            return None;
        }
        // The value may end in this block: go through its brackets one by one.
        let mut rest = opens | closes;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            if opens >> bit & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(bit as usize + 1);
                }
            }
        }
        None
    }
}

/// Masks of the structural characters in a block, lowest bit first.
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Marks {
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut marks = Self {
            quotes: 0,
            backslashes: 0,
            opens: 0,
            closes: 0,
        };
        let (lanes, _) = block.as_chunks();
        for (index, lane) in lanes.iter().enumerate() {
            let lane = u8x16::new(*lane);
            let at = |byte: u8, lane: u8x16| {
                u64::from(lane.simd_eq(u8x16::splat(byte)).to_bitmask()) << (LANE * index)
            };
            // `[` and `{` differ in this one bit, and so do `]` and `}`.
            let folded = lane | u8x16::splat(0x20);
            marks.quotes |= at(b'"', lane);
            marks.backslashes |= at(b'\\', lane);
            marks.opens |= at(b'{', folded);
            marks.closes |= at(b'}', folded);
        }
        marks
    }
}

/// State between blocks: whether the block ended inside a string, and after an escaping backslash.
#[derive(Default)]
struct StringState {
    /// All bits set inside a string, none outside.
    open: u64,
    is_escaped: bool,
}

impl StringState {
    /// A mask of the bytes inside strings, opening quotes included.
    fn inside(&mut self, marks: &Marks) -> u64 {
        let mut quotes = marks.quotes;
        if marks.backslashes != 0 || self.is_escaped {
            quotes &= !self.escaped(marks.backslashes);
        }
        // Each bit becomes the parity of the quotes up to it.
        for shift in [1, 2, 4, 8, 16, 32] {
            quotes ^= quotes << shift;
        }
        let inside = quotes ^ self.open;
        self.open = 0_u64.wrapping_sub(inside >> 63);
        inside
    }

    /// A mask of the escaped bytes: those after a backslash that is not escaped itself.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let mut escaped = u64::from(std::mem::take(&mut self.is_escaped));
        let mut rest = backslashes & !escaped;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            if bit == 63 {
                self.is_escaped = true;
                break;
            }
            escaped |= 2 << bit;
            rest &= !(3 << bit);
        }
        escaped
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Characters that can confuse a bracket counter, and some that cannot.
    const TEXT: &str = r#"[a-d\[\]{}\\",: \n\u{e9}]{0,9}"#;

    /// Any value; its keys are often the field names of the types in tests.
    pub(in crate::json) fn any_json() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            TEXT.prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 60, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::from),
                btree_map(prop_oneof!["[a-d]", TEXT], inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The end is found whatever follows the value, and however it is formatted.
        #[test]
        fn finds_the_end_of_any_value(value in any_json(), pretty: bool, shift in 0..70_usize) {
            let text = if pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            for behind in [",", "}", "]", " ,\"x\":[", "\n}"] {
                let padded = format!("[\"{}\",{text}{behind}", "x".repeat(shift));
                let from = padded.len() - behind.len() - text.len();
                prop_assert_eq!(length(&padded.as_bytes()[from..]), Some(text.len()));
            }
            // The value inside a list, at another offset in its block.
            let list = format!("[\"{}\",{text}]", "\\\"".repeat(shift));
            prop_assert_eq!(length(list.as_bytes()), Some(list.len()));
        }

        #[test]
        fn a_truncated_value_has_no_end(value in any_json(), part in 0.0..1.0_f64) {
            let text = serde_json::json!([value]).to_string();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of it")]
            let cut = (text.len() as f64 * part) as usize;
            prop_assert_eq!(length(&text.as_bytes()[..cut]), None);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = length(&bytes);
        }
    }
}
