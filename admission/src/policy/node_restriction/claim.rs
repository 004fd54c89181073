//! persistentvolumeclaims: a kubelet may only report the progress of a resize.

use std::collections::BTreeMap;

use nodelife_core::quantity::Quantity;
use serde_json::{Map, Value};

use super::request::NodeRequest;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::review::Operation;
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::Claims;

/// What a kubelet may change (`RecoverVolumeExpansionFailure` is locked on), and what the
/// comparison leaves out.
const FREE: [(&str, &str); 6] = [
    ("metadata", "resourceVersion"),
    ("metadata", "managedFields"),
    ("status", "capacity"),
    ("status", "conditions"),
    ("status", "allocatedResourceStatuses"),
    ("status", "allocatedResources"),
];

/// `admitPVCStatus`.
pub(super) fn check(request: &NodeRequest<'_, '_>) -> Result<(), Denial> {
    let deny = |message: String| Err(Denial::forbidden(RULE, message));
    if request.subresource() != "status" {
        return deny("may only update PVC status".to_owned());
    }
    if request.operation() != Operation::Update {
        let operation = Quoted(request.operation().as_str());
        return deny(format!("unexpected operation {operation}"));
    }
    // Resizes are rare, so parsing into a tree is cheap enough.
    let mut old: Map<String, Value> = request.old_object(RULE)?;
    let mut new: Map<String, Value> = request.object(RULE)?;
    for (part, field) in FREE {
        for object in [&mut old, &mut new] {
            if let Some(Value::Object(part)) = object.get_mut(part) {
                part.remove(field);
            }
        }
    }
    let Some(field) = first_difference(&old, &new, "") else {
        return Ok(());
    };
    let node = Quoted(request.node);
    deny(format!(
        "node {node} is not allowed to update fields other than status.quantity and \
         status.conditions: {field} differs"
    ))
}

/// The path of the first field that is not semantically equal (apimachinery pkg/api/equality):
/// empty equals absent, and quantities are compared by value.
fn first_difference(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    path: &str,
) -> Option<String> {
    let mut fields: BTreeMap<&str, (&Value, &Value)> = BTreeMap::new();
    for (field, value) in old {
        fields.insert(field, (value, &Value::Null));
    }
    for (field, value) in new {
        fields.entry(field).or_insert((&Value::Null, value)).1 = value;
    }
    fields.into_iter().find_map(|(field, (old, new))| {
        let path = if path.is_empty() {
            field.to_owned()
        } else {
            format!("{path}.{field}")
        };
        difference(old, new, path)
    })
}

fn difference(old: &Value, new: &Value, path: String) -> Option<String> {
    let empty = Map::new();
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => first_difference(old, new, &path),
        (Value::Object(old), Value::Null) if !is_pointer(&path) => {
            first_difference(old, &empty, &path)
        }
        (Value::Null, Value::Object(new)) if !is_pointer(&path) => {
            first_difference(&empty, new, &path)
        }
        (Value::Array(list), Value::Null) | (Value::Null, Value::Array(list)) => {
            (!list.is_empty()).then_some(path)
        }
        (Value::String(text), Value::Null) | (Value::Null, Value::String(text))
            if text.is_empty() && !is_pointer(&path) && !is_entry(&path) =>
        {
            None
        }
        (Value::String(old), Value::String(new)) if is_quantity(&path) => {
            (!same_amount(old, new)).then_some(path)
        }
        _ => (old != new).then_some(path),
    }
}

/// Fields for which the API distinguishes "empty" from "absent": pointers in Go (k8s.io/api core/v1
/// `PersistentVolumeClaimSpec` and `PersistentVolumeClaimStatus`, v0.36.3).
fn is_pointer(path: &str) -> bool {
    matches!(
        path,
        "spec.selector"
            | "spec.storageClassName"
            | "spec.volumeMode"
            | "spec.dataSource"
            | "spec.dataSource.apiGroup"
            | "spec.dataSourceRef"
            | "spec.dataSourceRef.apiGroup"
            | "spec.dataSourceRef.namespace"
            | "spec.volumeAttributesClassName"
            | "status.currentVolumeAttributesClassName"
            | "status.modifyVolumeStatus"
            | "metadata.deletionTimestamp"
            | "metadata.deletionGracePeriodSeconds"
    )
}

/// Entries of maps: an entry with an empty value is not absent.
fn is_entry(path: &str) -> bool {
    path.starts_with("metadata.labels.")
        || path.starts_with("metadata.annotations.")
        || path.starts_with("spec.selector.matchLabels.")
        || is_quantity(path)
}

fn is_quantity(path: &str) -> bool {
    path.starts_with("spec.resources.requests.") || path.starts_with("spec.resources.limits.")
}

fn same_amount(old: &str, new: &str) -> bool {
    match (Quantity::parse(old), Quantity::parse(new)) {
        (Ok(old), Ok(new)) => old == new,
        _ => old == new,
    }
}
