//! Reads and writes NodeMaintenance objects.

use nodelife_core::node_maintenance::{
    Approval, KIND, MaintenanceSpec, MaintenanceStatus, NodeMaintenance,
};
use nodelife_core::node_marks::FIELD_MANAGER;
use serde_json::{Value, json};

use crate::client::Cluster;
use crate::error::ApiError;
use crate::request::Call;
use crate::resource::NODE_MAINTENANCES;

/// Names who asks for a maintenance, who cannot approve it where manifests/controller/approval is installed.
const REQUESTED_BY: &str = "nodelife.dev/requested-by";

impl Cluster {
    /// Creates a maintenance, of this name or of one that the server makes.
    ///
    /// # Errors
    ///
    /// [`ApiError::NotFound`] if the definition is not installed.
    pub async fn create_maintenance(
        &self,
        name: Option<&str>,
        spec: &MaintenanceSpec,
    ) -> Result<NodeMaintenance, ApiError> {
        let annotations = match spec.approval {
            Approval::Required => {
                let review = self.who_am_i().await?;
                json!({REQUESTED_BY: review.pointer("/status/userInfo/username")})
            }
            Approval::None => json!({}),
        };
        let metadata = match name {
            Some(name) => json!({"name": name, "annotations": annotations}),
            None => json!({"generateName": "drain-", "annotations": annotations}),
        };
        let body = json!({
            "apiVersion": nodelife_core::API_VERSION,
            "kind": KIND,
            "metadata": metadata,
            "spec": spec,
        });
        let call = Call::create(NODE_MAINTENANCES.all(), &body)?
            .with_query("fieldManager", FIELD_MANAGER)
            .with_query("fieldValidation", "Strict");
        self.call(&call).await?.json(&call)
    }

    /// Approves a plan of exactly this object; if it shows one, only while it is still that plan.
    ///
    /// # Errors
    ///
    /// [`ApiError::Refused`] with 422 if it is another plan or object by now.
    pub async fn approve_maintenance(
        &self,
        maintenance: &NodeMaintenance,
        digest: &str,
    ) -> Result<(), ApiError> {
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
    ///
    /// # Errors
    ///
    /// [`ApiError::Refused`] with 422 if another object bears its name.
    pub async fn write_maintenance_status(
        &self,
        maintenance: &NodeMaintenance,
        status: &MaintenanceStatus,
    ) -> Result<NodeMaintenance, ApiError> {
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
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if the object has changed since it was read.
    pub async fn set_maintenance_finalizer(
        &self,
        maintenance: &NodeMaintenance,
        finalizer: &str,
        present: bool,
    ) -> Result<(), ApiError> {
        let meta = &maintenance.metadata;
        let others = meta.finalizers.iter();
        let mut finalizers: Vec<Value> = others
            .filter(|other| **other != finalizer)
            .map(|other| json!(other))
            .collect();
        if present {
            finalizers.push(json!(finalizer));
        }
        let body = json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        }});
        let target = NODE_MAINTENANCES.all().named(&meta.name);
        let call = Call::patch(target, "application/merge-patch+json", &body)?;
        self.read(&call).await.map(drop)
    }

    /// Asks for the deletion of exactly this object.
    pub async fn delete_maintenance(&self, maintenance: &NodeMaintenance) -> Result<(), ApiError> {
        let meta = &maintenance.metadata;
        let target = NODE_MAINTENANCES.all().named(&meta.name);
        let call = Call::delete(target, &json!({"uid": meta.uid}))?;
        self.read(&call).await.map(drop)
    }
}
