//! Finds where two JSON values differ, without a tree of either.
//!
//! Anybody who reaches the webhook can send an object of millions of tiny values, and a tree of
//! those takes 30 to 90 times their bytes. Only the fields of the objects on the way to the value
//! that is compared are in memory here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::partial;
use super::text::Text;

pub(crate) type Fields<'a> = BTreeMap<Text<'a>, &'a RawValue>;

/// Deeper values, and objects of too many fields, are compared byte by byte. No rule needs half of it.
const DEEPEST: usize = 12;

/// The rules of a comparison. A path has the form `metadata.labels.x`.
pub(crate) trait Compare {
    /// Whether the field may differ, with all below it.
    fn skips(&self, _path: &str) -> bool {
        false
    }

    /// Whether an empty object differs from an absent one.
    fn is_pointer(&self, _path: &str) -> bool {
        false
    }

    /// Whether two values differ that are not both objects.
    fn differs(&self, path: &str, old: &RawValue, new: &RawValue) -> bool;
}

/// The path of the first field that differs, in alphabetical order.
pub(crate) fn first<'a>(
    old: &Fields<'a>,
    new: &Fields<'a>,
    compare: &impl Compare,
) -> Option<String> {
    let mut path = String::new();
    differ(old, new, &mut path, 0, compare).then_some(path)
}

fn differ<'a>(
    old: &Fields<'a>,
    new: &Fields<'a>,
    path: &mut String,
    depth: usize,
    compare: &impl Compare,
) -> bool {
    let added = new.keys().filter(|key| !old.contains_key(*key));
    let mut keys: Vec<&Text<'a>> = old.keys().chain(added).collect();
    keys.sort_unstable();
    let length = path.len();
    for key in keys {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        let values = [old, new].map(|fields| fields.get(key).copied().unwrap_or(RawValue::NULL));
        if !compare.skips(path) && values_differ(values, path, depth, compare) {
            return true;
        }
        path.truncate(length);
    }
    false
}

fn values_differ(
    [old, new]: [&RawValue; 2],
    path: &mut String,
    depth: usize,
    compare: &impl Compare,
) -> bool {
    if old.get() == new.get() {
        return false;
    }
    let is_pointer = compare.is_pointer(path);
    if depth < DEEPEST
        && let Some((old, new)) = objects([old, new], is_pointer)
    {
        return differ(&old, &new, path, depth + 1, compare);
    }
    compare.differs(path, old, new)
}

fn objects<'a>(
    [old, new]: [&'a RawValue; 2],
    is_pointer: bool,
) -> Option<(Fields<'a>, Fields<'a>)> {
    let fields = |raw: &'a RawValue| match raw.get().as_bytes() {
        [b'{', ..] => partial::read(raw.get().as_bytes()).ok(),
        b"null" if !is_pointer => Some(Fields::new()),
        _ => None,
    };
    Some((fields(old)?, fields(new)?))
}

/// Whether two values are equal, whatever the order of fields and the escapes. Numbers have one form.
pub(crate) fn equal(old: &RawValue, new: &RawValue) -> bool {
    is_equal(old, new, 0)
}

fn is_equal(old: &RawValue, new: &RawValue, depth: usize) -> bool {
    let [a, b] = [old, new].map(|raw| raw.get().as_bytes());
    if a == b {
        return true;
    }
    if depth >= DEEPEST {
        return false;
    }
    match (a.first(), b.first()) {
        (Some(b'{'), Some(b'{')) => both(a, b).is_ok_and(|[a, b]: [Fields<'_>; 2]| {
            a.len() == b.len()
                && (a.iter().zip(&b))
                    .all(|((k, old), (l, new))| k == l && is_equal(old, new, depth + 1))
        }),
        (Some(b'['), Some(b'[')) => both(a, b).is_ok_and(|[a, b]: [Vec<&RawValue>; 2]| {
            a.len() == b.len() && (a.iter().zip(&b)).all(|(old, new)| is_equal(old, new, depth + 1))
        }),
        (Some(b'"'), Some(b'"')) => text(old).is_some_and(|old| Some(old) == text(new)),
        _ => false,
    }
}

fn both<'a, T: Deserialize<'a>>(a: &'a [u8], b: &'a [u8]) -> serde_json::Result<[T; 2]> {
    Ok([partial::read(a)?, partial::read(b)?])
}

pub(crate) fn text(raw: &RawValue) -> Option<Text<'_>> {
    partial::read(raw.get().as_bytes())
        .ok()
        .filter(|_| raw.get() != "null")
}

pub(crate) fn text_at<'a>(object: &Fields<'a>, path: &str) -> Text<'a> {
    let mut fields = path.split('.');
    let first = fields.next().and_then(|field| object.get(field).copied());
    let value = fields.try_fold(first, |value, field| {
        let below: Fields<'a> = partial::read(value?.get().as_bytes()).ok()?;
        Some(below.get(field).copied())
    });
    value.flatten().and_then(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::skip::tests::any_json;
    use super::*;

    struct Strict;

    impl Compare for Strict {
        fn differs(&self, _path: &str, old: &RawValue, new: &RawValue) -> bool {
            !equal(old, new)
        }
    }

    /// The first difference of two trees, where an empty object equals an absent one.
    fn first_of_trees(old: &Value, new: &Value, path: &str) -> Option<String> {
        let empty = serde_json::Map::new();
        let fields = |value: &'_ Value| match value {
            Value::Object(fields) => Some(fields.clone()),
            Value::Null => Some(empty.clone()),
            _ => None,
        };
        let (Some(old), Some(new)) = (fields(old), fields(new)) else {
            return (old != new).then(|| path.to_owned());
        };
        let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        keys.into_iter().find_map(|key| {
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            let of = |fields: &serde_json::Map<String, Value>| {
                fields.get(key).cloned().unwrap_or_default()
            };
            first_of_trees(&of(&old), &of(&new), &path)
        })
    }

    fn raw(value: &Value, pretty: bool) -> Box<RawValue> {
        let text = if pretty {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        RawValue::from_string(text.unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn finds_what_a_comparison_of_trees_finds(
            old in any_json(), new in any_json(), same: bool, pretty: bool,
        ) {
            let new = if same { old.clone() } else { new };
            // Zero has two forms.
            prop_assume!(!old.to_string().contains("-0.0") && !new.to_string().contains("-0.0"));
            let (a, b) = (raw(&old, pretty), raw(&new, !pretty));
            prop_assert_eq!(equal(&a, &b), old == new);
            let objects = (partial::read(a.get().as_bytes()), partial::read(b.get().as_bytes()));
            if let (Ok(a), Ok(b)) = objects {
                prop_assert_eq!(first(&a, &b, &Strict), first_of_trees(&old, &new, ""));
            }
        }
    }

    #[test]
    fn escapes_and_the_order_of_fields_do_not_count() {
        let value = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let (a, b) = (r#"[{"a":"<","b":1}]"#, r#"[{"b":1,"a":"\u003c"}]"#);
        assert!(equal(&value(a), &value(b)));
        assert!(!equal(&value("\"\""), &value("null")));
    }

    #[test]
    fn deep_values_are_compared_byte_by_byte() {
        let deep = |leaf: &str| {
            let text = format!("{}{leaf}{}", "{\"a\":".repeat(50), "}".repeat(50));
            RawValue::from_string(text).unwrap()
        };
        let (a, b) = (deep("1"), deep("2"));
        assert!(equal(&a, &deep("1")) && !equal(&a, &b));
        let fields = |raw: &'static str| partial::read::<Fields<'_>>(raw.as_bytes()).unwrap();
        let [a, b] = [a, b].map(|raw| fields(Box::leak(raw.get().to_owned().into_boxed_str())));
        assert_eq!(first(&a, &b, &Strict).unwrap(), ["a"; 13].join("."));
    }
}
