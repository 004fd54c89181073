//! Takes back KubeVirt's marks on virtual machines that were to leave a node.
//!
//! An eviction marks a virtual machine, and KubeVirt goes on to migrate it until it has left, also
//! after the node is uncordoned (kubevirt/kubevirt#9585). KubeVirt 1.7: `evacuate_cancel.go`. The mark
//! goes first: a migration that is deleted before is created again.

use http::Method;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::{Resource, Target};
use nodelife_cluster::{ApiError, ApiResult, Cluster};
use serde_json::{Value, json};

use crate::reporter::Reporter;
use crate::view::{text, values};

const MACHINES: Resource = Resource::grouped("kubevirt.io", "v1", "virtualmachineinstances");
const MIGRATIONS: Resource =
    Resource::grouped("kubevirt.io", "v1", "virtualmachineinstancemigrations");
const SUBRESOURCES: Resource =
    Resource::grouped("subresources.kubevirt.io", "v1", "virtualmachineinstances");

/// Has the virtual machines stay that were to leave `node`, which is uncordoned. Where KubeVirt is not
/// installed, or may not be seen, there is nothing to do.
pub(crate) async fn cancel(cluster: &Cluster, node: &str, reporter: &mut dyn Reporter) {
    let machines = match cluster.get::<Value>(MACHINES.all()).await {
        Ok(machines) => machines.unwrap_or_default(),
        Err(error) => return tracing::debug!(%error, "virtual machines were not read"),
    };
    for machine in values(&machines, "items") {
        if text(machine, "/status/evacuationNodeName") != node {
            continue;
        }
        let namespace = text(machine, "/metadata/namespace");
        let name = text(machine, "/metadata/name");
        let what = format!("VirtualMachineInstance {namespace}/{name}");
        match cancel_one(cluster, namespace, name, node).await {
            Ok(()) => reporter.note(format_args!("{what}: stays on node {node}")),
            Err(ApiError::NotFound(_)) => reporter.warn(format_args!(
                "{what} may still leave node {node}: its evacuation cannot be taken back before \
                 KubeVirt 1.7"
            )),
            Err(error) => reporter.warn(format_args!(
                "{what} may still leave node {node}: its evacuation was not taken back: {error}"
            )),
        }
    }
}

async fn cancel_one(cluster: &Cluster, namespace: &str, name: &str, node: &str) -> ApiResult<()> {
    let target = SUBRESOURCES.all().in_namespace(namespace).named(name);
    let target = target.at("evacuate/cancel");
    let cancel = Call::on(Method::PUT, "update", target);
    let cancel = cancel.with_json("application/json", &json!({"evacuationNodeName": node}))?;
    cluster.call(&cancel).await?;
    let all = MIGRATIONS.all().in_namespace(namespace);
    let migrations = cluster.get::<Value>(all.clone()).await?.unwrap_or_default();
    for migration in values(&migrations, "items") {
        let left = text(
            migration,
            "/metadata/annotations/kubevirt.io~1evacuationMigration",
        );
        let ended = matches!(text(migration, "/status/phase"), "Succeeded" | "Failed");
        if text(migration, "/spec/vmiName") == name && left == node && !ended {
            let target = all.clone().named(text(migration, "/metadata/name"));
            delete(cluster, target).await?;
        }
    }
    Ok(())
}

/// The deletion of a migration that runs aborts it.
async fn delete(cluster: &Cluster, migration: Target) -> ApiResult<()> {
    match cluster
        .call(&Call::on(Method::DELETE, "delete", migration))
        .await
    {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
