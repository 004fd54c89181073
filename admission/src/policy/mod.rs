//! The policies: what kubelets and agents may write, and the tolerations that pods get.

pub(crate) mod agent;
pub(crate) mod node_restriction;
pub(crate) mod tolerations;
