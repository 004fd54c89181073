//! Tests of nodelife-controller: its manifests, the leader election and the audit.

mod audit;
mod kubelets;
mod leader;
mod support;
