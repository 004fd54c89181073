//! `explain zones`, and the flags of kube-controller-manager that several commands share.

use clap::Args;
use nodelife_core::zone::Settings;

use super::duration::go_duration;
use super::format::OutputParser;
use super::{ExplainFormat, InputArgs, Output};

/// Shows the state of each zone, and how fast nodes are tainted there.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # As the controller sees them now
  kubectl nodelife explain zones

  # With the flags that this cluster's controller runs with
  kubectl nodelife explain zones --node-eviction-rate 0.5 --large-cluster-size-threshold 20
")]
pub(crate) struct ZonesArgs {
    /// Where the nodes come from.
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// How the controller runs.
    #[command(flatten)]
    pub(crate) controller: ControllerArgs,
    /// Format
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    pub(crate) output: Output<ExplainFormat>,
}

/// Flags of kube-controller-manager, with its spelling and meaning
/// (`cmd/kube-controller-manager/app/options/nodelifecyclecontroller.go`, v1.36.3).
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Flags of kube-controller-manager")]
pub(crate) struct ControllerArgs {
    /// Time after which a silent node becomes Unknown [default: 50s, before 1.32: 40s]
    #[arg(long, value_name = "DURATION", value_parser = whole_seconds)]
    node_monitor_grace_period: Option<u32>,
    /// Nodes tainted per second in a healthy zone [default: 0.1]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    node_eviction_rate: Option<f32>,
    /// Nodes tainted per second in a large zone in partial disruption [default: 0.01]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    secondary_node_eviction_rate: Option<f32>,
    /// Share of NotReady nodes from which a disruption is partial [default: 0.55]
    #[arg(long, value_name = "SHARE", value_parser = rate)]
    unhealthy_zone_threshold: Option<f32>,
    /// A zone with more nodes than this is large [default: 50]
    #[arg(long, value_name = "N")]
    large_cluster_size_threshold: Option<usize>,
}

impl ControllerArgs {
    /// The flags, over the defaults of the server's version.
    pub(crate) fn settings(&self, server_version: Option<&str>) -> Settings {
        let Self {
            node_monitor_grace_period,
            node_eviction_rate,
            secondary_node_eviction_rate,
            unhealthy_zone_threshold,
            large_cluster_size_threshold,
        } = self;
        let default = Settings::for_version(server_version);
        Settings {
            grace_period: node_monitor_grace_period.unwrap_or(default.grace_period),
            eviction_rate: node_eviction_rate.unwrap_or(default.eviction_rate),
            secondary_rate: secondary_node_eviction_rate.unwrap_or(default.secondary_rate),
            unhealthy_threshold: unhealthy_zone_threshold.unwrap_or(default.unhealthy_threshold),
            large_zone: large_cluster_size_threshold.unwrap_or(default.large_zone),
            ..default
        }
    }
}

fn whole_seconds(text: &str) -> Result<u32, String> {
    u32::try_from(go_duration(text)?.as_secs()).map_err(|_| format!("{text} is too long"))
}

fn rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("expected a number that is not negative".to_owned()),
    }
}
