//! `--surge=restart`: restarts the rollout of Deployments whose budget can never allow an eviction,
//! so that a new pod is Ready before the old one stops.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::{Resource, Target};
use nodelife_cluster::{ApiResult, Cluster};
use nodelife_core::node_marks::FIELD_MANAGER;
use nodelife_core::object::WorkloadKind;
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainPlan, EvictionResult, Impossible};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::removal::{RemovalMethod, remove};
use super::view::ClusterView;
use crate::reporter::Reporter;

const DEPLOYMENTS: Resource = Resource::grouped("apps", "v1", "deployments");

/// The annotation that restarts the rollout of a Deployment (`kubectl rollout restart` writes the same).
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// The plan's reason for pods that wait for a rollout.
const HOW: &str = "replaced by a rollout of its Deployment (--surge=restart)";

type Key = (Str, Str);

#[derive(Default)]
pub(crate) struct Surges {
    wanted: BTreeMap<Str, BTreeSet<Key>>,
    started: BTreeSet<Key>,
    /// The pods that wait for it, and why they could not be evicted.
    relieved: BTreeMap<Key, Vec<(Str, Impossible)>>,
    sent: JoinSet<(Key, ApiResult<()>)>,
}

impl Surges {
    /// Selects the Deployments whose pods the plan calls impossible to evict and that a rollout
    /// would help, and has the plan wait for them. None whose pods the user may not evict
    /// (`method`): its rollout would be for nothing, and nothing takes it back.
    pub(crate) async fn select(
        cluster: &Cluster,
        view: &ClusterView,
        plan: &mut DrainPlan,
        method: RemovalMethod,
        reporter: &mut dyn Reporter,
    ) -> ApiResult<Self> {
        let mut surges = Self::default();
        let mut judged: BTreeMap<Key, Option<String>> = BTreeMap::new();
        for (uid, why) in plan.impossible.clone() {
            if !matches!(why, Impossible::NeverAllows { .. }) {
                continue;
            }
            let Some(pod) = view.pod(&uid) else { continue };
            let scaler = view.store.workloads.scaler(pod);
            let Some(scaler) = scaler.filter(|scaler| scaler.kind == WorkloadKind::Deployment)
            else {
                let meta = &pod.metadata;
                reporter.warn(format_args!(
                    "--surge does not help {}/{}: it adds pods to Deployments, and this pod is {}",
                    meta.namespace,
                    meta.name,
                    meta.controller().map_or_else(
                        || "without a controller".to_owned(),
                        |owner| format!("of {} {}", owner.kind, owner.name)
                    )
                ));
                continue;
            };
            let meta = &scaler.metadata;
            let key = (meta.namespace.clone(), meta.name.clone());
            let against = if let Some(against) = judged.get(&key) {
                against.clone()
            } else {
                let found = cluster.get::<Value>(target(&key)).await?;
                let mut against = objection(&found.unwrap_or_default()).map(str::to_owned);
                if against.is_none() {
                    let tried = restart(cluster, &key, true).await;
                    against = tried.err().map(|error| error.to_string());
                }
                if against.is_none() {
                    let which = (&key.0, &pod.metadata.name, &uid);
                    if let EvictionResult::Forbidden(why) =
                        remove(cluster, method, which, true).await
                    {
                        against = Some(format!("evicting its pods is forbidden: {why}"));
                    }
                }
                // A new pod that has no place would stay Pending, and the rollout half-way.
                against = against.or_else(|| view.without_place(pod, &plan.nodes));
                if let Some(against) = &against {
                    let (namespace, name) = (&key.0, &key.1);
                    reporter.warn(format_args!(
                        "--surge does not help Deployment {namespace}/{name}: {against}"
                    ));
                }
                judged.insert(key.clone(), against.clone());
                against
            };
            if against.is_some() {
                continue;
            }
            plan.relieve(&uid, HOW);
            let node = pod.spec.node_name.clone();
            if !why.may_be_scaled() {
                let relieved = surges.relieved.entry(key.clone()).or_default();
                relieved.push((uid, why));
            }
            surges.wanted.entry(node).or_default().insert(key);
        }
        Ok(surges)
    }

    pub(crate) fn start(&mut self, cluster: &Cluster, node: &Str) {
        for key in self.wanted.remove(node).unwrap_or_default() {
            if !self.started.insert(key.clone()) {
                continue;
            }
            let cluster = cluster.clone();
            self.sent.spawn(async move {
                let done = restart(&cluster, &key, false).await;
                (key, done)
            });
        }
    }

    /// The next rollout that was not restarted: the sentence for the user, and its pods, which
    /// cannot be evicted after all. May be cancelled without losing one.
    pub(crate) async fn next_failed(&mut self) -> Option<(String, Vec<(Str, Impossible)>)> {
        loop {
            if let Ok((key, Err(error))) = self.sent.join_next().await? {
                let (namespace, name) = &key;
                let text = format!("failed to restart Deployment {namespace}/{name}: {error:#}");
                return Some((text, self.relieved.remove(&key).unwrap_or_default()));
            }
        }
    }

    pub(crate) async fn finish(&mut self, reporter: &mut dyn Reporter) {
        while let Some((text, _)) = self.next_failed().await {
            reporter.warn(text);
        }
    }
}

/// Why a rollout would not help, or would not start.
fn objection(deployment: &Value) -> Option<&'static str> {
    let at = |path: &str| deployment.pointer(path);
    if at("/spec/paused").is_some_and(|paused| *paused == true) {
        return Some("it is paused");
    }
    if at("/spec/strategy/type").is_some_and(|kind| kind == "Recreate") {
        return Some("its strategy is Recreate, which stops the old pod first");
    }
    let is = |path: &str| at(path).and_then(Value::as_i64).unwrap_or(0);
    let (wanted, updated) = (is("/spec/replicas"), is("/status/updatedReplicas"));
    let there = is("/status/replicas");
    // `DeploymentStatusViewer` of staging/src/k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go, v1.36.3.
    let is_under_way =
        updated < wanted || there > updated || is("/status/availableReplicas") < wanted;
    if there > 0 && is_under_way {
        return Some("its last rollout is not complete");
    }
    let surge = at("/spec/strategy/rollingUpdate/maxSurge");
    let none = surge.is_some_and(|surge| *surge == 0 || *surge == "0%");
    none.then_some("its maxSurge is 0, so a rollout stops the old pod first")
}

fn target((namespace, name): &Key) -> Target {
    DEPLOYMENTS.all().in_namespace(namespace).named(name)
}

async fn restart(cluster: &Cluster, key: &Key, dry_run: bool) -> ApiResult<()> {
    let now = cluster.clock().now().to_string();
    let annotations = json!({"annotations": {RESTARTED_AT: now}});
    let body = json!({"spec": {"template": {"metadata": annotations}}});
    let mut call = Call::on(Method::PATCH, "patch", target(key))
        .with_query("fieldManager", FIELD_MANAGER)
        .with_json("application/merge-patch+json", &body)?;
    if dry_run {
        call = call.with_query("dryRun", "All");
    }
    cluster.read(&call).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_needs_a_rollout_that_starts_a_new_pod_first() {
        let with = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let rolling = with(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}));
        assert_eq!(objection(&rolling), None);
        for strategy in [
            json!({"type": "Recreate"}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}),
        ] {
            assert!(objection(&with(strategy)).is_some());
        }
        assert!(objection(&json!({"spec": {"paused": true}})).is_some());
        // An old pod is left where there are more pods than updated ones, whatever is available.
        for (there, available, helps) in [(2, 1, false), (3, 2, false), (2, 2, true)] {
            let status =
                json!({"replicas": there, "updatedReplicas": 2, "availableReplicas": available});
            let rolling = json!({"spec": {"replicas": 2}, "status": status});
            assert_eq!(objection(&rolling).is_none(), helps);
        }
    }
}
