//! Takes back KubeVirt's marks on virtual machines that were to leave a node.
//!
//! An eviction marks a virtual machine, and KubeVirt goes on to migrate it until it has left, also
//! after the node is uncordoned (kubevirt/kubevirt#9585). KubeVirt 1.7: `evacuate_cancel.go`. The mark
//! goes first: a migration that is deleted before is created again.

use http::Method;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::{Resource, Target};
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::object::Meta;
use nodelife_core::text::Str;
use serde::Deserialize;
use serde_json::json;

use crate::reporter::Reporter;

const MACHINES: Resource = Resource::grouped("kubevirt.io", "v1", "virtualmachineinstances");
const MIGRATIONS: Resource =
    Resource::grouped("kubevirt.io", "v1", "virtualmachineinstancemigrations");
const SUBRESOURCES: Resource =
    Resource::grouped("subresources.kubevirt.io", "v1", "virtualmachineinstances");

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Machine {
    metadata: Meta,
    status: MachineStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MachineStatus {
    evacuation_node_name: Str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Migration {
    metadata: Meta,
    spec: MigrationSpec,
    status: MigrationStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MigrationSpec {
    vmi_name: Str,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MigrationStatus {
    phase: Str,
}

/// Has the virtual machines stay that were to leave `node`, which is uncordoned. Where KubeVirt is not
/// installed, or may not be seen, there is nothing to do.
pub(crate) async fn cancel(cluster: &Cluster, node: &str, reporter: &mut dyn Reporter) {
    let machines = match cluster.get::<List<Machine>>(MACHINES.all()).await {
        Ok(machines) => machines.map(|list| list.items).unwrap_or_default(),
        Err(error) => return tracing::debug!(%error, "virtual machines were not read"),
    };
    for machine in machines {
        if machine.status.evacuation_node_name != node {
            continue;
        }
        let (namespace, name) = (&machine.metadata.namespace, &machine.metadata.name);
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

async fn cancel_one(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    node: &str,
) -> Result<(), ApiError> {
    let target = SUBRESOURCES.all().in_namespace(namespace).named(name);
    let target = target.at("evacuate/cancel");
    let cancel = Call::on(Method::PUT, "update", target);
    let cancel = cancel.with_json("application/json", &json!({"evacuationNodeName": node}))?;
    cluster.call(&cancel).await?;
    let all = MIGRATIONS.all().in_namespace(namespace);
    let migrations = cluster.get::<List<Migration>>(all.clone()).await?;
    for migration in migrations.map(|list| list.items).unwrap_or_default() {
        let left = migration
            .metadata
            .annotations
            .get("kubevirt.io/evacuationMigration");
        let ended = matches!(migration.status.phase.as_str(), "Succeeded" | "Failed");
        if migration.spec.vmi_name == name && left.is_some_and(|left| left == node) && !ended {
            delete(cluster, all.clone().named(&migration.metadata.name)).await?;
        }
    }
    Ok(())
}

/// The deletion of a migration that runs aborts it.
async fn delete(cluster: &Cluster, migration: Target) -> Result<(), ApiError> {
    match cluster
        .call(&Call::on(Method::DELETE, "delete", migration))
        .await
    {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
