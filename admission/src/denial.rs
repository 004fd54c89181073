//! A denial: the status that a refused request is answered with.

use std::fmt;

use crate::rule::AdmissionRule;

/// `status.code` and `status.reason` of a denial, as the in-tree plugins give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusReason {
    /// 400: the object cannot be read.
    BadRequest,
    /// 403: refused for good.
    Forbidden,
    /// 404: an object that the request names is not there.
    NotFound,
    /// 500: may be a matter of time; the client tries again.
    InternalError,
}

impl StatusReason {
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::InternalError => 500,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadRequest => "BadRequest",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::InternalError => "InternalError",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub rule: AdmissionRule,
    pub reason: StatusReason,
    /// The in-tree message, word for word.
    pub message: String,
    /// What to do instead; empty where nothing helps.
    pub remedy: &'static str,
}

impl Denial {
    pub(crate) fn new(rule: AdmissionRule, reason: StatusReason, message: String) -> Self {
        Self {
            rule,
            reason,
            message,
            remedy: "",
        }
    }

    pub(crate) fn forbidden(rule: AdmissionRule, message: String) -> Self {
        Self::new(rule, StatusReason::Forbidden, message)
    }

    pub(crate) fn unreadable(rule: AdmissionRule, message: String) -> Self {
        Self::new(rule, StatusReason::BadRequest, message)
    }

    pub(crate) fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }
}

/// The message, then the remedy: what the user reads.
impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.remedy.is_empty() {
            return Ok(());
        }
        write!(f, " (nodelife: {})", self.remedy)
    }
}
