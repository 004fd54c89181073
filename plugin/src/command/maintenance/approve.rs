//! `maintenance approve`: approves the plan of a maintenance that waits for it.

use anyhow::{Context as _, bail, ensure};
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::node_maintenance::{NodeMaintenance, PlanStatus};

use super::{ApproveArgs, describe, object};
use crate::exit::{Exit, ExitStatus};
use crate::output::Printer;

/// Prints the plan, and approves this one and no other.
pub(super) async fn approve(cluster: &Cluster, args: &ApproveArgs, printer: &mut Printer) -> Exit {
    let name = args.name.name();
    let found = object::get(cluster, name).await?;
    let digest = &waiting(&found, args.digest.as_deref())?.digest;
    describe::plan(&found, printer)?;
    let approved = cluster.approve_maintenance(&found, digest).await;
    if matches!(approved, Err(ApiError::NotFound(_) | ApiError::Refused(_))) {
        // It has changed meanwhile, or is gone.
        waiting(&object::get(cluster, name).await?, Some(digest))?;
    }
    approved.with_context(|| format!("failed to approve the plan of nodemaintenance/{name}"))?;
    printer.paragraph(format_args!("nodemaintenance.nodelife.dev/{name} approved"))?;
    Ok(ExitStatus::Done)
}

/// The plan that waits for an approval: that of this digest, if one is given.
fn waiting<'a>(one: &'a NodeMaintenance, digest: Option<&str>) -> anyhow::Result<&'a PlanStatus> {
    let name = &one.metadata.name;
    if let Some(why) = one.unreadable() {
        bail!("this version of nodelife cannot read nodemaintenance/{name}: {why}");
    }
    if one.is_deleted() || one.status.finished_at.is_some() {
        bail!("nodemaintenance/{name} has ended: {}", one.state());
    }
    if !one.spec.needs_approval() {
        bail!("nodemaintenance/{name} needs no approval");
    }
    let Some(plan) = &one.status.plan else {
        let why = one.status.blocked().map(|why| &why.message);
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        bail!("nodemaintenance/{name} has no plan yet{why}");
    };
    if let Some(digest) = digest.filter(|digest| plan.digest != **digest) {
        bail!(
            "the plan of nodemaintenance/{name} is {}, not {digest}",
            plan.digest
        );
    }
    let approved = one.spec.approved_plan.as_ref();
    ensure!(
        approved != Some(&plan.digest),
        "nodemaintenance/{name} is already approved: {}",
        plan.digest
    );
    Ok(plan)
}
