//! From the flags of `drain` to the request of a drain.

use std::sync::Arc;

use nodelife_drain::{DrainRequest, Gate, NodeSelection};
use tokio::time::Instant;

use crate::cli::drain::{DrainArgs, DryRun};
use crate::command::input;
use crate::drain::ShellGate;
use crate::exit::UsageError;

/// The drain that these flags ask for; `end`: when `--timeout` is over.
pub(super) fn request(args: &DrainArgs, end: Option<Instant>) -> DrainRequest {
    DrainRequest {
        nodes: match &args.selector {
            Some(selector) => NodeSelection::Matching(selector.clone()),
            None => NodeSelection::named(input::node_names(&args.nodes)),
        },
        settings: args.settings.clone(),
        dry_run: args.run.dry_run != DryRun::None,
        break_lock: args.break_lock,
        end,
        max_unavailable: args.max_unavailable,
        soak: args.soak,
        gate: gate(args),
        ..DrainRequest::default()
    }
}

fn gate(args: &DrainArgs) -> Option<Arc<dyn Gate>> {
    let text = args.gate.clone()?;
    let timeout = (!args.gate_timeout.is_zero()).then_some(args.gate_timeout);
    Some(Arc::new(ShellGate { text, timeout }))
}

/// Combinations that clap cannot know to be wrong.
pub(super) fn check(args: &DrainArgs) -> Result<(), UsageError> {
    let wrong = |text: &str| Err(UsageError(text.to_owned()));
    match (args.nodes.is_empty(), &args.selector) {
        (true, None) => return wrong("name the nodes to drain, or select them with --selector"),
        // An empty variable of a script must not drain the cluster.
        (_, Some(selector)) if selector.is_empty() => {
            return wrong(
                "--selector is empty and selects nothing; for every node: -l kubernetes.io/hostname",
            );
        }
        (false, Some(_)) => return wrong("give either nodes or --selector, not both"),
        _ => {}
    }
    if !args.input.files.is_empty() && (args.run.dry_run == DryRun::Server || args.events.is_some())
    {
        return wrong("-f plans from files: it excludes --dry-run=server and --events");
    }
    if args.detach.is_some() && args.run.output.is_some() && args.run.dry_run == DryRun::None {
        return wrong("--detach prints its NodeMaintenance (-o) only with --dry-run");
    }
    args.settings.check().or_else(wrong)
}
