//! Flags that describe a kubelet's configuration.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use nodelife_cluster::Configz;
use nodelife_core::allocatable::EvictionMap;

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
    configz: Option<ConfigzArg>,
}

impl ConfigzArgs {
    /// How they are asked, if they are.
    pub(crate) fn how(self) -> Option<Configz> {
        self.configz.map(|how| match how {
            ConfigzArg::Proxy => Configz::Proxy,
            ConfigzArg::Direct => Configz::Direct,
        })
    }
}

/// `--configz`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConfigzArg {
    /// Through the API server
    Proxy,
    /// From the kubelet itself, at its node's address
    Direct,
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

/// The kubelet's own flags about evictions, which it reads last.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Flags of the kubelet")]
pub(crate) struct EvictionArgs {
    /// Replaces all hard thresholds: memory.available<500Mi,nodefs.available<10%
    #[arg(long = "eviction-hard", value_name = "THRESHOLDS")]
    hard: Option<String>,
    /// Replaces all soft thresholds: memory.available<1Gi
    #[arg(long = "eviction-soft", value_name = "THRESHOLDS")]
    soft: Option<String>,
    /// Replaces the grace periods of soft thresholds: memory.available=1m30s
    #[arg(long = "eviction-soft-grace-period", value_name = "DURATIONS")]
    soft_grace_period: Option<String>,
    /// Replaces the minimum amounts to reclaim: nodefs.available=2Gi
    #[arg(long = "eviction-minimum-reclaim", value_name = "AMOUNTS")]
    minimum_reclaim: Option<String>,
}

impl EvictionArgs {
    /// The maps that are given, with their texts.
    pub(crate) fn maps(&self) -> impl Iterator<Item = (EvictionMap, &str)> {
        let maps = [
            (EvictionMap::Hard, &self.hard),
            (EvictionMap::Soft, &self.soft),
            (EvictionMap::SoftGracePeriod, &self.soft_grace_period),
            (EvictionMap::MinimumReclaim, &self.minimum_reclaim),
        ];
        maps.into_iter()
            .filter_map(|(map, text)| Some((map, text.as_deref()?)))
    }
}
