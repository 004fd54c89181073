//! The default not-ready and unreachable tolerations
//! (plugin/pkg/admission/defaulttolerationseconds/admission.go, v1.36.3).

use std::io::Write as _;

use serde::Deserialize;

use super::json::{Text, or_default};
use super::policy::Tolerations;
use super::review::{Operation, Request};
use super::verdict::{Denial, Patch, Rule};

/// Taint of a node whose Ready condition is `False` (v1.TaintNodeNotReady).
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Taint of a node whose Ready condition is `Unknown` (v1.TaintNodeUnreachable).
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
struct Spec<'a> {
    #[serde(borrow, default)]
    tolerations: Option<Vec<Toleration<'a>>>,
}

#[derive(Deserialize)]
struct Toleration<'a> {
    #[serde(borrow, default)]
    key: Text<'a>,
    #[serde(borrow, default)]
    operator: Text<'a>,
    #[serde(borrow, default)]
    value: Text<'a>,
    #[serde(borrow, default)]
    effect: Text<'a>,
}

impl Toleration<'_> {
    /// Whether the plugin takes this for a toleration of `taint`: it looks at neither the
    /// operator nor the value nor the seconds.
    fn covers(&self, taint: &str) -> bool {
        (self.key.is_empty() || &*self.key == taint)
            && (self.effect.is_empty() || &*self.effect == "NoExecute")
    }

    /// Whether it tolerates `taint`, which has no value (k8s.io/api core/v1
    /// `Toleration.ToleratesTaint`, v0.36.3).
    fn tolerates(&self, taint: &str) -> bool {
        self.covers(taint)
            && match &*self.operator {
                "Exists" => true,
                "" | "Equal" => self.value.is_empty(),
                _ => false,
            }
    }
}

/// What becomes of a pod's tolerations.
#[derive(Default)]
pub(super) struct Defaulted {
    /// Adds what the pod lacks.
    pub(super) patch: Option<Patch>,
    /// The taint that a toleration looks meant for and does not tolerate: it keeps the
    /// default away, and the pod is evicted at once.
    pub(super) ineffective: Option<&'static str>,
}

/// The default tolerations for the pod of `request`.
pub(super) fn default(request: &Request<'_>, policy: &Tolerations) -> Result<Defaulted, Denial> {
    if !policy.enabled
        || request.group_resource() != ("", "pods")
        || !request.subresource().is_empty()
        || !matches!(request.operation(), Operation::Create | Operation::Update)
    {
        return Ok(Defaulted::default());
    }
    let pod: Pod<'_> = request.object(Rule::Tolerations)?;
    let present = pod.spec.tolerations.as_deref().unwrap_or_default();
    let mut missing = Vec::with_capacity(2);
    let mut ineffective = None;
    for (taint, seconds) in [
        (NOT_READY, policy.not_ready_seconds),
        (UNREACHABLE, policy.unreachable_seconds),
    ] {
        if !present.iter().any(|t| t.covers(taint)) {
            missing.push((taint, seconds));
        } else if !present.iter().any(|t| t.tolerates(taint)) {
            ineffective = ineffective.or(Some(taint));
        }
    }
    let patch = (!missing.is_empty()).then(|| Patch(write_patch(!present.is_empty(), &missing)));
    Ok(Defaulted { patch, ineffective })
}

/// Appends to the list, or makes it where there is none: `add` to the end of a list that is
/// absent would fail.
fn write_patch(has_list: bool, missing: &[(&str, i64)]) -> Vec<u8> {
    let mut patch = Vec::with_capacity(320);
    patch.push(b'[');
    if !has_list {
        patch.extend_from_slice(br#"{"op":"add","path":"/spec/tolerations","value":["#);
    }
    for (index, (taint, seconds)) in missing.iter().enumerate() {
        if index > 0 {
            patch.push(b',');
        }
        if has_list {
            patch.extend_from_slice(br#"{"op":"add","path":"/spec/tolerations/-","value":"#);
        }
        // Writing to a Vec does not fail.
        let _ = write!(
            patch,
            r#"{{"key":"{taint}","operator":"Exists","effect":"NoExecute","tolerationSeconds":{seconds}}}"#
        );
        if has_list {
            patch.push(b'}');
        }
    }
    if !has_list {
        patch.extend_from_slice(b"]}");
    }
    patch.push(b']');
    patch
}
