//! The wire format of `AdmissionReview`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::denial::Denial;
use crate::json::partial;
use crate::json::text::{Text, or_default};
use crate::rule::AdmissionRule;

/// The longest uid that is accepted; the API server sends 36 bytes.
pub(super) const LONGEST_UID: usize = 64;

/// Why bytes are not a review that can be answered: the caller gets HTTP 400.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or a field of the envelope has another type than the API's.
    #[error("failed to read the AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error("expected admission.k8s.io/v1 AdmissionReview, got {version} {kind}")]
    Version { version: String, kind: String },
    /// A review without a request, such as a response.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// The response must repeat the uid.
    #[error("request.uid must be a string of 1 to {LONGEST_UID} bytes")]
    Uid,
    #[error("unknown operation {0:?}")]
    Operation(String),
}

nodelife_core::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Operation {
        /// A new object, or a POST to a subresource.
        Create = "CREATE",
        /// PUT or PATCH of an existing object.
        Update = "UPDATE",
        /// DELETE, also each object of a DELETECOLLECTION.
        Delete = "DELETE",
        /// exec, attach, proxy and the like.
        Connect = "CONNECT",
    }
}

impl Operation {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|operation| operation.as_str() == text)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User<'a> {
    #[serde(borrow)]
    username: Text<'a>,
    uid: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    groups: Vec<Text<'a>>,
    extra: Option<&'a RawValue>,
}

impl<'a> User<'a> {
    pub fn name(&self) -> &str {
        &self.username
    }

    /// The UID that authentication gave; empty for certificates.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| &**group)
    }

    pub(crate) fn extra(
        &self,
        rule: AdmissionRule,
    ) -> Result<BTreeMap<Text<'a>, Vec<Text<'a>>>, Denial> {
        let Some(extra) = self.extra else {
            return Ok(BTreeMap::new());
        };
        let read = partial::read(extra.get().as_bytes());
        read.map_err(|error| Denial::unreadable(rule, "request.userInfo.extra", error))
    }
}

/// The resource that the webhook is registered for (after `matchPolicy: Equivalent`).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resource<'a> {
    #[serde(borrow)]
    pub(super) group: Text<'a>,
    pub(super) version: Text<'a>,
    #[serde(rename = "resource")]
    pub(super) name: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(default)]
    kind: Text<'a>,
    #[serde(default)]
    request: Option<Wire<'a>>,
}

/// `request` as it is on the wire; its objects are raw JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) uid: Option<&'a RawValue>,
    pub(super) resource: Resource<'a>,
    pub(super) sub_resource: Text<'a>,
    pub(super) name: Text<'a>,
    pub(super) namespace: Text<'a>,
    pub(super) operation: Text<'a>,
    pub(super) user_info: User<'a>,
    pub(super) object: Option<&'a RawValue>,
    pub(super) old_object: Option<&'a RawValue>,
    pub(super) dry_run: Option<bool>,
}

pub(super) fn read_whole(bytes: &[u8]) -> Result<Wire<'_>, ReviewError> {
    serde_json::from_slice::<IgnoredAny>(bytes)?;
    let envelope: Envelope<'_> = partial::read(bytes)?;
    if !is_review(&envelope.api_version, &envelope.kind) {
        return Err(ReviewError::Version {
            version: envelope.api_version.to_string(),
            kind: envelope.kind.to_string(),
        });
    }
    envelope.request.ok_or(ReviewError::NoRequest)
}

pub(super) fn is_review(api_version: &str, kind: &str) -> bool {
    api_version == "admission.k8s.io/v1" && kind == "AdmissionReview"
}
