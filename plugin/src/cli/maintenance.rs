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
    /// What to do
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
    /// Deletes a maintenance, and waits until its nodes have back what it took
    #[command(before_help = "\
Examples:
  # Give back the nodes
  kubectl nodelife maintenance cancel upgrade
")]
    Cancel(NameArgs),
}

/// The name of a maintenance.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the maintenance, as NAME or nodemaintenance/NAME
    #[arg(value_name = "NAME")]
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
