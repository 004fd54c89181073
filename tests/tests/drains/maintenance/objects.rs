//! `Objects`: NodeMaintenance objects, made and read without kubectl.

use std::time::Duration;

use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use nodelife_tests::{TIMEOUT, wait_until};
use serde_json::{Value, json};

/// How long a maintenance may take. An eviction that is cut off between the two writes of the API
/// server, of the budget and of the pod, counts against its budget for two minutes (v1.37.2,
/// `pkg/controller/disruption/disruption.go`, `DeletionTimeout`).
const END: Duration = TIMEOUT.saturating_mul(3);

#[derive(Clone)]
pub(super) struct Objects {
    api: Api<DynamicObject>,
}

/// Where they are.
pub(super) fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("nodelife.dev", "v1alpha1", "NodeMaintenance");
    ApiResource::from_gvk(&kind)
}

impl Objects {
    pub(super) fn new(client: Client) -> Self {
        Self {
            api: Api::all_with(client, &resource()),
        }
    }

    pub(super) async fn create(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "nodelife.dev/v1alpha1",
            "kind": "NodeMaintenance",
            "metadata": {"name": name},
            "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        let created = self.api.create(&PostParams::default(), &object).await;
        created.unwrap();
    }

    /// Changes the spec; the version that the object got.
    pub(super) async fn patch(&self, name: &str, spec: &Value) -> u64 {
        let patch = Patch::Merge(json!({"spec": spec}));
        let parameters = PatchParams::default();
        let patched = self.api.patch(name, &parameters, &patch).await;
        let version = patched.unwrap().metadata.resource_version.unwrap();
        version.parse().unwrap()
    }

    pub(super) async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.api.get(name).await.unwrap()).unwrap()
    }

    pub(super) async fn status(&self, name: &str) -> kube::Result<Value> {
        let object = self.api.get(name).await?;
        Ok(object.data["status"].clone())
    }

    /// Its status, when `holds` does.
    pub(super) async fn wait(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("{what} of {name}");
        let found = wait_until(&what, END, async || {
            let status = self.status(name).await?;
            anyhow::ensure!(holds(&status), "{status}");
            Ok(Some(status))
        });
        found.await.unwrap()
    }

    /// Its status at the end.
    pub(super) async fn finished(&self, name: &str) -> Value {
        let is_finished = |status: &Value| status["finishedAt"].is_string();
        self.wait(name, "the end", is_finished).await
    }

    /// Deletes it and waits until it is gone: then all is given back.
    pub(super) async fn cancel(&self, name: &str) {
        wait_until(&format!("{name} gone"), TIMEOUT, async || {
            let Some(object) = self.api.get_opt(name).await? else {
                return Ok(Some(()));
            };
            if object.metadata.deletion_timestamp.is_none() {
                let _ = self.api.delete(name, &DeleteParams::default()).await?;
            }
            anyhow::bail!("{}", object.data["status"]);
        })
        .await
        .unwrap();
    }
}
