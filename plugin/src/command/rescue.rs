//! `rescue`: the out-of-service taint for a node that is dead.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use nodelife_cluster::{Cluster, Permission};
use nodelife_core::go_duration::time_limit;
use nodelife_core::text::Str;
use nodelife_drain::{Rescue, is_forbidden, remove_out_of_service};
use nodelife_drain_plan::rescue::{Fate, RescueReport, is_shut_down};
use tokio::time::Instant;

use super::connect;
use crate::cli::{ClusterArgs, ExplainFormat, Output, OutputParser};
use crate::exit::{Exit, ExitStatus, UsageError};
use crate::output::{Cell, Printer, Table, style};
use crate::signals;

/// Moves the pods and volumes of a dead node, with the out-of-service taint: proves first that the node is
/// dead, and takes the taint back at the first sign of life.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  # Print what would be deleted and detached; change nothing
  kubectl nodelife rescue worker-1 --dry-run

  # You have seen that the machine is off, and stays off
  kubectl nodelife rescue worker-1 --machine-is-off

  # The machine is back: remove the taint
  kubectl nodelife rescue worker-1
")]
pub(crate) struct RescueArgs {
    /// The node, as NAME or node/NAME
    #[arg(value_name = "NODE")]
    node: String,
    /// You know that the machine is off: one that is only cut off from the network still writes to
    /// its volumes
    #[arg(long)]
    machine_is_off: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Time limit of the wait; 0 means no limit
    #[arg(long, default_value = "0s", value_parser = time_limit, value_name = "DURATION")]
    timeout: Duration,
    /// Format; the document comes at the end
    #[arg(long, short, value_name = "FORMAT", value_parser = OutputParser::<ExplainFormat>::new(), default_value = "table")]
    output: Output<ExplainFormat>,
}

pub(crate) async fn run(args: RescueArgs, cluster: &ClusterArgs, printer: &mut Printer) -> Exit {
    let is_table = args.output.format == ExplainFormat::Table;
    if !is_table && !args.yes && !args.dry_run {
        let text = "-o prints the plan at the end, after the question: give --yes or --dry-run too";
        return Err(UsageError(text.to_owned()).into());
    }
    let cluster = connect::connect(cluster, printer).await?;
    let name = args.node.strip_prefix("node/").unwrap_or(&args.node);
    let mut rescue = match Rescue::look(&cluster, name).await {
        Err(error) if is_forbidden(&error) => {
            printer.error(&error);
            return Ok(ExitStatus::Impossible);
        }
        looked => looked?,
    };
    let mut report = rescue.report();
    let status = rescued(&args, &cluster, &mut rescue, &report, printer).await?;
    report.exit_status = status.code();
    report.left = rescue.report().left;
    printer.document("RescueReport", &report, &args.output)?;
    Ok(status)
}

async fn rescued(
    args: &RescueArgs,
    cluster: &Cluster,
    rescue: &mut Rescue,
    report: &RescueReport,
    printer: &mut Printer,
) -> Exit {
    let name = &report.node;
    if let Some(life) = rescue.life() {
        return give_back(args, cluster, (name, &life, rescue.is_tainted()), printer).await;
    }
    if args.output.format == ExplainFormat::Table {
        print(report, printer)?;
    }
    if let Some(refused) = refusal(args, cluster, rescue, printer).await? {
        return Ok(refused);
    }
    if args.dry_run {
        return Ok(ExitStatus::Done);
    }
    if !args.yes && !asked(printer).await? {
        printer.note("nothing was changed");
        return Ok(ExitStatus::Refused);
    }
    let end = (!args.timeout.is_zero()).then(|| Instant::now() + args.timeout);
    let mut interrupts = signals::listen()?;
    let identity = connect::identity(cluster).await;
    let ended = rescue.run(&identity, end, &mut interrupts, printer);
    Ok(ended.await?.into())
}

/// A living node: takes the taint off it, if it has it.
async fn give_back(
    args: &RescueArgs,
    cluster: &Cluster,
    (name, life, is_tainted): (&Str, &str, bool),
    printer: &mut Printer,
) -> Exit {
    if !is_tainted {
        printer.note(format_args!(
            "refused: node/{name} is not dead: {life}; nothing was changed"
        ));
        return Ok(ExitStatus::Impossible);
    }
    let would = if args.dry_run { "would be" } else { "was" };
    if !args.dry_run {
        remove_out_of_service(cluster, name).await?;
    }
    printer.note(format_args!(
        "node/{name} is not dead: {life}; its out-of-service taint {would} removed"
    ));
    Ok(ExitStatus::Done)
}

/// Refuses without a proof that the machine is off, and without the right to taint the node.
async fn refusal(
    args: &RescueArgs,
    cluster: &Cluster,
    rescue: &Rescue,
    printer: &mut Printer,
) -> anyhow::Result<Option<ExitStatus>> {
    let node = rescue.node();
    let name = &node.metadata.name;
    if is_shut_down(node) {
        printer.note("the cloud provider says that the machine is off");
    } else if !args.machine_is_off && !rescue.is_tainted() {
        printer.note(format_args!(
            "refused: node/{name} is silent, but its machine may still run, cut off from the network, and \
             write to its volumes; nothing was changed"
        ));
        printer.note(
            "see at the provider or the console that the machine is off and stays off; then:",
        );
        printer.note_whole(format_args!(
            "  kubectl nodelife rescue {name} --machine-is-off"
        ));
        return Ok(Some(ExitStatus::Refused));
    }
    let permission = Permission {
        verb: "patch",
        resource: "nodes",
        name,
        ..Permission::default()
    };
    if let Ok(false) = cluster.is_allowed(&permission).await {
        printer.note(format_args!(
            "refused: not allowed to patch nodes; nothing was changed; check with: kubectl auth can-i \
             patch nodes/{name}"
        ));
        return Ok(Some(ExitStatus::Impossible));
    }
    Ok(None)
}

async fn asked(printer: &mut Printer) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        printer.note("refused: nobody is there to be asked; give --yes");
        return Ok(false);
    }
    printer.note("Delete these pods and detach these volumes? [y/N]");
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = read.await??;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn print(report: &RescueReport, printer: &mut Printer) -> anyhow::Result<()> {
    let proof = report.proof.join("; ");
    printer.paragraph(format_args!("node/{} is silent: {proof}.", report.node))?;
    let mut table = Table::new(["POD OR VOLUME", "WHAT HAPPENS", "WHY"]).with_names(0);
    for pod in &report.pods {
        let what = match pod.fate {
            Fate::Removed => "deleted by force".into(),
            Fate::Lost => Cell::styled("lost", style::ERROR),
            Fate::Held => Cell::styled("held", style::WARNING),
            Fate::Stays => "stays".into(),
        };
        let name = format!("pod/{}/{}", pod.namespace, pod.name);
        table.row([name.into(), what, pod.reason.as_str().into()]);
    }
    for volume in &report.volumes {
        let name = format!("volume {volume}");
        table.row([&name, "detached", "when its pods are gone"].map(Cell::from));
    }
    Ok(printer.table(&table)?)
}
