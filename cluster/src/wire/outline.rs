//! One object of an answer, and what is read of it if it does not decode: a single object must not hide
//! the others of its list or stop its watch.

use nodelife_core::object::Meta;
use nodelife_core::text::Str;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::encoding::Result;
use super::schema::Message;
use super::{json, protobuf};

#[derive(Clone, Copy)]
pub(crate) enum Encoded<'a> {
    Protobuf(&'a [u8]),
    Json(&'a str),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Outline {
    /// Empty if not even these can be read.
    pub metadata: Meta,
    pub spec: OutlineSpec,
    #[serde(skip)]
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OutlineSpec {
    pub node_name: Str,
}

impl Encoded<'_> {
    pub(crate) fn decode<T: DeserializeOwned>(self, message: &'static Message) -> Result<T> {
        match self {
            Self::Protobuf(bytes) => protobuf::message(bytes, message),
            Self::Json(text) => json::value(text.as_bytes()),
        }
    }

    #[expect(clippy::result_large_err, reason = "the objects are as large")]
    pub(crate) fn read<T: DeserializeOwned>(self, message: &'static Message) -> Result<T, Outline> {
        #[derive(Deserialize)]
        struct Bare {
            metadata: Meta,
        }
        self.decode(message).map_err(|error| {
            let bare = || {
                let bare: Result<Bare, _> = self.decode(message);
                bare.map(|Bare { metadata }| Outline {
                    metadata,
                    ..Outline::default()
                })
            };
            let outline = self.decode(message).or_else(|_| bare());
            Outline {
                reason: error.to_string(),
                ..outline.unwrap_or_default()
            }
        })
    }
}

impl std::fmt::Display for Outline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Meta {
            namespace, name, ..
        } = &self.metadata;
        match (namespace.as_str(), name.as_str()) {
            (_, "") => f.write_str("an object without a readable name")?,
            ("", name) => f.write_str(name)?,
            (namespace, name) => write!(f, "{namespace}/{name}")?,
        }
        write!(f, ": {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use nodelife_core::object::Pod;

    use super::*;

    #[test]
    fn as_much_is_read_as_can_be() {
        for (text, name, node) in [
            (
                r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n","priority":"x"}}"#,
                "a",
                "n",
            ),
            (
                r#"{"metadata":{"name":"a"},"spec":{"nodeName":5}}"#,
                "a",
                "",
            ),
            (r#"{"metadata":{"name":"a"},"spec":5}"#, "a", ""),
            (r#"{"metadata":"a","spec":{"nodeName":"n"}}"#, "", ""),
        ] {
            let outline = Encoded::Json(text).read::<Pod>(&[]).unwrap_err();
            assert_eq!(
                (&*outline.metadata.name, &*outline.spec.node_name),
                (name, node)
            );
            assert!(outline.reason.starts_with("invalid type"), "{outline}");
        }
        let good = Encoded::Json(r#"{"metadata":{"name":"a"}}"#).read::<Pod>(&[]);
        assert_eq!(good.unwrap().metadata.name, "a");
    }
}
