//! Decodes lists from JSON.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::encoding::{DecodeError, PageHead, Result};
use super::outline::Encoded;
use crate::json;

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: PageHead,
}

pub(super) fn head(page: &[u8]) -> Result<PageHead> {
    let Head { metadata } = json::read(page).map_err(|e| error(&e))?;
    Ok(metadata)
}

pub(super) fn value<'de, T: Deserialize<'de>>(text: &'de [u8]) -> Result<T> {
    json::read(text).map_err(|e| error(&e))
}

pub(super) fn items(page: &[u8], add: &mut dyn FnMut(Encoded<'_>)) -> Result<()> {
    let text = json::text(page).map_err(|e| error(&e))?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = deserializer.deserialize_map(List(add));
    read.map_err(|e| error(&e))?;
    deserializer.end().map_err(|e| error(&e))
}

fn error(error: &serde_json::Error) -> DecodeError {
    DecodeError(error.to_string())
}

/// Hands over the elements of `items` one by one, not decoded yet.
struct List<'a>(&'a mut dyn FnMut(Encoded<'_>));

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key == "items" {
                map.next_value_seed(Items(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Items<'a>(&'a mut dyn FnMut(Encoded<'_>));

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        while let Some(item) = items.next_element::<&RawValue>()? {
            (self.0)(Encoded::Json(item.get()));
        }
        Ok(())
    }

    /// Some servers write `null` for an empty list.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
