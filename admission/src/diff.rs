//! Applies a patch to the object of its review, and shows what it changes.

use serde_json::Value;

use crate::decision::Patch;
use crate::review::Request;
use crate::rule::AdmissionRule;

/// Why a patch cannot be applied to the object of its review.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error("{0}")]
    Object(String),
    #[error("failed to read the patch: {0}")]
    Patch(#[from] serde_json::Error),
    #[error("failed to apply the patch: {0}")]
    Apply(#[from] json_patch::PatchError),
}

impl Request<'_> {
    /// The difference between the object and the object that will be stored, a line for each field:
    /// `- path: value` and `+ path: value`.
    pub fn diff(&self, patch: &Patch) -> Result<Vec<String>, DiffError> {
        let old: Value = self
            .object(AdmissionRule::Tolerations)
            .map_err(|denial| DiffError::Object(denial.to_string()))?;
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0)?;
        let mut new = old.clone();
        json_patch::patch(&mut new, &patch)?;
        let mut lines = Vec::new();
        compare("", Some(&old), Some(&new), &mut lines);
        Ok(lines)
    }
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let separator = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{separator}{key}");
                compare(&path, old.get(key), new.get(key), lines);
            }
        }
        (None | Some(Value::Array(_)), Some(Value::Array(new))) => {
            let old = old.and_then(Value::as_array);
            let old = old.map(Vec::as_slice).unwrap_or_default();
            for index in 0..old.len().max(new.len()) {
                let path = format!("{path}[{index}]");
                compare(&path, old.get(index), new.get(index), lines);
            }
        }
        (old, new) => {
            lines.extend(old.map(|old| format!("- {path}: {old}")));
            lines.extend(new.map(|new| format!("+ {path}: {new}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_changed_field_has_its_lines() {
        let old = json!({"spec": {"a": 1, "list": [{"x": 1, "y": 2}], "gone": true}});
        let new = json!({"spec": {"a": 1, "list": [{"x": 3, "y": 2}, {"z": 4}], "new": [5]}});
        let mut lines = Vec::new();
        compare("", Some(&old), Some(&new), &mut lines);
        assert_eq!(
            lines,
            [
                "- spec.gone: true",
                "- spec.list[0].x: 1",
                "+ spec.list[0].x: 3",
                "+ spec.list[1]: {\"z\":4}",
                "+ spec.new[0]: 5",
            ]
        );
    }
}
