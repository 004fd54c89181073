//! Formatting that several report formats share.

use nodelife_audit::{Severity, Subject};

/// How many objects of a group are named.
pub(super) const NAMES: usize = 3;

/// An object in one word, in kubectl's habit.
pub(super) fn object(subject: &Subject) -> String {
    subject.path()
}

/// The word for a severity.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}
