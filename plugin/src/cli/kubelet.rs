//! Where a kubelet's configuration comes from.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// A configuration by flags, or by asking each kubelet.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KubeletArgs {
    /// Ask every kubelet for its configuration; needs the right to get nodes/proxy
    #[arg(long)]
    pub(crate) configz: bool,
    /// A kubelet configuration, instead of what the kubelet says
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "configz")]
    pub(crate) kubelet_config: Option<PathBuf>,
    /// A folder of drop-ins (*.conf) for it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "configz")]
    pub(crate) kubelet_config_dir: Option<PathBuf>,
}
