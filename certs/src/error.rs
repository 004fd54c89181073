//! The errors of the crate, by what the caller can do about them.

use nodelife_cluster::ApiError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate or key could not be made.
    #[error("failed to create {what}: {error}")]
    Make {
        what: &'static str,
        error: rcgen::Error,
    },
    /// Invalid PEM or DER.
    #[error("{what} is not usable: {why}")]
    Unusable { what: &'static str, why: String },
    /// An instant that no certificate can hold.
    #[error("{0} is out of range for the time of a certificate")]
    Time(jiff::Timestamp),
    /// The API server refused a request or is unreachable; a retry may succeed.
    #[error("failed to {what}: {error}")]
    Api {
        /// Verb, kind and name.
        what: String,
        error: ApiError,
    },
    /// Another writer changed the object: read it again.
    #[error("{0}: another writer changed the object")]
    Conflict(String),
    /// One pass took longer than its deadline.
    #[error("the pass took longer than {0:?}; is the API server reachable?")]
    Deadline(std::time::Duration),
}

impl Error {
    pub(crate) fn unusable(what: &'static str, why: impl Into<String>) -> Self {
        Self::Unusable {
            what,
            why: why.into(),
        }
    }

    pub(crate) fn make(what: &'static str) -> impl FnOnce(rcgen::Error) -> Self {
        move |error| Self::Make { what, error }
    }
}
