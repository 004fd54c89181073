//! `maintenance`: drains that the controller carries out.

use clap::{Args, Subcommand};

/// Shows, watches and cancels drains that the controller carries out (`drain --detach`)
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Let the controller drain, and watch it
  kubectl nodelife drain worker-1 --detach=upgrade
  kubectl nodelife maintenance watch upgrade
")]
pub(crate) struct MaintenanceArgs {
    /// Subcommand
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
    /// The name without the resource.
    pub(crate) fn name(&self) -> &str {
        match self.name.split_once('/') {
            Some((resource, name)) if resource.starts_with("nodemaintenance") => name,
            _ => &self.name,
        }
    }
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
