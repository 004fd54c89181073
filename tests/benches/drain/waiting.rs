//! What maintenances cost while they wait, and when there are many: the writes of one over 1,000 nodes where
//! nothing happens, and the memory of forty over 10,000 pods.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams};
use nodelife_tests::fixture::{BudgetFixture, WorkloadFixture};
use nodelife_tests::installation::manifests;
use nodelife_tests::kubectl::Kubectl;
use nodelife_tests::supervise::Supervised;
use nodelife_tests::{ControlPlane, Identity, TestNamespace, wait_until};
use serde_json::{Value, json};

use super::maintenance::{controller, full_nodes, node};
use super::{busy, say};

/// One maintenance over many nodes.
pub(crate) const NAME: &str = "waiting";
/// Many maintenances.
pub(crate) const MANY: &str = "many";

/// Nodes of the one maintenance, with a pod each.
const NODES: usize = 1000;
/// How long is counted, while nothing happens.
const COUNTED: Duration = Duration::from_mins(5);
/// Nodes, maintenances and pods of the many.
const FULL: usize = 100;
const MAINTENANCES: usize = 40;
const PODS_PER_NODE: usize = 100;
const DEPLOYMENTS: usize = 50;
/// Whom the audit log names for the controller.
const USER: &str = "controller";
/// The most memory that the controller has resident, in MiB.
const MEMORY: u64 = 128;
const LONG: Duration = Duration::from_mins(20);

struct Bench {
    plane: ControlPlane,
    client: Client,
    kubectl: Kubectl,
}

/// Whether the limits were kept.
pub(crate) async fn run(scenario: &str) -> Result<bool> {
    let plane = ControlPlane::options()
        .with_everything()
        .controller_manager_flag("--kube-api-qps=1000")
        .controller_manager_flag("--kube-api-burst=2000")
        .audit_policy(json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                // The user is impersonated, which rules do not see.
                {"level": "Metadata", "users": ["nodelife-admin"], "verbs": ["create", "update", "patch", "delete"]},
                {"level": "None"},
            ],
        }))
        .start()
        .await?;
    let kubectl = Kubectl::new(&plane, &Identity::Admin)?;
    let definition = manifests().join("controller/crd-nodemaintenance.yaml");
    kubectl.apply(&std::fs::read_to_string(definition)?).await?;
    wait_until("the resource", LONG, async || {
        let listed = kubectl.run(["get", "nodemaintenances"]).await?;
        Ok((listed.status == Some(0)).then_some(()))
    })
    .await?;
    let bench = Bench {
        client: plane.admin().await?,
        kubectl,
        plane,
    };
    match scenario {
        MANY => bench.many().await,
        _ => bench.one().await,
    }
}

impl Bench {
    /// One maintenance of all nodes: first a budget lets no pod go, then all nodes are empty.
    async fn one(&self) -> Result<bool> {
        let namespace = TestNamespace::create(&self.plane, "one").await?;
        let nodes = self.set_up(&namespace, NODES, 1, 1, json!(0)).await?;
        let controller = self.controller("one")?;
        self.create("one", &nodes).await?;
        self.wait("one", "Blocked", "True").await?;
        let blocked = self.writes("blocked by a budget").await?;
        let budgets: Api<PodDisruptionBudget> = namespace.api();
        budgets.delete("web-0", &DeleteParams::default()).await?;
        self.wait("one", "Drained", "True").await?;
        let drained = self.writes("drained").await?;
        say(&format!(
            "the controller at most {} MiB\n{}",
            controller.peak()? >> 10,
            busy()
        ))?;
        controller.terminate(LONG).await?;
        Ok(blocked && drained)
    }

    /// Many maintenances at once, until all have drained their nodes.
    async fn many(&self) -> Result<bool> {
        let namespace = TestNamespace::create(&self.plane, "many").await?;
        let share = json!("25%");
        let nodes = self
            .set_up(&namespace, FULL, PODS_PER_NODE, DEPLOYMENTS, share)
            .await?;
        let controller = self.controller("many")?;
        let names: Vec<String> = (0..MAINTENANCES).map(|i| format!("many-{i}")).collect();
        let begun = Instant::now();
        for (name, nodes) in names.iter().zip(nodes.chunks(2)) {
            self.create(name, nodes).await?;
        }
        for name in &names {
            self.wait(name, "Drained", "True").await?;
        }
        let peak = controller.peak()? >> 10;
        say(&format!(
            "\n{MAINTENANCES} maintenances of two nodes each, over {} pods: {:.0} s; the controller at most \
             {peak} MiB\n{}",
            FULL * PODS_PER_NODE,
            begun.elapsed().as_secs_f64(),
            busy()
        ))?;
        if peak > MEMORY {
            say(&format!("  NOT KEPT: {MEMORY} MiB"))?;
        }
        let delete = ["delete", "nodemaintenances", "--all"];
        self.kubectl.run(delete).await?.success()?;
        controller.terminate(LONG).await?;
        let deployments: Api<Deployment> = namespace.api();
        let (how, all) = (DeleteParams::background(), ListParams::default());
        deployments.delete_collection(&how, &all).await?;
        namespace.delete().await?;
        Ok(peak <= MEMORY)
    }

    /// Counts what the controller writes, but for the Lease of its election, and questions about its rights,
    /// of which nothing is stored. Whether it is at most one write a minute.
    async fn writes(&self, state: &str) -> Result<bool> {
        // What follows the change of state belongs to it.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let before = self.plane.audit_position()?;
        tokio::time::sleep(COUNTED).await;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut election = 0;
        for event in self.plane.audit_events_after(before)? {
            let Some(object) = event.object_ref.as_ref() else {
                continue;
            };
            if event.username() != USER || object.resource.starts_with("selfsubject") {
                continue;
            }
            if object.resource == "leases" && object.name == "nodelife-controller" {
                election += 1;
                continue;
            }
            let what = format!("{} {}/{}", event.verb, object.resource, object.subresource);
            *counts.entry(what).or_default() += 1;
        }
        ensure!(election > 0, "the audit log has no write of the controller");
        let (sum, minutes) = (counts.values().sum::<usize>(), COUNTED.as_secs() / 60);
        say(&format!(
            "\n{NODES} nodes in one maintenance, {state}: {sum} writes in {minutes} minutes {counts:?}, beside \
             {election} of the election's Lease"
        ))?;
        let kept = u64::try_from(sum)? <= minutes;
        if !kept {
            say("  NOT KEPT: one write a minute")?;
        }
        Ok(kept)
    }

    fn controller(&self, name: &str) -> Result<Supervised> {
        // The parts of the control plane are administrators, too.
        let user = Identity::User {
            name: USER.to_owned(),
            groups: vec!["system:masters".to_owned()],
        };
        let kubeconfig = self.plane.kubeconfig_file(&user)?;
        controller(&self.plane, &kubeconfig, name)
    }

    async fn create(&self, name: &str, nodes: &[String]) -> Result<()> {
        let object = json!({
            "apiVersion": "nodelife.dev/v1alpha1",
            "kind": "NodeMaintenance",
            "metadata": {"name": name},
            "spec": {"nodes": nodes, "drain": {"concurrency": nodes.len()}},
        });
        let path = "/apis/nodelife.dev/v1alpha1/nodemaintenances";
        let request = http::Request::post(path).header("Content-Type", "application/json");
        let request = request.body(serde_json::to_vec(&object)?)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }

    async fn wait(&self, name: &str, condition: &str, status: &str) -> Result<()> {
        let path = format!("/apis/nodelife.dev/v1alpha1/nodemaintenances/{name}");
        wait_until(&format!("{condition} of {name}"), LONG, async || {
            let request = http::Request::get(&path).body(Vec::new())?;
            let object: Value = self.client.request(request).await?;
            let conditions = object.pointer("/status/conditions");
            let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
            let found = conditions.find(|one| one["type"] == condition);
            Ok(found.filter(|one| one["status"] == status).map(drop))
        })
        .await
    }

    /// Nodes with so many pods each, of so many Deployments with a budget, and room elsewhere.
    async fn set_up(
        &self,
        namespace: &TestNamespace,
        nodes: usize,
        pods_per_node: usize,
        deployments: usize,
        budget: Value,
    ) -> Result<Vec<String>> {
        let pool = &namespace.name;
        let names = full_nodes(&self.client, pool, nodes, pods_per_node).await?;
        let pods = nodes * pods_per_node;
        for d in 0..deployments {
            let app = format!("web-{d}");
            let web = WorkloadFixture::deployment(&app, u32::try_from(pods / deployments)?);
            let here = json!({"nodeSelector": {"pool": pool}});
            web.pod_spec(here).create(namespace).await?;
            let budget = BudgetFixture::max_unavailable(&app, &app, budget.clone());
            budget.create(namespace).await?;
        }
        let api: Api<Deployment> = namespace.api();
        wait_until("all pods available", LONG, async || {
            let all = api.list(&ListParams::default()).await?.items;
            let available = all
                .iter()
                .filter_map(|web| web.status.as_ref()?.available_replicas);
            let available: i32 = available.sum();
            ensure!(usize::try_from(available)? == pods, "{available} pods");
            Ok(Some(()))
        })
        .await
        .context("the pods do not become available")?;
        node(&self.client, pool, format!("{pool}-other"), pods + 100).await?;
        Ok(names)
    }
}
