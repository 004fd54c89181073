//! A serde deserializer for Kubernetes' protobuf encoding.
//!
//! The envelope is `k8s\0` and a `runtime.Unknown` whose `raw` (2) is the object;
//! a list has `metadata` (1) and `items` (2). See `pkg/runtime/serializer/protobuf/protobuf.go` of k8s.io/apimachinery v0.36.3.

use std::borrow::Cow;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::encoding::{DecodeError, PageHead, Result};
use super::outline::Encoded;
use super::reader::{Payload, Reader, cut};
use super::schema::{Field, Kind, LIST_META, Message};

const MAGIC: &[u8] = b"k8s\0";
const UNKNOWN_RAW: u32 = 2;
const LIST_METADATA: u32 = 1;
const LIST_ITEMS: u32 = 2;

impl serde::de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads the head of a page, of which the rest may still be on its way: the server writes it first.
pub(super) fn head(page: &[u8]) -> Result<PageHead> {
    let mut list = Reader(beginning(page)?);
    while let Some((tag, payload)) = list.next()? {
        if tag == LIST_METADATA {
            let value = Value::new(Kind::Message(&LIST_META), payload);
            return serde::Deserialize::deserialize(value);
        }
    }
    Err(DecodeError("a list without metadata".to_owned()))
}

pub(super) fn object<T: DeserializeOwned>(page: &[u8], fields: &'static Message) -> Result<T> {
    message(unwrap(page)?, fields)
}

pub(super) fn message<T: DeserializeOwned>(bytes: &[u8], fields: &'static Message) -> Result<T> {
    // Serde asks for the whole object as it would for a field.
    T::deserialize(Value::new(Kind::Message(fields), Payload::Bytes(bytes)))
}

pub(super) fn items(page: &[u8], add: &mut dyn FnMut(Encoded<'_>)) -> Result<()> {
    let mut list = Reader(unwrap(page)?);
    while let Some((tag, payload)) = list.next()? {
        if tag == LIST_ITEMS {
            add(Encoded::Protobuf(payload.bytes()?));
        }
    }
    Ok(())
}

fn envelope(page: &[u8]) -> Result<Reader<'_>> {
    page.strip_prefix(MAGIC)
        .map(Reader)
        .ok_or_else(|| DecodeError("not Kubernetes' protobuf: no \"k8s\\0\" in front".to_owned()))
}

/// The object from its first byte on, as far as it is here, and maybe more than it.
fn beginning(page: &[u8]) -> Result<&[u8]> {
    let mut unknown = envelope(page)?;
    loop {
        let (tag, wire_type) = unknown.key()?;
        if tag == UNKNOWN_RAW {
            unknown.varint()?;
            return Ok(unknown.0);
        }
        unknown.payload(wire_type)?;
    }
}

fn unwrap(page: &[u8]) -> Result<&[u8]> {
    let mut unknown = envelope(page)?;
    while let Some((tag, payload)) = unknown.next()? {
        if tag == UNKNOWN_RAW {
            return payload.bytes();
        }
    }
    Err(DecodeError("an envelope with nothing in it".to_owned()))
}

/// One value, or the run of values of a repeated field.
#[derive(Clone, Copy, Debug)]
struct Value<'a> {
    kind: Kind,
    payload: Payload<'a>,
    /// For repeated fields: the message from this field's first key on.
    run: Run<'a>,
}

#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    tag: u32,
    rest: Reader<'a>,
}

impl<'a> Value<'a> {
    fn new(kind: Kind, payload: Payload<'a>) -> Self {
        Self {
            kind,
            payload,
            run: Run {
                tag: 0,
                rest: Reader(&[]),
            },
        }
    }
}

impl<'a> Run<'a> {
    fn next(&mut self) -> Result<Option<Payload<'a>>> {
        let mut rest = self.rest;
        match rest.next()? {
            Some((tag, payload)) if tag == self.tag => {
                self.rest = rest;
                Ok(Some(payload))
            }
            _ => Ok(None),
        }
    }
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.kind {
            Kind::Text => visit_text(self.payload.text()?, visitor),
            Kind::Int => visitor.visit_i64(self.payload.varint()?.cast_signed()),
            Kind::Bool => visitor.visit_bool(self.payload.varint()? != 0),
            Kind::Time => match time(self.payload.bytes()?)? {
                Some(text) => visitor.visit_str(&text),
                None => visitor.visit_unit(),
            },
            Kind::Quantity => visit_text(quantity(self.payload.bytes()?)?, visitor),
            Kind::IntOrString => int_or_string(self.payload.bytes()?, visitor),
            Kind::Message(message) | Kind::Inline(message) => {
                visitor.visit_map(Object::new(message, self.payload.bytes()?))
            }
            Kind::Texts => visitor.visit_seq(Items {
                kind: Kind::Text,
                run: self.run,
            }),
            Kind::Messages(message) => visitor.visit_seq(Items {
                kind: Kind::Message(message),
                run: self.run,
            }),
            Kind::Map(value) => visitor.visit_map(Entries {
                kind: *value,
                run: self.run,
                value: None,
            }),
        }
    }

    /// A present field is not `null`; an absent field is no key.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_enum(self.payload.text()?.into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string
        bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

struct Object<'a> {
    message: &'static Message,
    rest: Reader<'a>,
    /// The message around, while an inlined one is read.
    outer: Option<(&'static Message, Reader<'a>)>,
    value: Option<Value<'a>>,
}

impl<'a> Object<'a> {
    fn new(message: &'static Message, bytes: &'a [u8]) -> Self {
        Self {
            message,
            rest: Reader(bytes),
            outer: None,
            value: None,
        }
    }

    /// Goes to the next field that is in the table and has something to say.
    fn advance(&mut self) -> Result<Option<(&'static Field, Value<'a>)>> {
        loop {
            let before = self.rest;
            let Some((tag, payload)) = self.rest.next()? else {
                let Some((message, rest)) = self.outer.take() else {
                    return Ok(None);
                };
                (self.message, self.rest) = (message, rest);
                continue;
            };
            let Some(field) = self.message.iter().find(|field| field.tag == tag) else {
                continue;
            };
            match field.kind {
                Kind::Inline(message) => {
                    self.outer = Some((self.message, self.rest));
                    (self.message, self.rest) = (message, Reader(payload.bytes()?));
                }
                Kind::Texts | Kind::Messages(_) | Kind::Map(_) => {
                    let run = Run { tag, rest: before };
                    let mut end = run;
                    while end.next()?.is_some() {}
                    self.rest = end.rest;
                    let kind = field.kind;
                    let value = Value { kind, payload, run };
                    return Ok(Some((field, value)));
                }
                Kind::Time if time(payload.bytes()?)?.is_none() => {}
                Kind::Text | Kind::Int | Kind::Bool if !field.shows_zero && payload.is_zero() => {}
                _ => return Ok(Some((field, Value::new(field.kind, payload)))),
            }
        }
    }
}

impl<'de> MapAccess<'de> for Object<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some((field, value)) = self.advance()? else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(BorrowedStrDeserializer::new(field.name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(self.value.take().ok_or_else(cut)?)
    }
}

struct Items<'a> {
    kind: Kind,
    run: Run<'a>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        match self.run.next()? {
            Some(payload) => seed.deserialize(Value::new(self.kind, payload)).map(Some),
            None => Ok(None),
        }
    }
}

/// A map: repeated entries of key (1) and value (2).
struct Entries<'a> {
    kind: Kind,
    run: Run<'a>,
    value: Option<Payload<'a>>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(entry) = self.run.next()? else {
            return Ok(None);
        };
        let [key, value, _] = fields(entry.bytes()?)?;
        self.value = Some(value.unwrap_or(Payload::Bytes(&[])));
        let key = key.map(Payload::text).transpose()?.unwrap_or_default();
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let payload = self.value.take().ok_or_else(cut)?;
        seed.deserialize(Value::new(self.kind, payload))
    }
}

fn fields(message: &[u8]) -> Result<[Option<Payload<'_>>; 3]> {
    let mut reader = Reader(message);
    let [mut first, mut second, mut third] = [None; 3];
    while let Some((tag, payload)) = reader.next()? {
        match tag {
            1 => first = Some(payload),
            2 => second = Some(payload),
            3 => third = Some(payload),
            _ => {}
        }
    }
    Ok([first, second, third])
}

fn number(field: Option<Payload<'_>>) -> Result<Option<i64>> {
    let number = field.map(Payload::varint).transpose()?;
    Ok(number.map(u64::cast_signed))
}

/// RFC 3339 of seconds (1) and nanoseconds (2). Go's zero time is `null` in JSON.
fn time(message: &[u8]) -> Result<Option<String>> {
    /// 0001-01-01T00:00:00Z, in seconds of Unix.
    const GO_ZERO: i64 = -62_135_596_800;
    let [seconds, nanos, _] = fields(message)?;
    let (seconds, nanos) = (number(seconds)?, number(nanos)?.unwrap_or(0));
    let Some(seconds) = seconds.filter(|seconds| *seconds != GO_ZERO) else {
        return Ok(None);
    };
    // Kubernetes' years end with 9999 as ours do, but a day later; and an object that somebody
    // gave an absurd time must not hide all others of its list.
    let (first, last) = (jiff::Timestamp::MIN, jiff::Timestamp::MAX);
    let seconds = seconds.clamp(first.as_second(), last.as_second());
    let nanos = i32::try_from(nanos.clamp(0, 999_999_999)).unwrap_or_default();
    jiff::Timestamp::new(seconds, nanos)
        .map(|time| Some(time.to_string()))
        .map_err(|error| DecodeError(error.to_string()))
}

/// The string (1) of a quantity.
fn quantity(message: &[u8]) -> Result<Cow<'_, str>> {
    let [text, ..] = fields(message)?;
    text.map_or(Ok(Cow::Borrowed("0")), Payload::text)
}

/// Hands over a text, without a copy where it is valid.
fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Type (1: 0 is a number), number (2), string (3).
fn int_or_string<'de, V: Visitor<'de>>(message: &'de [u8], visitor: V) -> Result<V::Value> {
    let [kind, number, text] = fields(message)?;
    if self::number(kind)?.is_some_and(|kind| kind != 0) {
        let text = text.map(Payload::text).transpose()?;
        return visit_text(text.unwrap_or_default(), visitor);
    }
    visitor.visit_i64(self::number(number)?.unwrap_or(0))
}

#[cfg(test)]
mod tests;
