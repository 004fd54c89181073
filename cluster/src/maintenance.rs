//! Reads and writes NodeMaintenance objects.

use nodelife_core::node_maintenance::{
    FINALIZER, KIND, MaintenanceSpec, MaintenanceStatus, NodeMaintenance,
};
use nodelife_core::node_marks::FIELD_MANAGER;
use serde_json::{Value, json};

use crate::client::Cluster;
use crate::error::ApiResult;
use crate::request::Call;
use crate::resource::NODE_MAINTENANCES;

/// Names who asks for a maintenance, who cannot approve it where manifests/controller/approval is installed.
const REQUESTED_BY: &str = "nodelife.dev/requested-by";

impl Cluster {
    pub async fn new_maintenance(
        &self,
        name: Option<&str>,
        spec: &MaintenanceSpec,
    ) -> ApiResult<Value> {
        let mut metadata = match name {
            Some(name) => json!({"name": name}),
            None => json!({"generateName": "drain-"}),
        };
        if spec.needs_approval()
            && let Some(metadata) = metadata.as_object_mut()
        {
            let user = self.user().await?;
            metadata.insert("annotations".to_owned(), json!({REQUESTED_BY: user}));
        }
        Ok(json!({
            "apiVersion": nodelife_core::API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": spec,
        }))
    }

    /// Creates a maintenance; with `dry_run` the API server says what it would create.
    /// Fails with [`NotFound`](crate::ApiError::NotFound) if the definition is not installed.
    pub async fn create_maintenance(&self, maintenance: &Value, dry_run: bool) -> ApiResult<Value> {
        let mut call = Call::create(NODE_MAINTENANCES.all(), maintenance)?
            .with_query("fieldManager", FIELD_MANAGER)
            .with_query("fieldValidation", "Strict");
        if dry_run {
            call = call.with_query("dryRun", "All");
        }
        self.call(&call).await?.json(&call)
    }

    /// Approves a plan of exactly this object; if it shows one, only while it is still that plan.
    /// Fails with [`Refused`](crate::ApiError::Refused) and 422 if it is another plan or object by now.
    pub async fn approve_maintenance(
        &self,
        maintenance: &NodeMaintenance,
        digest: &str,
    ) -> ApiResult<()> {
        let meta = &maintenance.metadata;
        let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
        let plan = maintenance.status.plan.as_ref();
        let plan = plan.map(|plan| test("/status/plan/digest", &plan.digest));
        let change = json!({"op": "add", "path": "/spec/approvedPlan", "value": digest});
        let changes = [Some(test("/metadata/uid", &meta.uid)), plan, Some(change)];
        let changes: Vec<Value> = changes.into_iter().flatten().collect();
        let target = NODE_MAINTENANCES.all().named(&meta.name);
        let call = Call::patch(target, "application/json-patch+json", &changes)?;
        self.read(&call).await.map(drop)
    }

    /// Writes the status of exactly this object, of its UID.
    /// Fails with [`Refused`](crate::ApiError::Refused) and 422 if another object bears its name.
    pub async fn write_maintenance_status(
        &self,
        maintenance: &NodeMaintenance,
        status: &MaintenanceStatus,
    ) -> ApiResult<NodeMaintenance> {
        let meta = &maintenance.metadata;
        let target = NODE_MAINTENANCES.all().named(&meta.name).at("status");
        let body = json!([
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let call = Call::patch(target, "application/json-patch+json", &body)?;
        self.read(&call).await?.json(&call)
    }

    /// Adds or removes the finalizer of this object.
    /// Fails with [`Conflict`](crate::ApiError::Conflict) if the object has changed since it was read.
    pub async fn set_maintenance_finalizer(
        &self,
        maintenance: &NodeMaintenance,
        present: bool,
    ) -> ApiResult<()> {
        let meta = &maintenance.metadata;
        let others = meta.finalizers.iter().map(|other| &**other);
        let own = present.then_some(FINALIZER);
        let finalizers: Vec<&str> = others.filter(|one| *one != FINALIZER).chain(own).collect();
        let body = json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        let target = NODE_MAINTENANCES.all().named(&meta.name);
        let call = Call::patch(target, "application/merge-patch+json", &body)?;
        self.read(&call).await.map(drop)
    }

    pub async fn delete_maintenance(&self, maintenance: &NodeMaintenance) -> ApiResult<()> {
        let meta = &maintenance.metadata;
        let target = NODE_MAINTENANCES.all().named(&meta.name);
        let call = Call::delete(target, &json!({"uid": meta.uid}))?;
        self.read(&call).await.map(drop)
    }
}
