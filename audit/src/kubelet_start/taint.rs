//! Taints that the kubelet registers its node with.

use super::Input;

/// The longest name, and the longest value of a label.
const MOST: usize = 63;

/// `CheckTaintValidation` (`pkg/util/taints/taints.go`), and no time.
pub(super) fn check(subject: Input<'_>, refusals: &mut Vec<String>) {
    for taint in subject.fields.structs("registerWithTaints") {
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        if !is_qualified_name(key) {
            refusals.push(format!("registerWithTaints: {key:?} is no key of a taint"));
        }
        if !value.is_empty() && !is_name(value) {
            refusals.push(format!(
                "registerWithTaints: {value:?} is no value of a taint"
            ));
        }
        if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            refusals.push(format!(
                "registerWithTaints: {effect:?} is no effect of a taint"
            ));
        }
        if taint.has("timeAdded") {
            refusals.push("registerWithTaints: timeAdded must not be set".into());
        }
    }
}

/// `IsQualifiedName` (`apimachinery/pkg/util/validation/validation.go`).
fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(name: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    name.len() <= MOST
        && name.starts_with(is_end)
        && name.ends_with(is_end)
        && name
            .chars()
            .all(|c| is_end(c) || matches!(c, '-' | '_' | '.'))
}

fn is_subdomain(name: &str) -> bool {
    const MOST: usize = 253;
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MOST
        && name.split('.').all(|label| {
            label.starts_with(is_end)
                && label.ends_with(is_end)
                && label.chars().all(|c| is_end(c) || c == '-')
        })
}
