//! Writes the response to a review straight into the body, without building a tree.

use std::io::Write as _;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;

use crate::decision::{Decision, Refusal, Verdict};
use crate::denial::shown;
use crate::review::Review;
use crate::rule::Mode;

/// Appends the `AdmissionReview` that answers `review` to `body`.
///
/// The uid is copied as received. Only the response to a mutating call has a patch, because
/// [`crate::decide`] returns none in the validating phase.
pub fn write_response(review: &Review<'_>, decision: &Decision, body: &mut Vec<u8>) {
    body.extend_from_slice(
        br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"#,
    );
    body.extend_from_slice(review.uid.as_bytes());
    match &decision.verdict {
        Verdict::Allow => body.extend_from_slice(br#","allowed":true"#),
        Verdict::Deny(denial) => {
            body.extend_from_slice(
                br#","allowed":false,"status":{"metadata":{},"status":"Failure","message":"#,
            );
            string(&denial.to_string(), body);
            // Writing to a Vec does not fail.
            let _ = write!(
                body,
                r#","reason":"{}","code":{}}}"#,
                denial.reason.as_str(),
                denial.reason.code()
            );
        }
        Verdict::Patch(patch) => {
            let patch = Base64Display::new(&patch.0, &STANDARD);
            let _ = write!(
                body,
                r#","allowed":true,"patchType":"JSONPatch","patch":"{patch}""#
            );
        }
    }
    if let Some(refusal) = &decision.refusal {
        annotations(refusal, body);
    }
    for (index, warning) in decision.warnings.iter().enumerate() {
        body.extend_from_slice(if index == 0 {
            br#","warnings":["#
        } else {
            b","
        });
        string(warning, body);
    }
    if !decision.warnings.is_empty() {
        body.push(b']');
    }
    body.extend_from_slice(b"}}");
}

/// Short keys: the API server prefixes them with the webhook's name.
fn annotations(refusal: &Refusal, body: &mut Vec<u8>) {
    let _ = write!(
        body,
        r#","auditAnnotations":{{"rule":"{}","mode":"{}""#,
        refusal.denial.rule.as_str(),
        refusal.mode.as_str()
    );
    if refusal.mode != Mode::Enforce {
        body.extend_from_slice(br#","wouldDeny":"#);
        string(shown(&refusal.denial.message), body);
    }
    body.push(b'}');
}

fn string(text: &str, body: &mut Vec<u8>) {
    // A string into a Vec: neither side can fail.
    let _ = serde_json::to_writer(body, text);
}
