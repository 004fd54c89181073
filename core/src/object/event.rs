use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Meta;
use super::meta::nullable;
use crate::text::Str;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    pub metadata: Meta,
    pub involved_object: ObjectRef,
    #[serde(deserialize_with = "nullable")]
    pub reason: Str,
    #[serde(skip_serializing_if = "str::is_empty", deserialize_with = "nullable")]
    pub message: Str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// When it last happened.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub last_timestamp: Option<Timestamp>,
    /// When it first happened, in the newer form.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::time::optional")]
    pub event_time: Option<Timestamp>,
}

impl Event {
    /// Whether it tells why the kubelet cannot start a pod; files may have such events.
    pub fn says_why_pod_waits(&self) -> bool {
        let reason = self.reason.as_str();
        self.involved_object.kind == "Pod"
            && matches!(
                reason,
                "FailedCreatePodSandBox" | "FailedMount" | "FailedAttachVolume"
            )
    }

    pub fn time(&self) -> Option<Timestamp> {
        self.last_timestamp
            .or(self.event_time)
            .or(self.metadata.creation_timestamp)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ObjectRef {
    #[serde(deserialize_with = "nullable")]
    pub kind: Str,
    #[serde(skip_serializing_if = "str::is_empty", deserialize_with = "nullable")]
    pub namespace: Str,
    #[serde(deserialize_with = "nullable")]
    pub name: Str,
}
