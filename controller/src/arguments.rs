//! The command line of `nodelife-controller`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser};
use nodelife_core::node_marks::LOCK_NAMESPACE;

use crate::leader::Times;
use crate::maintenance::NotifySettings;

pub(crate) const LEASE: &str = "nodelife-controller";

/// Audits the cluster continuously, and carries out NodeMaintenance objects.
#[derive(Debug, Parser)]
#[command(name = "nodelife-controller", version, about)]
pub struct Arguments {
    /// Kubeconfig of the cluster; default: KUBECONFIG, or the Pod's ServiceAccount.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Address of /livez, /readyz and /metrics, over plain HTTP.
    #[arg(long, value_name = "ADDR", default_value = "[::]:8081")]
    pub(crate) health_listen: SocketAddr,
    /// Audit the cluster all the time, and write reports, Events and metrics.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) audit: bool,
    /// Configuration file of the audit, with excludes and severities, as `kubectl nodelife audit
    /// --config` takes it; read at the start.
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_config: Option<PathBuf>,
    /// Audit also the configuration of each kubelet, read from the kubelet itself: needs the
    /// permission to get nodes/configz.
    #[arg(long, value_name = "BOOL", default_value_t = false, action = ArgAction::Set)]
    pub(crate) audit_configz: bool,
    /// Carry out NodeMaintenance objects.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) maintenance: bool,
    #[command(flatten)]
    pub(crate) notify: NotifySettings,
    #[command(flatten)]
    pub(crate) leader_election: LeaderElection,
}

/// The flags of the leader election; they have the names of kube-controller-manager's.
#[derive(Debug, Args)]
pub(crate) struct LeaderElection {
    #[command(flatten)]
    pub(crate) times: Times,
    /// Name of the Lease.
    #[arg(
        long = "leader-elect-resource-name",
        value_name = "NAME",
        default_value = LEASE
    )]
    pub(crate) resource_name: String,
    /// Namespace of the Lease, wherever the Pod is. With another Lease than the default, a leader
    /// that carries out maintenances holds the default as well: two installations never both lead.
    #[arg(long = "leader-elect-resource-namespace", value_name = "NAMESPACE",
          default_value = LOCK_NAMESPACE)]
    pub(crate) resource_namespace: String,
}
