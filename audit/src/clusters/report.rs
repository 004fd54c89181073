//! `AuditReportList` and `NodesReportList`: the documents on several clusters.

use serde::Serialize;

use crate::nodes::NodesReport;
use crate::{AuditReport, Finding, Severity};
use nodelife_core::text::Str;

/// The report on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResult<T> {
    /// The context of the kubeconfig.
    pub context: Str,
    /// The report; absent if the cluster could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<T>,
    /// The error; absent if the cluster was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of an audit of several clusters.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditReportList {
    /// Counts of all clusters.
    pub summary: ClustersSummary,
    /// Differences between the clusters, the worst first.
    pub differences: Vec<Finding>,
    /// The clusters, in the order in which they were named.
    pub clusters: Vec<ClusterResult<AuditReport>>,
}

/// Counts of a report on several clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClustersSummary {
    /// Clusters that were asked for.
    pub clusters: usize,
    /// Clusters that could not be judged.
    pub failed: usize,
    /// Nodes that were judged.
    pub nodes: usize,
    /// Findings of severity error, differences and hidden ones included.
    pub errors: usize,
    /// Findings of severity warning, differences and hidden ones included.
    pub warnings: usize,
    /// Findings of severity info, differences and hidden ones included.
    pub infos: usize,
    /// Findings below `--severity`, which the report leaves out.
    pub hidden: usize,
}

impl AuditReportList {
    /// The report on these clusters. Differences below `severity` are counted alone.
    pub fn new(
        clusters: Vec<ClusterResult<AuditReport>>,
        mut differences: Vec<Finding>,
        severity: Severity,
    ) -> Self {
        let different = |severity| {
            let differences = differences.iter();
            differences
                .filter(|found| found.severity == severity)
                .count()
        };
        let reports = || {
            clusters
                .iter()
                .filter_map(|cluster| cluster.report.as_ref())
        };
        let mut summary = ClustersSummary {
            clusters: clusters.len(),
            failed: clusters
                .iter()
                .filter(|cluster| cluster.error.is_some())
                .count(),
            nodes: reports().map(|report| report.summary.nodes).sum(),
            errors: different(Severity::Error),
            warnings: different(Severity::Warning),
            infos: different(Severity::Info),
            hidden: 0,
        };
        let found = differences.len();
        differences.retain(|found| found.severity >= severity);
        summary.hidden = found - differences.len();
        for report in reports() {
            summary.errors += report.summary.errors;
            summary.warnings += report.summary.warnings;
            summary.infos += report.summary.infos;
            summary.hidden += report.summary.hidden;
        }
        Self {
            summary,
            differences,
            clusters,
        }
    }

    /// The severity of the worst finding, differences and hidden ones included.
    pub fn worst(&self) -> Option<Severity> {
        let summary = &self.summary;
        [
            (summary.errors, Severity::Error),
            (summary.warnings, Severity::Warning),
            (summary.infos, Severity::Info),
        ]
        .into_iter()
        .find_map(|(count, severity)| (count > 0).then_some(severity))
    }
}

/// The nodes of several clusters.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesReportList {
    /// The clusters, in the order in which they were named.
    pub clusters: Vec<ClusterResult<NodesReport>>,
}
