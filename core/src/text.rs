//! Shared strings and the table that makes equal ones share their bytes.
//!
//! A cluster of 150,000 pods repeats few strings very often: namespaces, node
//! names, label keys, whole label sets. [`Str`] is cheap to clone, and
//! [`Interner`] lets a decoder keep one copy of each.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use arcstr::ArcStr;
use foldhash::HashSet;
use serde::{Deserialize, Serialize};

/// An immutable string, shared when cloned. The default takes no memory: decoders make many of it.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Str(ArcStr);

impl Str {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Str {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(ArcStr::from(text))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl schemars::JsonSchema for Str {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[derive(Debug, Default)]
pub struct Interner {
    strings: HashSet<Str>,
}

impl Interner {
    pub fn get(&mut self, text: &str) -> Str {
        if let Some(known) = self.strings.get(text) {
            return known.clone();
        }
        let new = Str::from(text);
        self.strings.insert(new.clone());
        new
    }

    pub fn share(&mut self, text: &mut Str) {
        *text = self.get(text);
    }
}

/// Has a type read and written as text in JSON, by `FromStr` and `Display`, beside its JSON Schema.
#[macro_export]
macro_rules! as_text {
    ($type:ty $(, $key:literal: $value:expr)*) => {
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text: ::std::borrow::Cow<'de, str> = ::serde::Deserialize::deserialize(from)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl ::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({"type": "string" $(, $key: $value)*})
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_their_bytes() {
        let mut table = Interner::default();
        let (a, b) = (table.get("kube-system"), table.get("kube-system"));
        assert!(std::ptr::eq(a.as_str(), b.as_str()));
    }
}
