//! The policies: what kubelets and agents may write, the budgets that drains get past,
//! and the tolerations that pods get.

pub(crate) mod agent;
pub(crate) mod drain_safety;
pub(crate) mod node_restriction;
pub(crate) mod tolerations;
