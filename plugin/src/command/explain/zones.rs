//! `explain zones`, and the flags of kube-controller-manager that it shares with `explain failure`.

use std::collections::BTreeMap;
use std::io::Write as _;

use clap::Args;
use nodelife_core::format;
use nodelife_core::go_duration::time_limit;
use nodelife_core::snapshot::Source;
use nodelife_core::zone::{Settings, Zone, ZoneKey, ZoneReport, ZoneState, failures_to_partial};

use crate::cli::{ClusterArgs, ConfigzArgs, ExplainFormat, InputArgs, Output, OutputParser};
use crate::command::input::{self, Wanted};
use crate::exit::{Exit, ExitStatus};
use crate::output::{Cell, Printer, Table, style};

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
    #[command(flatten)]
    pub(crate) input: InputArgs,
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
    pub(crate) fn settings(&self, server_version: Option<&str>) -> Settings {
        let mut all = Settings::for_version(server_version);
        all.grace_period = self.node_monitor_grace_period.unwrap_or(all.grace_period);
        all.eviction_rate = self.node_eviction_rate.unwrap_or(all.eviction_rate);
        let secondary = self.secondary_node_eviction_rate;
        all.secondary_rate = secondary.unwrap_or(all.secondary_rate);
        let unhealthy = self.unhealthy_zone_threshold;
        all.unhealthy_threshold = unhealthy.unwrap_or(all.unhealthy_threshold);
        all.large_zone = self.large_cluster_size_threshold.unwrap_or(all.large_zone);
        all
    }
}

/// Of a cluster without a zone that has a Ready node.
pub(super) const ALL_DISRUPTED: &str = "Every zone is in full disruption: the controller assumes that \
                                        it is the fault itself and taints no node.";

fn whole_seconds(text: &str) -> Result<u32, String> {
    u32::try_from(time_limit(text)?.as_secs()).map_err(|_| format!("{text} is too long"))
}

fn rate(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("expected a number that is not negative".to_owned()),
    }
}

pub(super) async fn run(args: ZonesArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let wanted = Wanted::new([Source::Nodes], ConfigzArgs::default());
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    input::need_nodes(&snapshot)?;
    if let Some(why) = snapshot.why_missing(Source::AllNodes) {
        anyhow::bail!("cannot judge zones without all their nodes: {why}");
    }
    let settings = args.controller.settings(snapshot.server_version.as_deref());
    let report = ZoneReport::of(&snapshot.nodes, &settings, snapshot.taken_at);
    if !printer.document("ZoneReport", &report, &args.output)? {
        let now = snapshot.taken_at.unwrap_or_default();
        let context = nodelife_audit::Context::new(&snapshot, Some(settings), now);
        let overdue = nodelife_audit::overdue_taints(&context);
        print(&report, &settings, &overdue, printer)?;
    }
    Ok(ExitStatus::Done)
}

fn print(
    report: &ZoneReport,
    settings: &Settings,
    overdue: &BTreeMap<ZoneKey, i64>,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut table = Table::new([
        "ZONE",
        "NODES",
        "READY",
        "STATE",
        "TAINTS/S",
        "QUEUED",
        "LAST TAINT IN",
        "PARTIAL AT",
    ]);
    for zone in &report.zones {
        table.row(row(zone, settings, overdue.get(&zone.key)));
    }
    printer.table(&table)?;
    writeln!(printer.data())?;
    let unknown: usize = report.zones.iter().map(|zone| zone.unknown).sum();
    if report.all_fully_disrupted && unknown == 0 {
        printer.paragraph(ALL_DISRUPTED)?;
    }
    if !overdue.is_empty() {
        printer.paragraph(format_args!(
            "kube-controller-manager should have set the overdue taints. {}",
            nodelife_audit::CHECK_CONTROLLER
        ))?;
    }
    if !report.excluded.is_empty() {
        printer.paragraph(format_args!(
            "Excluded by the label {}: {}",
            nodelife_core::zone::EXCLUDE_LABEL,
            report.excluded.join(", ")
        ))?;
    }
    Ok(printer.paragraph(format_args!(
        "A silent node becomes Unknown after {} s. A zone is in partial disruption when at least \
         3 nodes and a share of {} are not ready; the controller then taints {} nodes per second \
         if the zone has more than {} nodes, else none.",
        settings.grace_period,
        settings.unhealthy_threshold,
        settings.secondary_rate,
        settings.large_zone,
    ))?)
}

fn row(zone: &Zone, settings: &Settings, overdue: Option<&i64>) -> [Cell; 8] {
    let state = match zone.state {
        _ if zone.unknown > 0 => "-".into(),
        ZoneState::Normal => Cell::styled("Normal", style::GOOD),
        ZoneState::PartialDisruption => Cell::styled("PartialDisruption", style::WARNING),
        ZoneState::FullDisruption => Cell::styled("FullDisruption", style::ERROR),
    };
    // The state decides on the rate, and the number of nodes on the border.
    let rate = match zone.unknown {
        0 => zone.eviction_rate.to_string(),
        _ => "-".to_owned(),
    };
    let last = match (overdue, zone.seconds_to_last_taint) {
        _ if zone.queued == 0 || zone.unknown > 0 => "-".into(),
        (Some(late), _) => {
            let late = format!("overdue by {}", format::duration(*late));
            Cell::styled(late, style::ERROR)
        }
        (None, Some(seconds)) => format!("{seconds:.0}s").into(),
        (None, None) => "never".into(),
    };
    let border = failures_to_partial(zone.size, settings).filter(|_| zone.unknown == 0);
    let partial = border.map_or_else(
        || "-".to_owned(),
        |failures| format!("{failures} not ready"),
    );
    [
        zone.key.to_string().into(),
        match zone.unknown {
            0 => zone.size.to_string().into(),
            unknown => format!("{} (+{unknown} unknown)", zone.size).into(),
        },
        zone.ready.to_string().into(),
        state,
        rate.into(),
        zone.queued.to_string().into(),
        last,
        partial.into(),
    ]
}
