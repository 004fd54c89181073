//! Reads the API server's audit log: requests, users and responses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// One request, recorded when its answer was complete (`audit.k8s.io/v1` Event).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The same in all events of one request.
    #[serde(rename = "auditID", default)]
    pub audit_id: String,
    /// get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// When the request came in.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Option<jiff::Timestamp>,
    pub user: AuditUser,
    /// As whom, when the request impersonates.
    pub impersonated_user: Option<AuditUser>,
    /// The client's own name for itself.
    #[serde(default)]
    pub user_agent: String,
    /// Which object; None for `/healthz` and the like.
    pub object_ref: Option<AuditObject>,
    pub response_status: Option<AuditStatus>,
    /// The body, where the policy records it.
    pub request_object: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct AuditUser {
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub groups: Vec<String>,
    #[serde(default)]
    pub uid: String,
    /// Whatever else the authenticator, or an impersonation, says.
    #[serde(default)]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object of a request. What does not apply is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AuditObject {
    /// In plural: `pods`.
    pub resource: String,
    /// For example `eviction` or `status`.
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AuditStatus {
    pub code: u16,
    /// The message, when the answer is an error.
    pub message: String,
}

impl AuditEvent {
    /// The HTTP status of the answer; 0 when it was never complete.
    pub fn code(&self) -> u16 {
        self.response_status
            .as_ref()
            .map_or(0, |status| status.code)
    }

    /// Who asked, impersonation counted in.
    pub fn username(&self) -> &str {
        &self
            .impersonated_user
            .as_ref()
            .unwrap_or(&self.user)
            .username
    }

    /// Whether this was `verb` on `resource`, written `pods` or `pods/eviction`.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        self.verb == verb
            && self.object_ref.as_ref().is_some_and(|object| {
                object.resource == resource && object.subresource == subresource
            })
    }

    /// The namespace of the object; empty when it has none.
    pub fn namespace(&self) -> &str {
        self.object_ref
            .as_ref()
            .map_or("", |object| &object.namespace)
    }

    /// The name of the object; empty when it has none (a list, a create).
    pub fn name(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.name)
    }
}

/// Reads a log from a position on, which may be within a line; that line, and one that is still
/// being written, are left out.
pub(crate) fn read(log: &Path, position: u64) -> Result<Vec<AuditEvent>> {
    let mut bytes = Vec::new();
    File::open(log)
        .and_then(|mut file| {
            file.seek(SeekFrom::Start(position.saturating_sub(1)))?;
            file.read_to_end(&mut bytes)
        })
        .with_context(|| format!("failed to read {}", log.display()))?;
    let is_end = |byte: &u8| *byte == b'\n';
    let begin = match position {
        0 => Some(0),
        _ => bytes.iter().position(is_end).map(|end| end + 1),
    };
    let end = bytes.iter().rposition(is_end);
    let complete = begin
        .zip(end)
        .and_then(|(begin, end)| bytes.get(begin..=end));
    String::from_utf8_lossy(complete.unwrap_or_default())
        .lines()
        .map(|line| {
            serde_json::from_str(line)
                .with_context(|| format!("failed to read the audit event {line}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::read;

    #[test]
    fn a_position_within_a_line_leaves_that_line_out() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.log");
        let event = |verb: &str| format!(r#"{{"verb":"{verb}","requestURI":"/","user":{{}}}}"#);
        let (get, list) = (event("get"), event("list"));
        fs::write(&log, format!("{get}\n{list}\n{{\"verb\":")).unwrap();
        for (position, verbs) in [
            (0, vec!["get", "list"]),
            (1, vec!["list"]),
            (get.len() + 1, vec!["list"]),
            (get.len() + 2, vec![]),
            (get.len() + list.len() + 9, vec![]),
        ] {
            let events = read(&log, position as u64).unwrap();
            let read: Vec<&str> = events.iter().map(|event| event.verb.as_str()).collect();
            assert_eq!(read, verbs, "{position}");
        }
    }
}
