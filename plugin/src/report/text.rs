//! Formatting that several report formats share.

use nodelife_core::audit::{Severity, Subject};

/// How many objects of a group are named.
pub(super) const NAMES: usize = 3;

/// `node/worker-1`, `pod/shop/web-0`: an object in one word, in kubectl's habit.
pub(super) fn object(subject: &Subject) -> String {
    let kind = subject.kind.to_lowercase();
    match &subject.namespace {
        Some(namespace) => format!("{kind}/{namespace}/{}", subject.name),
        None => format!("{kind}/{}", subject.name),
    }
}

/// The word for a severity.
pub(crate) fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}
