//! Several clusters side by side: their reports in one document, and what differs between them.
//!
//! A [`Profile`] holds what is compared of a cluster. It is small, so that the snapshot of a
//! cluster can be dropped before the next one is read.

mod differences;
mod profile;
mod report;

pub use differences::differences;
pub use profile::Profile;
pub use report::{AuditReportList, ClusterResult, ClustersSummary, NodesReportList};
