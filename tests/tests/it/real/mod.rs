//! Tests on real nodes: kubelet, containerd, runc, CNI and kube-proxy. Where the machine cannot run
//! them, each is left out by name.

mod allocatable;
mod cluster;
mod configz;
mod controller;
mod drain;
mod failure;
mod faults;
mod leftover;
mod rescue;
mod rescues;
mod shutdown;
mod support;
mod webhook;
