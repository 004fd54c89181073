//! Reads the values of a document that is known to decode, with the kubelet's defaults.

use serde_json::{Map, Value};

use nodelife_core::go_duration::GoDuration;

/// The fields of an object; null counts as absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(Option<&'a Map<String, Value>>);

impl<'a> Fields<'a> {
    pub(super) fn of(document: &'a Map<String, Value>) -> Self {
        Self(Some(document))
    }

    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0?.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn inner(self, name: &str) -> Self {
        Self(self.map(name))
    }

    pub(super) fn map(self, name: &str) -> Option<&'a Map<String, Value>> {
        self.get(name)?.as_object()
    }

    pub(super) fn list(self, name: &str) -> &'a [Value] {
        let list = self.get(name).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn structs(self, name: &str) -> impl Iterator<Item = Self> {
        let structs = self.list(name).iter();
        structs.map(|value| Self(value.as_object()))
    }

    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.list(name)
            .iter()
            .map(|v| v.as_str().unwrap_or_default())
    }

    pub(super) fn text(self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn is_true(self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    /// A number that is absent unless it is given.
    pub(super) fn given(self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    /// A number of which 0 means the default.
    pub(super) fn number(self, name: &str, default: i64) -> i64 {
        self.given(name).filter(|n| *n != 0).unwrap_or(default)
    }

    /// In nanoseconds; absent unless it is given.
    pub(super) fn given_duration(self, name: &str) -> Option<i64> {
        let duration = GoDuration::parse(self.get(name)?.as_str()?)?;
        Some(duration.nanoseconds())
    }

    /// In nanoseconds, of which 0 means the default.
    pub(super) fn duration(self, name: &str, default: i64) -> i64 {
        let given = self.given_duration(name);
        given.filter(|n| *n != 0).unwrap_or(default)
    }
}
