//! Tests of the public interface: whole audits, and explanations of odd clusters.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::indexing_slicing, reason = "helpers of tests")]
#![expect(clippy::semicolon_if_nothing_returned, reason = "fixtures are expressions")]

mod examples;
mod extreme_values;
mod rules;
