//! [`PartialDeserializer`]: a serde deserializer that skips the fields that the type does not name.
//!
//! It walks through objects and lists itself and hands every other value to `serde_json`. It counts
//! the entries that it hands out: a body of a few MiB could otherwise become a structure of hundreds.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Result};

use super::skip::{self, is_space};

/// Fields and items of one document, those that the type does not name included. The largest
/// objects that programs write, pods with thousands of variables, have a tenth of it.
const MOST_ENTRIES: usize = 50_000;

/// Reads a `T` from the value at the start of `bytes`. Skipped fields are not validated, and an
/// error has no details: to get them, parse the bytes with `serde_json`.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    T::deserialize(&mut PartialDeserializer::new(bytes))
}

pub(crate) struct PartialDeserializer<'a> {
    bytes: &'a [u8],
    /// The number of entries that may still be read.
    left: usize,
}

fn malformed() -> Error {
    Error::custom("malformed")
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(Error::custom)
}

impl<'a> PartialDeserializer<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let left = MOST_ENTRIES;
        Self { bytes, left }
    }

    fn value(&mut self) -> Result<&'a [u8]> {
        let length = skip::length(self.bytes).ok_or_else(malformed)?;
        self.split(length)
    }

    /// Consumes the next string and returns its content, if a string without escapes comes next.
    fn plain_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        if self.bytes.first() != Some(&b'"') {
            return Ok(None);
        }
        let text = skip::text(self.bytes).ok_or_else(malformed)?;
        if !text.is_plain {
            return Ok(None);
        }
        let quoted = self.split(text.length)?;
        Ok(quoted.get(1..quoted.len() - 1))
    }

    fn split(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Consumes `byte` and the white space around it, if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        match self.bytes.split_first() {
            Some((first, rest)) if *first == byte => {
                self.bytes = rest;
                self.skip_spaces();
                true
            }
            _ => false,
        }
    }

    fn skip_spaces(&mut self) {
        while let Some((first, rest)) = self.bytes.split_first()
            && is_space(*first)
        {
            self.bytes = rest;
        }
    }
}

impl<'de> Deserializer<'de> for &mut PartialDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if let Some(plain) = self.plain_bytes()? {
            return visitor.visit_borrowed_str(utf8(plain)?);
        }
        serde_json::Deserializer::from_slice(self.value()?).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.bytes.starts_with(b"null") {
            self.value()?;
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.take(b'{') {
            visitor.visit_map(Elements::of(self))
        } else {
            self.deserialize_any(visitor)
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.take(b'[') {
            visitor.visit_seq(Elements::of(self))
        } else {
            self.deserialize_any(visitor)
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_map(visitor)
    }

    /// `RawValue` requests raw bytes by such a name.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        serde_json::Deserializer::from_slice(self.value()?)
            .deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.value()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct tuple tuple_struct enum identifier
    }
}

/// The members of an object or the items of a list, after the opening bracket.
struct Elements<'r, 'a> {
    deserializer: &'r mut PartialDeserializer<'a>,
    is_first: bool,
}

impl<'r, 'a> Elements<'r, 'a> {
    fn of(deserializer: &'r mut PartialDeserializer<'a>) -> Self {
        Self {
            deserializer,
            is_first: true,
        }
    }

    /// Advances to the next element, or past the closing bracket.
    fn has_next(&mut self, close: u8) -> Result<bool> {
        if self.deserializer.take(close) {
            return Ok(false);
        }
        if !std::mem::take(&mut self.is_first) && !self.deserializer.take(b',') {
            return Err(malformed());
        }
        let Some(left) = self.deserializer.left.checked_sub(1) else {
            return Err(Error::custom(format!("more than {MOST_ENTRIES} entries")));
        };
        self.deserializer.left = left;
        Ok(true)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        if !self.has_next(b'}')? {
            return Ok(None);
        }
        let key = if let Some(plain) = self.deserializer.plain_bytes()? {
            seed.deserialize(Key(plain))
        } else if self.deserializer.bytes.starts_with(b"\"") {
            seed.deserialize(&mut serde_json::Deserializer::from_slice(
                self.deserializer.value()?,
            ))
        } else {
            Err(malformed())
        };
        let key = key?;
        if !self.deserializer.take(b':') {
            return Err(malformed());
        }
        Ok(Some(key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(&mut *self.deserializer)
    }
}

/// A key without its quotes. Field names are compared as bytes, without a UTF-8 check.
struct Key<'a>(&'a [u8]);

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(utf8(self.0)?)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_bytes(self.0)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map struct enum ignored_any
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if !self.has_next(b']')? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests;
