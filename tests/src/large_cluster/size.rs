//! Size of the large cluster.

/// Pods of one workload; each workload is a Deployment with one ReplicaSet.
pub(super) const REPLICAS: usize = 10;

/// Namespaces that the workloads are spread over.
pub(super) const NAMESPACES: usize = 60;

/// The largest number that a name has room for; it is the template's own.
pub(super) const LARGEST: usize = 99_999;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Nodes, each with its Lease and its CSINode.
    pub nodes: usize,
    /// Pods, ten to a workload; every fifth workload has a budget.
    pub pods: usize,
}
