//! Parser and collector of the API server's `Warning` headers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, header};

/// How many different sentences are kept; a server that says more is not listened to.
const MAX_WARNINGS: usize = 1000;

/// The warnings of the server, each sentence once, as kubectl prints them (client-go
/// v0.36.3, `rest/warnings.go`, `NewWarningWriter` with `Deduplicate`). Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ServerWarnings(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    all: BTreeSet<String>,
    unreported: Vec<String>,
}

impl ServerWarnings {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(
            &mut self
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .unreported,
        )
    }

    pub(crate) fn record(&self, headers: &HeaderMap) {
        texts(headers).for_each(|text| self.add(text));
    }

    pub(crate) fn add(&self, text: String) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.all.len() < MAX_WARNINGS && recorded.all.insert(text.clone()) {
            recorded.unreported.push(text);
        }
    }
}

pub(crate) fn texts(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers
        .get_all(header::WARNING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(text)
}

/// `299 - "text"` → `text` (RFC 7234 §5.5).
fn text(header: &str) -> String {
    let Some((_, quoted)) = header.split_once('"') else {
        return header.to_owned();
    };
    let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
    quoted.replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_warning_is_taken_once() {
        let mut headers = HeaderMap::new();
        for value in [r#"299 - "say \"hi\"""#, "odd", "odd"] {
            headers.append(header::WARNING, value.parse().unwrap());
        }
        let warnings = ServerWarnings::default();
        warnings.record(&headers);
        assert_eq!(warnings.take(), [r#"say "hi""#, "odd"]);
        warnings.record(&headers);
        assert!(warnings.take().is_empty());
    }
}
