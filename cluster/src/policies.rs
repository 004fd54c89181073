//! The webhook's configuration file: YAML, read strictly, and single fields set on top.

use std::io;
use std::path::{Path, PathBuf};

use nodelife_admission::{Policies, Recorded, RecordedError};
use serde::Deserialize;
use serde_json::Value;

/// Version of the file's format.
const API_VERSION: &str = "nodelife.dev/v1alpha1";
/// Kind of the file.
const KIND: &str = "WebhookConfig";

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PoliciesError {
    /// A file cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is neither YAML nor JSON.
    #[error("failed to read {}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        message: String,
    },
    /// A file of another kind.
    #[error("failed to read {}: expected {API_VERSION} {KIND}, got {version} {kind}", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// `apiVersion` as written.
        version: String,
        /// `kind` as written.
        kind: String,
    },
    /// A field that is set by `--set`.
    #[error("--set {0}")]
    Set(String),
    /// A field that there is not, or a value that it cannot have.
    #[error("failed to use the configuration: {0}")]
    Field(#[from] serde_json::Error),
    /// A recorded cluster of another shape.
    #[error("failed to read {}: {source}", path.display())]
    Recorded {
        /// The file.
        path: PathBuf,
        /// Why.
        source: RecordedError,
    },
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(flatten)]
    policies: serde_json::Map<String, Value>,
}

/// Reads the file, if there is one, and puts `set` (`path.to.field=value`) over it.
///
/// # Errors
///
/// The file cannot be read, or says something that the configuration has no field for.
pub fn load(file: Option<&Path>, set: &[String]) -> Result<Policies, PoliciesError> {
    let mut policies = match file {
        Some(path) => parse(path, &read(path)?)?,
        None => Value::Object(serde_json::Map::new()),
    };
    for assignment in set {
        assign(&mut policies, assignment)?;
    }
    Ok(serde_json::from_value(policies)?)
}

/// Reads a Kubernetes List in JSON or YAML that lookups are answered from.
///
/// # Errors
///
/// The file cannot be read, or holds no List.
pub fn recorded(path: &Path) -> Result<Recorded, PoliciesError> {
    let text = read(path)?;
    let list = match serde_json::from_str(&text) {
        Ok(list) => list,
        Err(_) => yaml(path, &text)?,
    };
    Recorded::from_list(list).map_err(|source| PoliciesError::Recorded {
        path: path.to_owned(),
        source,
    })
}

fn read(path: &Path) -> Result<String, PoliciesError> {
    std::fs::read_to_string(path).map_err(|source| PoliciesError::Read {
        path: path.to_owned(),
        source,
    })
}

fn yaml<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, PoliciesError> {
    serde_saphyr::from_str(text).map_err(|error| PoliciesError::Syntax {
        path: path.to_owned(),
        message: error.to_string(),
    })
}

fn parse(path: &Path, text: &str) -> Result<Value, PoliciesError> {
    let file: File = yaml(path, text)?;
    if file.api_version != API_VERSION || file.kind != KIND {
        return Err(PoliciesError::Kind {
            path: path.to_owned(),
            version: file.api_version,
            kind: file.kind,
        });
    }
    Ok(Value::Object(file.policies))
}

/// Sets one field; the value is JSON, or else a string.
fn assign(policies: &mut Value, assignment: &str) -> Result<(), PoliciesError> {
    let wrong = |what: &str| PoliciesError::Set(format!("{assignment}: {what}"));
    let Some((path, text)) = assignment.split_once('=') else {
        return Err(wrong(
            "expected PATH=VALUE, as tolerations.notReadySeconds=60",
        ));
    };
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let mut place = policies;
    for field in path.split('.') {
        if place.is_null() {
            *place = Value::Object(serde_json::Map::new());
        }
        let Some(object) = place.as_object_mut() else {
            return Err(wrong(&format!("there are no fields below that of {field}")));
        };
        place = object.entry(field).or_insert(Value::Null);
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_single_fields() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let head = "apiVersion: nodelife.dev/v1alpha1\nkind: WebhookConfig\n";
        let text = format!("{head}nodeRestriction: {{mode: warn, modes: {{nodes: enforce}}}}\n");
        std::fs::write(&path, text).unwrap();
        let set = ["tolerations.notReadySeconds=60".to_owned()];
        let policies = load(Some(&path), &set).unwrap();
        assert_eq!(policies.tolerations.not_ready_seconds, 60);
        assert_eq!(policies.tolerations.unreachable_seconds, 300);
        assert_eq!(
            serde_json::to_value(&policies.node_restriction.modes).unwrap(),
            serde_json::json!({"nodes": "enforce"})
        );
        for wrong in [
            "tolerations.notReady=60",
            "tolerations.policies=[{\"namespace\": \"a\"}]",
            "nodeRestriction.modes.node=off",
            "agents=[{\"serviceAccount\": \"a\"}]",
            "agents=[{\"serviceAccount\": \"system:serviceaccount:a:b\"}]",
            "a",
        ] {
            assert!(load(None, &[wrong.to_owned()]).is_err(), "{wrong}");
        }
        std::fs::write(&path, "apiVersion: v1\nkind: ConfigMap\n").unwrap();
        let error = load(Some(&path), &[]).unwrap_err().to_string();
        assert!(error.ends_with("got v1 ConfigMap"), "{error}");
    }
}
