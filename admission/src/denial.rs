//! A denial: the status with which a request is refused.

use std::fmt;

use nodelife_core::format::cut;

use crate::rule::AdmissionRule;

/// As much of a text of a review as is answered or logged: its names may have megabytes.
pub fn shown(text: &str) -> &str {
    cut(text, 1024)
}

nodelife_core::named! {
    /// `status.code` and `status.reason` of a denial, as from the in-tree plugins.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StatusReason {
        /// 400: the object cannot be read.
        BadRequest = "BadRequest",
        /// 403: permanent.
        Forbidden = "Forbidden",
        /// 404: an object that the request names does not exist.
        NotFound = "NotFound",
        /// 500: may be temporary; the client retries.
        InternalError = "InternalError",
        /// 503: a lookup failed, so there is no verdict. A server answers with this HTTP status, and
        /// the API server retries, or else its `failurePolicy` decides.
        ServiceUnavailable = "ServiceUnavailable",
    }
}

impl StatusReason {
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::InternalError => 500,
            Self::ServiceUnavailable => 503,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub rule: AdmissionRule,
    pub reason: StatusReason,
    /// Word for word as in-tree, without what lookups found: anybody in the pod network can ask.
    pub message: String,
    /// What lookups found, the end of the in-tree message; for the log alone.
    pub found: String,
    /// A way to do it right; may be empty.
    pub remedy: &'static str,
}

impl Denial {
    pub(crate) fn new(rule: AdmissionRule, reason: StatusReason, message: String) -> Self {
        Self {
            rule,
            reason,
            message,
            found: String::new(),
            remedy: "",
        }
    }

    pub(crate) fn forbidden(rule: AdmissionRule, message: String) -> Self {
        Self::new(rule, StatusReason::Forbidden, message)
    }

    pub(crate) fn unreadable(rule: AdmissionRule, what: &str, error: impl fmt::Display) -> Self {
        let message = format!("failed to read {what}: {error}");
        Self::new(rule, StatusReason::BadRequest, message)
    }

    pub(crate) fn unavailable(rule: AdmissionRule, error: &str) -> Self {
        Self::new(rule, StatusReason::ServiceUnavailable, error.to_owned())
            .remedy("the API server did not answer a lookup; the client retries")
    }

    pub(crate) fn found(self, found: String) -> Self {
        Self { found, ..self }
    }

    pub(crate) fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }
}

/// The message and the remedy, as shown to the user.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(shown(&self.message))?;
        if self.remedy.is_empty() {
            return Ok(());
        }
        write!(f, " (nodelife: {})", self.remedy)
    }
}
