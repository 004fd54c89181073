//! Tests of the public interface: estimates, and agreement with the audit.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::indexing_slicing, reason = "helpers of tests")]

mod budget_agreement;
mod forecast;
