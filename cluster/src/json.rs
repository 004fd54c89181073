//! Parsing of JSON that is entirely in memory.

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;

/// Reads a value. The text is checked as a whole: text by text, as for bytes, takes longer, and
/// one reader for all there is keeps programs small.
pub(crate) fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> serde_json::Result<T> {
    serde_json::from_str(text(bytes)?)
}

pub(crate) fn text(bytes: &[u8]) -> serde_json::Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        serde_json::from_slice::<Value>(bytes)
            .err()
            .unwrap_or_else(|| serde_json::Error::custom(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_reported_with_its_place() {
        let error = read::<Value>(b"{\"a\":\n \"\xff\"}").unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 3));
        assert_eq!(read::<Value>(b"[1]").unwrap(), serde_json::json!([1]));
    }
}
