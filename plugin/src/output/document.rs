//! The envelope of every document that nodelife prints.

use nodelife_core::API_VERSION;
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a, T> {
    /// `nodelife.dev/v1alpha1`
    api_version: &'static str,
    /// `AuditReport`, `ZoneReport`, …
    kind: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    pub(crate) fn new(kind: &'static str, content: &'a T) -> Self {
        Self {
            api_version: API_VERSION,
            kind,
            content,
        }
    }
}
