//! Tests of the webhook as real pods on real nodes, which it restricts instead of the in-tree
//! NodeRestriction.

mod cold_start;
mod installed;
mod kubelets;
mod scene;
