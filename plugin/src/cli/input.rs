//! Flags that say what a command is about: files instead of a cluster, nodes, kubelet configurations.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use jiff::Timestamp;
use nodelife_cluster::Configz;
use nodelife_core::object::LabelSelector;
use nodelife_core::selector::label_selector;

/// Files instead of a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct InputArgs {
    /// Read a snapshot, a bundle or `kubectl get -o json|yaml` output instead of a cluster; `-` is
    /// stdin
    #[arg(long = "filename", short = 'f', value_name = "FILE|DIR|-", value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<PathBuf>,
    /// Time that ages refer to, such as 2026-01-31T12:00:00Z [default: when the files were read
    /// from the cluster, else their newest heartbeat]
    #[arg(long, value_name = "TIME", requires = "files")]
    pub(crate) at: Option<Timestamp>,
}

/// Nodes by name or by label; none: all.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NodeArgs {
    /// Nodes, as NAME or node/NAME [default: all]
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Only nodes whose labels match
    #[arg(long, short = 'l', value_name = "SELECTOR", value_parser = label_selector, conflicts_with = "nodes")]
    pub(crate) selector: Option<LabelSelector>,
}

/// Whether the kubelets are asked for their configuration.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ConfigzArgs {
    /// Read every kubelet's configuration: through the API server (needs permission to get
    /// nodes/proxy), or from the kubelet itself (needs permission to get nodes/configz)
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true,
          default_missing_value = "proxy", value_name = "HOW")]
    pub(crate) configz: Option<Configz>,
}

/// A configuration by flags, or by asking each kubelet.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KubeletArgs {
    #[command(flatten)]
    pub(crate) configz: ConfigzArgs,
    /// File with a kubelet configuration, instead of the kubelet's own
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "configz")]
    pub(crate) kubelet_config: Option<PathBuf>,
    /// Directory with drop-ins (*.conf) for that file
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "configz")]
    pub(crate) kubelet_config_dir: Option<PathBuf>,
}
