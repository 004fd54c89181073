//! Flags that describe a kubelet's configuration.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use nodelife_cluster::Configz;

/// Whether the kubelets are asked for their configuration.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ConfigzArgs {
    /// Read every kubelet's configuration: through the API server (needs permission to get
    /// nodes/proxy), or from the kubelet itself (needs permission to get nodes/configz)
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "proxy",
        value_name = "HOW"
    )]
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
