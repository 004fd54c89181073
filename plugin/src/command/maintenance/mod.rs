//! `maintenance`: shows, watches and cancels drains that the controller carries out.

mod cancel;
mod describe;
mod object;
mod watch;

use anyhow::bail;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiError, Cluster, listing};
use nodelife_core::format;
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_drain::DrainSettings;

use crate::cli::{ClusterArgs, MaintenanceArgs, MaintenanceCommand};
use crate::command::connect;
use crate::command::drain::NOT_INSTALLED;
use crate::exit::ExitStatus;
use crate::output::{Cell, Printer, Table};
pub(super) use object::warn_without_controller;
use object::{get, progress};

pub(crate) async fn run(
    args: MaintenanceArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let cluster = connect::connect(cluster, printer).await?;
    match args.command {
        MaintenanceCommand::List => list(&cluster, printer).await,
        MaintenanceCommand::Watch(args) => watch::watch(&cluster, args.name(), printer).await,
        MaintenanceCommand::Describe(args) => {
            let found = get(&cluster, args.name()).await?;
            describe::describe(&found, cluster.clock().now(), printer)?;
            Ok(ExitStatus::Done)
        }
        MaintenanceCommand::Cancel(args) => {
            Box::pin(cancel::cancel(&cluster, &args, printer)).await
        }
    }
}

async fn list(cluster: &Cluster, printer: &mut Printer) -> anyhow::Result<ExitStatus> {
    let all = ListFilter::default();
    let listed = match cluster
        .list(&listing::NODE_MAINTENANCES, &all, |_| {})
        .await
    {
        Ok(listed) => listed.items,
        Err(ApiError::NotFound(_)) => bail!(NOT_INSTALLED),
        Err(error) => return Err(error.into()),
    };
    if listed.is_empty() {
        printer.note("no NodeMaintenance found");
        return Ok(ExitStatus::Done);
    }
    let now = cluster.clock().now();
    let mut table = Table::new(["NAME", "NODES", "STATE", "BLOCKED", "AGE"]);
    for one in &listed {
        let age = one.metadata.creation_timestamp;
        let age = age.map_or(0, |at| now.duration_since(at).as_secs());
        let said = one.blocked().map(|blocked| blocked.message.as_str());
        let blocked = said.map(str::to_owned).or_else(|| unreadable(one));
        table.row([
            Cell::from(one.metadata.name.to_string()),
            Cell::from(progress(one)),
            Cell::from(one.state().to_owned()),
            Cell::from(blocked.unwrap_or_else(|| "-".to_owned())),
            Cell::from(format::duration(age)),
        ]);
    }
    printer.table(&table)?;
    Ok(ExitStatus::Done)
}

/// Why this version cannot read the object.
fn unreadable(one: &NodeMaintenance) -> Option<String> {
    let settings = || DrainSettings::from_spec(&one.spec.drain).err();
    one.unreadable().map(str::to_owned).or_else(settings)
}
