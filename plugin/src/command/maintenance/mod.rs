//! `maintenance`: shows, watches, approves and cancels drains that the controller carries out.

mod approve;
mod cancel;
mod describe;
mod object;
mod watch;

use clap::{Args, Subcommand};
use nodelife_cluster::Cluster;
use nodelife_core::format;
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_drain::DrainSettings;

use crate::cli::ClusterArgs;
use crate::command::connect;
use crate::exit::{Exit, ExitStatus};
use crate::output::{Cell, Printer, Table};
pub(super) use object::warn_without_controller;
use object::{get, progress};

/// Shows, watches, approves and cancels drains that the controller carries out (`drain --detach`)
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Let the controller drain, and watch it
  kubectl nodelife drain worker-1 --detach=upgrade
  kubectl nodelife maintenance watch upgrade
")]
pub(crate) struct MaintenanceArgs {
    #[command(subcommand)]
    pub(crate) command: MaintenanceCommand,
}

/// The commands of `maintenance`.
#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Lists the maintenances
    #[command(before_help = "\
Examples:
  # Which maintenances are there, and what blocks them?
  kubectl nodelife maintenance list
")]
    List,
    /// Prints what a maintenance does until it ends, and exits as the drain would have
    #[command(before_help = "\
Examples:
  # Wait for the end of a drain that goes on without this terminal
  kubectl nodelife maintenance watch upgrade
")]
    Watch(NameArgs),
    /// Prints a maintenance with its nodes, and the pods that are not settled
    #[command(before_help = "\
Examples:
  # What would be approved, and how?
  kubectl nodelife maintenance describe upgrade
")]
    Describe(NameArgs),
    /// Approves the plan of a maintenance that waits for it
    #[command(before_help = "\
Examples:
  # Approve what `describe` has shown, and nothing else
  kubectl nodelife maintenance approve upgrade --digest sha256:…

  # Approve the present plan, and print it
  kubectl nodelife maintenance approve upgrade
")]
    Approve(ApproveArgs),
    /// Deletes a maintenance, and waits until its nodes are uncordoned
    #[command(before_help = "\
Examples:
  # Give back the nodes
  kubectl nodelife maintenance cancel upgrade

  # The controller was uninstalled
  kubectl nodelife maintenance cancel upgrade --without-controller
")]
    Cancel(CancelArgs),
}

/// The arguments of `maintenance approve`.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) name: NameArgs,
    /// Approve the plan of this digest only
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

/// The arguments of `maintenance cancel`.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) name: NameArgs,
    /// Gives back the nodes from here, with your permissions: for a cluster in which no controller
    /// does
    #[arg(long)]
    pub(crate) without_controller: bool,
}

/// The name of a maintenance.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the maintenance, as NAME or nodemaintenance/NAME
    #[arg(value_name = "MAINTENANCE")]
    name: String,
}

impl NameArgs {
    pub(crate) fn name(&self) -> &str {
        match self.name.split_once('/') {
            Some((resource, name)) if resource.starts_with("nodemaintenance") => name,
            _ => &self.name,
        }
    }
}

pub(crate) async fn run(args: MaintenanceArgs, flags: &ClusterArgs, printer: &mut Printer) -> Exit {
    let cluster = connect::connect(flags, printer).await?;
    match args.command {
        MaintenanceCommand::List => list(&cluster, printer).await,
        MaintenanceCommand::Watch(args) => watch::watch(&cluster, args.name(), printer).await,
        MaintenanceCommand::Describe(args) => {
            let found = get(&cluster, args.name()).await?;
            describe::describe(&found, cluster.clock().now(), flags, printer)?;
            Ok(ExitStatus::Done)
        }
        MaintenanceCommand::Approve(args) => approve::approve(&cluster, &args, printer).await,
        MaintenanceCommand::Cancel(args) => {
            Box::pin(cancel::cancel(&cluster, &args, printer)).await
        }
    }
}

async fn list(cluster: &Cluster, printer: &mut Printer) -> Exit {
    let listed = object::list(cluster).await?;
    if listed.is_empty() {
        printer.note("no NodeMaintenance found");
        return Ok(ExitStatus::Done);
    }
    let now = cluster.clock().now();
    let mut table = Table::new(["NAME", "NODES", "STATE", "BLOCKED", "AGE"]);
    for one in &listed {
        let age = one.metadata.creation_timestamp;
        let age = age.map_or(0, |at| now.duration_since(at).as_secs());
        let said = one.status.blocked().map(|blocked| blocked.message.as_str());
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

fn unreadable(one: &NodeMaintenance) -> Option<String> {
    let settings = || DrainSettings::from_spec(&one.spec.drain).err();
    one.unreadable().map(str::to_owned).or_else(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maintenance_may_be_named_with_its_resource() {
        for name in [
            "upgrade",
            "nodemaintenance/upgrade",
            "nodemaintenances/upgrade",
            // As `kubectl get -o name` prints it.
            "nodemaintenance.nodelife.dev/upgrade",
        ] {
            let args = NameArgs {
                name: name.to_owned(),
            };
            assert_eq!(args.name(), "upgrade", "{name}");
        }
    }
}
