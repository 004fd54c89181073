//! `explain zones`

use std::io::Write as _;

use nodelife_core::snapshot::Source;
use nodelife_core::zone::{Settings, Zone, ZoneReport, ZoneState, failures_to_partial};

use crate::cli::{ClusterArgs, ConfigzArgs, ZonesArgs};
use crate::command::input::{self, Wanted};
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table, style};

pub(super) async fn run(
    args: ZonesArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let wanted = Wanted::new([Source::Nodes], ConfigzArgs::default());
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    input::need_nodes(&snapshot)?;
    if let Some(why) = snapshot.why_missing(Source::AllNodes) {
        anyhow::bail!("cannot judge zones without all their nodes: {why}");
    }
    let settings = args.controller.settings(snapshot.server_version.as_deref());
    let report = ZoneReport::of(&snapshot.nodes, &settings, snapshot.taken_at);
    if !printer.document("ZoneReport", &report, &args.output)? {
        print(&report, &settings, printer)?;
    }
    Ok(ExitStatus::Done)
}

fn print(report: &ZoneReport, settings: &Settings, printer: &mut Printer) -> anyhow::Result<()> {
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
        table.row(row(zone, settings));
    }
    printer.table(&table)?;
    writeln!(printer.data())?;
    let unknown: usize = report.zones.iter().map(|zone| zone.unknown).sum();
    if report.all_fully_disrupted && unknown == 0 {
        printer.paragraph(
            "Every zone is in full disruption: the controller assumes that it is the fault itself \
             and taints no node.",
        )?;
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

fn row(zone: &Zone, settings: &Settings) -> [Cell; 8] {
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
    let last = match zone.seconds_to_last_taint {
        _ if zone.queued == 0 || zone.unknown > 0 => "-".to_owned(),
        Some(seconds) => format!("{seconds:.0}s"),
        None => "never".to_owned(),
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
        last.into(),
        partial.into(),
    ]
}
