//! The cordon: nothing is evicted before it stands.

use anyhow::{Context as _, bail};
use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::drain::{CORDONED_BY, Mark};
use nodelife_core::object::Node;
use nodelife_core::text::Str;

use crate::exit::ExitStatus;
use crate::output::Printer;

/// Cordons the nodes that are not; the status to end with if one of them cannot be.
///
/// `kubectl drain` v1.36 goes on without (`RunCordonOrUncordon` prints the error), and
/// evicts pods that the scheduler may put back. Each node that is to be cordoned is added to
/// `cordoned` first, and bears `mark` with its cordon.
pub(crate) async fn cordon(
    cluster: &Cluster,
    nodes: &[Node],
    mark: &Mark,
    cordoned: &mut Vec<Str>,
    printer: &mut Printer,
) -> anyhow::Result<Option<ExitStatus>> {
    for node in nodes {
        let name = &node.metadata.name;
        if node.spec.unschedulable {
            printer.note(format_args!("node/{name}: already cordoned"));
            continue;
        }
        cordoned.push(name.clone());
        let patch = NodePatch {
            annotations: vec![(CORDONED_BY.to_owned(), Some(mark.to_string()))],
            ..NodePatch::cordon(true)
        };
        match cluster.patch_node(name, &patch, false).await {
            Ok(patched) if patched.spec.unschedulable => {
                printer.note(format_args!("node/{name}: cordoned"));
            }
            Ok(_) => bail!("failed to cordon node {name}: the API server left it schedulable"),
            Err(error) => return failed(name, error, printer),
        }
    }
    Ok(None)
}

fn failed(
    node: &str,
    error: ApiError,
    printer: &mut Printer,
) -> anyhow::Result<Option<ExitStatus>> {
    let refused = match &error {
        ApiError::Forbidden(_) => true,
        // A webhook may deny with a status of its own.
        ApiError::Refused(answer) => (400..500).contains(&answer.code) && answer.code != 429,
        _ => false,
    };
    let error = Err(error)
        .with_context(|| format!("failed to cordon node {node}, so that nothing was evicted"));
    match error {
        Err(error) if refused => {
            printer.error(&error);
            Ok(Some(ExitStatus::Impossible))
        }
        other => other,
    }
}
