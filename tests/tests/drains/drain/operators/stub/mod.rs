//! Stand-ins for operators: each does, step by step, what the source of its operator does about the
//! objects of a namespace. Nothing of nodelife is used here.
//!
//! Besides, [`count_budgets`] does the part of the disruption controller, and pods that are not Ready
//! become Ready, as they would with a kubelet.

pub(super) mod cnpg;
pub(super) mod kubevirt;
pub(super) mod longhorn;
pub(super) mod rook;
pub(super) mod strimzi;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::ApiResource;
use nodelife_tests::TestNamespace;
use nodelife_tests::proxy::Proxy;
use serde_json::{Value, json};

/// What an operator sees and writes.
pub(super) struct World<'a> {
    pub(super) ns: &'a TestNamespace,
    /// Through which the drain's requests go.
    pub(super) proxy: &'a Proxy,
}

impl World<'_> {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = match kind {
            "Pod" | "ConfigMap" => ("", "v1"),
            "Deployment" => ("apps", "v1"),
            "PodDisruptionBudget" => ("policy", "v1"),
            "Cluster" => ("postgresql.cnpg.io", "v1"),
            "Kafka" => ("kafka.strimzi.io", "v1"),
            "CephCluster" => ("ceph.rook.io", "v1"),
            "VirtualMachineInstance" | "VirtualMachineInstanceMigration" => ("kubevirt.io", "v1"),
            _ => ("longhorn.io", "v1beta2"),
        };
        let gvk = kube::core::GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk(&gvk);
        Api::namespaced_with(self.ns.client().clone(), &self.ns.name, &resource)
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let listed = self.api(kind).list(&ListParams::default()).await.unwrap();
        let items = listed.items.into_iter();
        items
            .map(|item| serde_json::to_value(item).unwrap())
            .collect()
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        // Somebody may have deleted it meanwhile.
        drop(api.patch(name, &params, &Patch::Merge(patch)).await);
    }

    async fn patch_status(&self, kind: &str, name: &str, status: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        let patch = Patch::Merge(json!({"status": status}));
        drop(api.patch_status(name, &params, &patch).await);
    }

    async fn delete(&self, kind: &str, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        drop(self.api(kind).delete(name, &now).await);
    }

    pub(super) async fn is_cordoned(&self, node: &str) -> bool {
        let nodes: Api<Node> = Api::all(self.ns.client().clone());
        let node = nodes.get_opt(node).await.unwrap();
        node.and_then(|node| node.spec?.unschedulable) == Some(true)
    }

    async fn exists(&self, node: &str) -> bool {
        let nodes: Api<Node> = Api::all(self.ns.client().clone());
        nodes.get_opt(node).await.unwrap().is_some()
    }

    /// The disruption controller, for budgets of numbers.
    pub(super) async fn count_budgets(&self) {
        let pods = self.list("Pod").await;
        for budget in self.list("PodDisruptionBudget").await {
            let selector = budget["spec"]["selector"]["matchLabels"]
                .as_object()
                .unwrap();
            let selected = pods.iter().filter(|pod| {
                let labels = &pod["metadata"]["labels"];
                selector.iter().all(|(key, value)| labels[key] == *value)
            });
            let selected: Vec<&Value> = selected.collect();
            let expected = selected.len() as u64;
            let healthy = selected.into_iter().filter(|pod| is_ready(pod)).count() as u64;
            let spec = &budget["spec"];
            let desired = match spec["maxUnavailable"].as_u64() {
                Some(most) => expected.saturating_sub(most),
                None => spec["minAvailable"].as_u64().unwrap_or(1),
            };
            let allowed = if expected == 0 {
                0
            } else {
                healthy.saturating_sub(desired)
            };
            let status = json!({
                "disruptionsAllowed": allowed, "currentHealthy": healthy, "expectedPods": expected,
                "desiredHealthy": desired, "observedGeneration": budget["metadata"]["generation"],
                "disruptedPods": null,
            });
            let known = &budget["status"];
            if known["disruptionsAllowed"] != status["disruptionsAllowed"]
                || known["currentHealthy"] != status["currentHealthy"]
            {
                let name = name_of(&budget);
                self.patch_status("PodDisruptionBudget", name, status).await;
            }
        }
    }

    /// The kubelets.
    pub(super) async fn start_pods(&self) {
        for pod in self.list("Pod").await {
            let is_bound = pod["spec"]["nodeName"].is_string();
            if is_bound && pod["status"]["phase"] == "Running" && !is_ready(&pod) {
                let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
                self.patch_status("Pod", name_of(&pod), status).await;
            }
        }
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}
