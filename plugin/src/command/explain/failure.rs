//! `explain failure`

use std::io::Write as _;

use nodelife_audit::failure;
use nodelife_audit::failure::FailureTimeline;
use nodelife_core::snapshot::Source;

use crate::cli::{ClusterArgs, ConfigzArgs, FailureArgs, NodeArgs};
use crate::command::input::{self, Wanted};
use crate::exit::ExitStatus;
use crate::output::{Printer, Table};

pub(super) async fn run(
    args: FailureArgs,
    cluster: &ClusterArgs,
    printer: &mut Printer,
) -> anyhow::Result<ExitStatus> {
    let wanted = Wanted::new([Source::Nodes, Source::Pods], ConfigzArgs::default());
    let snapshot = input::read(&args.input, &wanted, cluster, printer).await?;
    input::need_nodes(&snapshot)?;
    if let Some(reason) = snapshot.why_missing(Source::Pods) {
        anyhow::bail!("cannot predict what happens to the pods: pods not read: {reason}");
    }
    input::warn_of_parts(&snapshot, printer);
    let named = NodeArgs {
        nodes: vec![args.node],
        selector: None,
    };
    let nodes = input::select_nodes(&snapshot, &named, &args.input)?;
    let settings = args.controller.settings(snapshot.server_version.as_deref());
    for node in nodes {
        let pods = snapshot.pods.iter();
        let pods = pods.filter(|pod| pod.spec.node_name == node.metadata.name);
        let timeline = failure::timeline(node, &snapshot.nodes, pods, &settings);
        if !printer.document("FailureTimeline", &timeline, &args.output)? {
            print(&timeline, printer)?;
        }
    }
    Ok(ExitStatus::Done)
}

fn print(timeline: &FailureTimeline, printer: &mut Printer) -> anyhow::Result<()> {
    printer.paragraph(format_args!(
        "If node/{} died now: zone {} in state {:?}, {} taints per second, {} before it in the \
         queue",
        timeline.node,
        timeline.zone,
        timeline.zone_state,
        timeline.eviction_rate,
        timeline.queued_before,
    ))?;
    writeln!(printer.data())?;
    let mut steps = Table::new(["AFTER", "WHAT HAPPENS"]);
    for step in &timeline.steps {
        steps.row([after(step.after_seconds).into(), step.event.as_str().into()]);
    }
    printer.table(&steps)?;
    if timeline.pods.is_empty() {
        return Ok(writeln!(printer.data(), "\nIt has no pods.")?);
    }
    writeln!(printer.data())?;
    let mut pods = Table::new(["DELETED AFTER", "POD", "WHY"]);
    for pod in &timeline.pods {
        let deleted = if pod.terminating {
            "before".to_owned()
        } else {
            after(pod.after_seconds)
        };
        pods.row([
            deleted.into(),
            format!("pod/{}/{}", pod.namespace, pod.name).into(),
            pod.reason.as_str().into(),
        ]);
    }
    Ok(printer.table(&pods)?)
}

fn after(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "never".to_owned(), |seconds| format!("{seconds:.0}s"))
}
