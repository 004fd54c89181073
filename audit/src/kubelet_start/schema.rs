//! Decoding: which fields the kubelet of a version knows, and which values it reads.
//!
//! Mirrors `DecodeKubeletConfiguration` (`pkg/kubelet/kubeletconfig/util/codec/codec.go`, v1.33.13
//! to v1.37.2): decoding is strict at first and then lenient, so a kubelet ignores a field that it
//! does not know, and refuses a value of another type.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::{FIELDS, Target, rows};
use nodelife_core::go_duration::GoDuration;
use nodelife_core::quantity::{Quantity, QuantityError};

/// The fields of a version, by path: the type in Go.
pub(super) struct Schema(BTreeMap<&'static str, &'static str>);

#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) refusals: Vec<String>,
    pub(super) unknown: Vec<String>,
}

impl Schema {
    pub(super) fn of(target: Target) -> Self {
        let rows = rows(FIELDS, target.column());
        let here = rows.filter(|(_, state)| *state == 'x');
        Self(here.filter_map(|(key, _)| key.split_once(' ')).collect())
    }

    pub(super) fn decode(&self, document: &Map<String, Value>) -> Decoded {
        let mut decoded = Decoded::default();
        self.fields(&At::default(), document, &mut decoded);
        decoded
    }

    pub(super) fn decode_one(&self, path: &str, value: &Value) -> Decoded {
        let mut decoded = Decoded::default();
        if let Some(kind) = self.0.get(path) {
            let at = At {
                field: path.to_owned(),
                shown: path.to_owned(),
            };
            self.value(&at, kind, value, &mut decoded);
        }
        decoded
    }

    fn fields(&self, at: &At, fields: &Map<String, Value>, decoded: &mut Decoded) {
        for (name, value) in fields {
            let at = at.member(name);
            match self.0.get(at.field.as_str()) {
                Some(kind) => self.value(&at, kind, value, decoded),
                None => decoded.unknown.push(at.shown),
            }
        }
    }

    fn value(&self, at: &At, kind: &str, value: &Value, decoded: &mut Decoded) {
        let (kind, is_pointer) = match kind.strip_prefix('*') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        // A duration decodes itself, null too.
        if value.is_null() && (is_pointer || kind != "v1.Duration") {
            return;
        }
        let reads = match (kind, value) {
            ("struct", Value::Object(fields)) => {
                self.fields(at, fields, decoded);
                true
            }
            ("map", Value::Object(fields)) => {
                let of = |(key, value)| (at.element("{}", &format!(".{key}")), value);
                self.elements(fields.iter().map(of), decoded);
                true
            }
            ("list", Value::Array(items)) => {
                let of = |(i, value)| (at.element("[]", &format!("[{i}]")), value);
                self.elements(items.iter().enumerate().map(of), decoded);
                true
            }
            ("bool", Value::Bool(_))
            | ("string", Value::String(_))
            | ("float64", Value::Number(_)) => true,
            ("int32", Value::Number(number)) => fits::<i32>(number),
            ("int64" | "v1.TimeOrMetaDuration", Value::Number(number)) => number.is_i64(),
            ("uint32", Value::Number(number)) => fits::<u32>(number),
            ("v1.Duration" | "v1.TimeOrMetaDuration", Value::String(text)) => {
                GoDuration::parse(text).is_some()
            }
            ("v1.Time", Value::String(text)) => text.parse::<jiff::Timestamp>().is_ok(),
            ("resource.Quantity" | "resource.QuantityValue", Value::String(text)) => {
                is_quantity(text)
            }
            ("resource.Quantity" | "resource.QuantityValue", Value::Number(number)) => {
                is_quantity(&number.to_string())
            }
            _ => false,
        };
        if !reads {
            let wanted = kind.rsplit('.').next().unwrap_or(kind);
            let refusal = format!("{}: {value} is not of type {wanted}", at.shown);
            decoded.refusals.push(refusal);
        }
    }

    fn elements<'v>(&self, elements: impl Iterator<Item = (At, &'v Value)>, decoded: &mut Decoded) {
        for (at, value) in elements {
            if let Some(kind) = self.0.get(at.field.as_str()) {
                self.value(&at, kind, value, decoded);
            }
        }
    }
}

#[derive(Default)]
struct At {
    /// In the table of fields: `registerWithTaints[].key`, `kubeReserved{}`.
    field: String,
    /// For people: `registerWithTaints[0].key`, `kubeReserved.cpu`.
    shown: String,
}

impl At {
    fn member(&self, name: &str) -> Self {
        let of = |path: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Self {
            field: of(&self.field),
            shown: of(&self.shown),
        }
    }

    fn element(&self, field: &str, shown: &str) -> Self {
        Self {
            field: format!("{}{field}", self.field),
            shown: format!("{}{shown}", self.shown),
        }
    }
}

fn fits<T: TryFrom<i64>>(number: &Number) -> bool {
    number.as_i64().is_some_and(|n| T::try_from(n).is_ok())
}

/// Go reads a quantity that is out of our range, too.
fn is_quantity(text: &str) -> bool {
    matches!(
        Quantity::parse(text),
        Ok(_) | Err(QuantityError::OutOfRange)
    )
}
