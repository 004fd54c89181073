//! Parser of the webhook's configuration file: strict YAML, with single fields set on top.

use nodelife_core::API_VERSION;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::config::Policies;
use crate::lookup::RecordedCluster;

const KIND: &str = "WebhookConfig";

/// Why a configuration or a recorded cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    #[error("{0}")]
    Syntax(String),
    #[error("expected {API_VERSION} {KIND}, got {version} {kind}")]
    Kind { version: String, kind: String },
    #[error("--set {0}")]
    Set(String),
    #[error("failed to use the configuration: {0}")]
    Field(#[from] serde_json::Error),
    #[error("failed to read the List: {0}")]
    List(#[source] serde_json::Error),
    #[error("expected a List, got {0}")]
    NoList(String),
}

/// A configuration file as it was written: its fields are checked with those that are set on top.
#[derive(Debug, Default)]
pub struct ConfigFile(Map<String, Value>);

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    #[serde(flatten)]
    policies: Map<String, Value>,
}

impl ConfigFile {
    pub fn parse(text: &str) -> Result<Self, ConfigFileError> {
        let document: Document = yaml(text)?;
        if document.api_version != API_VERSION || document.kind != KIND {
            return Err(ConfigFileError::Kind {
                version: document.api_version,
                kind: document.kind,
            });
        }
        Ok(Self(document.policies))
    }

    /// The policies, with `set` (`path.to.field=value`) put over the file.
    pub fn policies(self, set: &[String]) -> Result<Policies, ConfigFileError> {
        let mut policies = Value::Object(self.0);
        for assignment in set {
            assign(&mut policies, assignment)?;
        }
        Ok(serde_json::from_value(policies)?)
    }
}

impl RecordedCluster {
    /// Reads a Kubernetes List in JSON or YAML.
    pub fn parse(text: &str) -> Result<Self, ConfigFileError> {
        Self::from_list(serde_json::from_str(text).or_else(|_| yaml(text))?)
    }
}

fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, ConfigFileError> {
    serde_saphyr::from_str(text).map_err(|error| ConfigFileError::Syntax(error.to_string()))
}

/// Sets one field; the value is JSON, or else a string.
fn assign(policies: &mut Value, assignment: &str) -> Result<(), ConfigFileError> {
    let wrong = |what: &str| ConfigFileError::Set(format!("{assignment}: {what}"));
    let Some((path, text)) = assignment.split_once('=') else {
        return Err(wrong(
            "expected PATH=VALUE, such as tolerations.notReadySeconds=60",
        ));
    };
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let mut place = policies;
    for field in path.split('.') {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        let Some(object) = place.as_object_mut() else {
            return Err(wrong(&format!("the parent of {field} is not an object")));
        };
        place = object.entry(field).or_insert(Value::Null);
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_and_single_fields() {
        let text = "apiVersion: nodelife.dev/v1alpha1\nkind: WebhookConfig\n\
            nodeRestriction: {mode: warn, modes: {nodes: enforce}}\n";
        let set = ["tolerations.notReadySeconds=60".to_owned()];
        let policies = ConfigFile::parse(text).unwrap().policies(&set).unwrap();
        assert_eq!(policies.tolerations.not_ready_seconds, 60);
        assert_eq!(policies.tolerations.unreachable_seconds, 300);
        assert_eq!(
            serde_json::to_value(&policies.node_restriction.modes).unwrap(),
            json!({"nodes": "enforce"})
        );
        for wrong in [
            "tolerations.notReady=60",
            "tolerations.policies=[{\"namespace\": \"a\"}]",
            "nodeRestriction.modes.node=off",
            "agents=[{\"serviceAccount\": \"a\"}]",
            "agents=[{\"serviceAccount\": \"system:serviceaccount:a:b\"}]",
            "agents=[{\"serviceAccount\": \"a:b\"}, {\"serviceAccount\": \"a:b\"}]",
            "agents=[{\"serviceAccount\": \"a:b\", \"tokens\": [\"c\"]}]",
            "tolerations.notReadySeconds=-1",
            "tolerations.policies=[{\"notReadySeconds\": -1}]",
            "tolerations.policies=[{\"unreachableSeconds\": -1}]",
            "a",
        ] {
            let policies = ConfigFile::default().policies(&[wrong.to_owned()]);
            assert!(policies.is_err(), "{wrong}");
        }
        let with = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
            ConfigFile::default().policies(&set).unwrap()
        };
        let annotations = "tolerations.annotations=true";
        assert!(with(&[annotations]).warning().is_some());
        let rewritten = with(&[annotations, "tolerations.rewrite=true"]);
        assert_eq!(rewritten.warning(), None);
        assert_eq!(Policies::default().warning(), None);
        let listed = "nodeRestriction.ownLabels=[\"team\"]";
        assert!(with(&[listed]).warning().is_some());
        let on = with(&[listed, "nodeRestriction.modes.ownLabels=audit"]);
        assert_eq!(on.warning(), None);
        let error = ConfigFile::parse("apiVersion: v1\nkind: ConfigMap\n").unwrap_err();
        let expected = "expected nodelife.dev/v1alpha1 WebhookConfig, got v1 ConfigMap";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn own_labels_are_keys_or_prefixes() {
        let read = |listed: &[&str]| {
            let set = format!("nodeRestriction.ownLabels={}", json!(listed));
            ConfigFile::default().policies(&[set])
        };
        let long = "a".repeat(64);
        let right = [
            "team",
            "A_b.c-9",
            "a.io/x",
            "a-b.io/",
            "a.io/X_y",
            &long[1..],
        ];
        assert_eq!(read(&right).unwrap().node_restriction.own_labels, right);
        for wrong in [
            "", "/", "/x", "a/b/c", "a/b/", "A.io/x", "a..io/", "-a.io/", "a_b/x", "x-", ".x",
            "x y", "*", "a.io/*", "a'", "é", &long,
        ] {
            let error = read(&["team", wrong]).unwrap_err().to_string();
            let expected = format!(
                "failed to use the configuration: nodeRestriction.ownLabels[1]: expected at most 100 \
                 label keys such as team or example.com/team, or prefixes such as example.com/, got \
                 {wrong:?}"
            );
            assert_eq!(error, expected);
        }
        assert!(read(&["a"; 100]).is_ok());
        let error = read(&["a"; 101]).unwrap_err().to_string();
        assert!(
            error.contains("nodeRestriction.ownLabels[100]: expected at most 100"),
            "{error}"
        );
    }
}
