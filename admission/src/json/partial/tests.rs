use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::super::skip::tests::any_json;
use super::super::text::Text;
use super::*;

/// One field of each type that rules read.
#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Parts<'a> {
    #[serde(borrow)]
    a: Option<Text<'a>>,
    #[serde(borrow)]
    b: Option<BTreeMap<Text<'a>, Text<'a>>>,
    c: Option<Box<Inner>>,
    d: Vec<Inner>,
}

#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
struct Inner {
    a: Option<bool>,
    b: Option<i64>,
    c: Option<Box<Self>>,
}

/// The value at the start of `bytes`, as `serde_json` reads it.
fn plainly<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::deserialize(&mut serde_json::Deserializer::from_slice(bytes)).ok()
}

proptest! {
    /// For any JSON, the result equals that of `serde_json`, failures included.
    #[test]
    fn reads_what_serde_json_reads(value in any_json(), pretty: bool, behind in "[,}\\] ]?") {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let text = text + &behind;
        let bytes = text.as_bytes();
        prop_assert_eq!(read::<Parts<'_>>(bytes).ok(), plainly(bytes));
        prop_assert_eq!(read::<Inner>(bytes).ok(), plainly(bytes));
        prop_assert_eq!(read::<serde_json::Value>(bytes).ok(), plainly(bytes));
        let raw = read::<BTreeMap<String, &RawValue>>(bytes).ok();
        let plain = plainly::<BTreeMap<String, &RawValue>>(bytes);
        let texts = |map: Option<BTreeMap<String, &RawValue>>| {
            map.map(|map| map.into_iter().map(|(k, v)| (k, v.get().to_owned())).collect::<Vec<_>>())
        };
        prop_assert_eq!(texts(raw), texts(plain));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
        let _ = read::<Parts<'_>>(&bytes);
    }
}

#[test]
fn a_truncated_object_is_an_error() {
    let whole = br#"{"c":{"b":7,"x":[{"y":"}]"}]},"d":[{"a":true}],"z":null}"#;
    assert!(read::<Parts<'_>>(whole).is_ok());
    for length in 0..whole.len() {
        assert!(read::<Parts<'_>>(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn a_document_of_too_many_entries_is_an_error() {
    let of = |count: usize| format!("{{\"d\":[{}{{}}]}}", "{},".repeat(count - 2));
    assert!(read::<Parts<'_>>(of(MOST_ENTRIES).as_bytes()).is_ok());
    let error = read::<Parts<'_>>(of(MOST_ENTRIES + 1).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "more than 50000 entries");
    // Fields that the type does not name are free.
    let skipped = format!("{{\"x\":[{}0]}}", "0,".repeat(MOST_ENTRIES));
    assert!(read::<Parts<'_>>(skipped.as_bytes()).is_ok());
}

#[test]
fn a_duplicate_field_is_refused() {
    assert!(read::<Inner>(br#"{"a":true,"a":false}"#).is_err());
}
