//! A real control plane for nodelife's tests.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use nodelife_tests::{ControlPlane, Part, Parts, PlaneLease, TestNamespace};
//!
//! // etcd, kube-apiserver, controller-manager, scheduler and kwok, one for the test binary:
//! let plane = ControlPlane::shared().await;
//! // etcd and kube-apiserver alone, one for the test binary:
//! let plane = ControlPlane::shared_api().await;
//! // one with default options, for this test until it is dropped:
//! let plane = PlaneLease::take(Parts::All).await?;
//! // one of one's own, ended when it is dropped:
//! let plane = ControlPlane::options()
//!     .with(Part::ControllerManager)
//!     .without_admission("DefaultTolerationSeconds")
//!     .start()
//!     .await?;
//!
//! let namespace = TestNamespace::create(&plane, "drain").await?;
//! let kubelet = plane.node("node-1").await?;
//! # Ok(()) }
//! ```
//!
//! The programs come from `KUBEBUILDER_ASSETS`, or are built once from Go modules into the
//! target folder ([`program`]), of the version of Kubernetes that `NODELIFE_KUBERNETES` names
//! ([`kubernetes`]). Nothing of it outlives the test process ([`supervise`]).

pub mod audit_log;
pub mod cgroup;
pub mod connect_proxy;
pub mod control_plane;
pub mod crds;
pub mod etcd;
pub mod fixture;
pub mod https;
pub mod installation;
pub mod kubectl;
pub mod kubernetes;
pub mod large_cluster;
pub mod namespace;
pub mod network;
pub mod oracle;
pub mod picture;
pub mod pki;
pub mod playground;
pub mod port;
pub mod program;
pub mod proxy;
pub mod real_nodes;
mod request;
pub mod seed;
pub mod supervise;
pub mod wait;

pub use audit_log::AuditEvent;
pub use control_plane::{ControlPlane, Identity, Options, Part, Parts, PlaneLease};
pub use installation::Installation;
pub use kubernetes::{Kubernetes, needs_kubernetes};
pub use namespace::TestNamespace;
pub use real_nodes::RealNodes;
pub use wait::{TIMEOUT, until, wait_until};
