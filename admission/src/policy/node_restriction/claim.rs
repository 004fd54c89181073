//! persistentvolumeclaims: a kubelet may only report the progress of a resize.

use nodelife_core::quantity::Quantity;
use serde_json::value::RawValue;

use super::request::NodeRequest;
use crate::denial::Denial;
use crate::go_quote::Quoted;
use crate::json::difference::{self, Compare, Fields};
use crate::review::Operation;
use crate::rule::AdmissionRule;

const RULE: AdmissionRule = AdmissionRule::Claims;

/// Fields that a kubelet may change (`RecoverVolumeExpansionFailure` is locked on), and those that the
/// in-tree comparison leaves out.
const FREE: [&str; 6] = [
    "metadata.resourceVersion",
    "metadata.managedFields",
    "status.capacity",
    "status.conditions",
    "status.allocatedResourceStatuses",
    "status.allocatedResources",
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
    let old: Fields<'_> = request.old_object(RULE)?;
    let new: Fields<'_> = request.object(RULE)?;
    let Some(field) = difference::first(&old, &new, &Semantic) else {
        return Ok(());
    };
    let what = format!(
        "is not allowed to update fields other than status.quantity and status.conditions: {field} \
         differs"
    );
    Err(request.denial(RULE, &what))
}

/// Semantic equality (apimachinery pkg/api/equality): empty equals absent, quantities go by value.
struct Semantic;

impl Compare for Semantic {
    fn skips(&self, path: &str) -> bool {
        FREE.contains(&path)
    }

    fn is_pointer(&self, path: &str) -> bool {
        is_pointer(path)
    }

    fn differs(&self, path: &str, old: &RawValue, new: &RawValue) -> bool {
        let (value, other) = if old.get() == "null" {
            (new, old)
        } else {
            (old, new)
        };
        match (value.get(), other.get()) {
            ("[]", "null") => false,
            ("\"\"", "null") => is_pointer(path) || is_entry(path),
            _ if is_quantity(path) => !same_amount(old, new),
            _ => !difference::equal(old, new),
        }
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

fn same_amount(old: &RawValue, new: &RawValue) -> bool {
    let quantity = |raw| Quantity::parse(&difference::text(raw)?).ok();
    match (quantity(old), quantity(new)) {
        (Some(old), Some(new)) => old == new,
        _ => difference::equal(old, new),
    }
}
