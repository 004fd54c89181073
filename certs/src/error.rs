//! The errors of the crate, by what the caller can do about them.

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to create {what}")]
    Make {
        what: &'static str,
        #[source]
        source: rcgen::Error,
    },
    #[error("{what} is not usable: {why}")]
    Unusable { what: &'static str, why: String },
    #[error("{0} is out of range for the time of a certificate")]
    Time(jiff::Timestamp),
    /// The API server refused a request or is unreachable; a retry may succeed.
    #[error("failed to {what}")]
    Api {
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// Another writer changed the object: read it again.
    #[error("{0}: another writer changed the object")]
    Conflict(String),
    #[error("the pass took longer than {0:?}; is the API server reachable?")]
    Deadline(std::time::Duration),
}

impl Error {
    pub(crate) fn unusable(what: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Unusable { what, why }
    }

    pub(crate) fn make(what: &'static str) -> impl FnOnce(rcgen::Error) -> Self {
        move |source| Self::Make { what, source }
    }

    pub(crate) fn of_read(what: String) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Api {
            what,
            source: Box::new(source),
        }
    }

    /// The error of a failed write: a lost race is an [`Error::Conflict`].
    ///
    /// 409 is a changed resourceVersion or an existing name, 404 an object that was deleted since
    /// it was read.
    pub(crate) fn of_write(what: String) -> impl FnOnce(kube::Error) -> Self {
        move |source| match &source {
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => Self::Conflict(what),
            _ => Self::of_read(what)(source),
        }
    }
}
