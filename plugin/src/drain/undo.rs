//! Takes back the cordon of a drain, and no other.

use nodelife_cluster::node::NodePatch;
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::drain::{CORDONED_BY, Mark, Undo};
use nodelife_core::text::Str;

use crate::output::Printer;

/// How often a node is read again that changed under the patch.
const TRIES: usize = 5;

/// Uncordons those of the nodes that a drain cordoned; `run`: only this one. `dry`: says it
/// alone.
pub(crate) async fn undo(
    cluster: &Cluster,
    nodes: &[Str],
    run: Option<&Mark>,
    dry: bool,
    printer: &mut Printer,
) -> Result<(), ApiError> {
    for node in nodes {
        let mut tries = 1;
        let done = loop {
            match one(cluster, node, run, dry).await {
                Err(ApiError::Conflict(_)) if tries < TRIES => tries += 1,
                done => break done?,
            }
        };
        let would = if dry { "would be " } else { "" };
        match done {
            Undo::Uncordon => printer.note(format_args!("node/{node}: {would}uncordoned")),
            Undo::Forget | Undo::Nothing => {
                printer.note(format_args!("node/{node}: not cordoned"));
            }
            Undo::Foreign => printer.note(format_args!(
                "node/{node}: left cordoned: it was not a drain of nodelife that cordoned it"
            )),
            Undo::Again => printer.note(format_args!(
                "node/{node}: left cordoned: somebody has cordoned it again since"
            )),
            Undo::OtherRun => printer.note(format_args!(
                "node/{node}: left cordoned: another drain cordoned it"
            )),
        }
    }
    Ok(())
}

async fn one(
    cluster: &Cluster,
    name: &Str,
    run: Option<&Mark>,
    dry: bool,
) -> Result<Undo, ApiError> {
    let (node, writer) = cluster.node_and_cordoner(name).await?;
    let undo = nodelife_core::drain::undo(&node, writer.as_deref(), run);
    let patch = NodePatch {
        unschedulable: (undo == Undo::Uncordon).then_some(false),
        annotations: vec![(CORDONED_BY.to_owned(), None)],
        resource_version: Some(node.metadata.resource_version.to_string()),
        ..NodePatch::default()
    };
    if matches!(undo, Undo::Uncordon | Undo::Forget) && !dry {
        cluster.patch_node(name, &patch, false).await?;
    }
    Ok(undo)
}
