//! A response of the API server: status code, `Status` or text, `Retry-After`, warnings.

use crate::object::Status;

/// One answer, as it came over the wire.
///
/// The budget's refusal, priority and fairness, a webhook and an overloaded server
/// all say 429; what tells them apart is the form of the body and the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiResponse {
    pub code: u16,
    pub status: Option<Status>,
    /// The body, where it was not one (`text/plain` of the API server's filters, or a
    /// proxy's page); cut to a length that can be printed.
    pub text: Option<String>,
    /// The `Retry-After` header, in seconds.
    pub retry_after: Option<u32>,
    /// `Warning` headers, their text alone.
    pub warnings: Vec<String>,
}
