//! `--surge`: adds a pod to Deployments whose budget can never allow an eviction.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, Cluster, retry_on_conflict};
use nodelife_core::drain::{DrainPlan, EvictionResult, FIELD_MANAGER, Impossible};
use nodelife_core::object::{IntOrString, WorkloadKind};
use nodelife_core::text::Str;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::removal::{RemovalMethod, remove};
use super::view::ClusterView;
use crate::cli::drain::SurgeStrategy;
use crate::output::Printer;

const DEPLOYMENTS: Resource = Resource::grouped("apps", "v1", "deployments");

/// What a Deployment bears that was scaled up: how many replicas it had.
const SURGED_FROM: &str = "nodelife.dev/surged-from";

/// What makes a Deployment start a new pod (`kubectl rollout restart` writes the same).
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// A Deployment: namespace and name.
type Key = (Str, Str);

/// The Deployments that get another pod.
#[derive(Default)]
pub(crate) struct Surges {
    how: Option<SurgeStrategy>,
    /// By the node whose pods wait for it.
    wanted: BTreeMap<Str, BTreeSet<Key>>,
    started: BTreeSet<Key>,
    /// The pods that wait for it, and why they could not be evicted.
    relieved: BTreeMap<Key, Vec<(Str, Impossible)>>,
    sent: JoinSet<(Key, Result<(), ApiError>)>,
}

impl Surges {
    /// Chooses the Deployments whose pods the plan calls impossible to evict and that another
    /// pod would help, and has the plan wait for them. None whose pods the user may not evict
    /// `method`: its rollout would be for nothing, and no cordon that is taken back takes it back.
    pub(crate) async fn select(
        cluster: &Cluster,
        view: &ClusterView,
        plan: &mut DrainPlan,
        (how, method): (SurgeStrategy, RemovalMethod),
        printer: &mut Printer,
    ) -> Result<Self, ApiError> {
        let mut surges = Self {
            how: Some(how),
            ..Self::default()
        };
        let mut judged: BTreeMap<Key, Option<String>> = BTreeMap::new();
        for (uid, why) in plan.impossible.clone() {
            let Impossible::NeverAllows { budget, .. } = &why else {
                continue;
            };
            let pod = view
                .pods
                .values()
                .flatten()
                .find(|pod| pod.metadata.uid == uid);
            let Some(pod) = pod else {
                continue;
            };
            let scaler = view.store.workloads.scaler(pod);
            let Some(scaler) = scaler.filter(|scaler| scaler.kind == WorkloadKind::Deployment)
            else {
                let meta = &pod.metadata;
                printer.warn(format_args!(
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
                let deployment = read(cluster, &key).await?;
                let spec = view.store.budgets.get(budget);
                let fixed = spec.is_some_and(|budget| {
                    matches!(budget.spec.min_available, Some(IntOrString::Int(_)))
                });
                let mut against = objection(how, &deployment, fixed).map(str::to_owned);
                if against.is_none() {
                    let tried = surge(cluster, &key, how, true).await;
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
                judged.insert(key.clone(), against.clone());
                against
            };
            if let Some(against) = against {
                let (namespace, name) = (&key.0, &key.1);
                printer.warn(format_args!(
                    "--surge does not help Deployment {namespace}/{name}: {against}"
                ));
                continue;
            }
            plan.relieve(&uid, how.what());
            let node = pod.spec.node_name.clone();
            let relieved = surges.relieved.entry(key.clone()).or_default();
            relieved.push((uid, why.clone()));
            surges.wanted.entry(node).or_default().insert(key);
        }
        Ok(surges)
    }

    /// Gives the Deployments of the pods on this node another pod, each once.
    pub(crate) fn start(&mut self, cluster: &Cluster, node: &str) {
        let (Some(how), Some(wanted)) = (self.how, self.wanted.remove(node)) else {
            return;
        };
        for key in wanted {
            if !self.started.insert(key.clone()) {
                continue;
            }
            let cluster = cluster.clone();
            self.sent.spawn(async move {
                let done = surge(&cluster, &key, how, false).await;
                (key, done)
            });
        }
    }

    /// The next Deployment that got no other pod: the sentence for the user, and its pods, which
    /// cannot be evicted after all. May be cancelled without losing one.
    pub(crate) async fn next_failed(&mut self) -> Option<(String, Vec<(Str, Impossible)>)> {
        loop {
            if let Ok((key, Err(error))) = self.sent.join_next().await? {
                let (namespace, name) = &key;
                let text =
                    format!("failed to add a pod to Deployment {namespace}/{name}: {error:#}");
                return Some((text, self.relieved.remove(&key).unwrap_or_default()));
            }
        }
    }

    /// Takes the replicas away again that were added, and tells what failed.
    pub(crate) async fn restore(&mut self, cluster: &Cluster, printer: &mut Printer) {
        while let Some((text, _)) = self.next_failed().await {
            printer.warn(text);
        }
        if self.how != Some(SurgeStrategy::Scale) {
            self.started.clear();
        }
        while let Some(key) = self.started.first().cloned() {
            if let Err(error) = restore(cluster, &key).await {
                let (namespace, name) = &key;
                printer.warn(format_args!(
                    "Deployment {namespace}/{name} may still have an extra replica: {error:#}"
                ));
            }
            self.started.remove(&key);
        }
    }

    /// Tells what was not taken back in time.
    pub(crate) fn warn_left(&self, printer: &mut Printer) {
        for (namespace, name) in &self.started {
            printer.warn(format_args!(
                "Deployment {namespace}/{name} may still have an extra replica: its annotation \
                 {SURGED_FROM} records the original number"
            ));
        }
    }
}

impl SurgeStrategy {
    fn what(self) -> &'static str {
        match self {
            Self::Restart => "replaced by a rollout of its Deployment (--surge=restart)",
            Self::Scale => "evicted once its Deployment has one more replica (--surge=scale)",
        }
    }
}

/// Why another pod would not help, or would not come. `fixed`: the budget asks for a number of
/// pods, not for a share of them.
fn objection(how: SurgeStrategy, deployment: &Value, fixed: bool) -> Option<&'static str> {
    let at = |path: &str| deployment.pointer(path);
    if at("/spec/paused").is_some_and(|paused| *paused == true) {
        return Some("it is paused");
    }
    match how {
        SurgeStrategy::Scale if fixed => None,
        SurgeStrategy::Scale => {
            Some("its budget requires a share of the pods, so one more replica does not help")
        }
        SurgeStrategy::Restart
            if at("/spec/strategy/type").is_some_and(|kind| kind == "Recreate") =>
        {
            Some("its strategy is Recreate, which stops the old pod first")
        }
        SurgeStrategy::Restart => {
            let surge = at("/spec/strategy/rollingUpdate/maxSurge");
            let none = surge.is_some_and(|surge| *surge == 0 || *surge == "0%");
            none.then_some("its maxSurge is 0, so a rollout stops the old pod first")
        }
    }
}

async fn read(cluster: &Cluster, (namespace, name): &Key) -> Result<Value, ApiError> {
    let target = DEPLOYMENTS.all().in_namespace(namespace).named(name);
    let found: Option<Value> = cluster.get(target).await?;
    Ok(found.unwrap_or_default())
}

/// Sends a patch that may be sent again: it leaves the same behind, or conflicts.
async fn patch(
    cluster: &Cluster,
    (namespace, name): &Key,
    body: &Value,
    dry_run: bool,
) -> Result<(), ApiError> {
    let target = DEPLOYMENTS.all().in_namespace(namespace).named(name);
    let mut call = Call::on(Method::PATCH, "patch", target)
        .with_query("fieldManager", FIELD_MANAGER)
        .with_json("application/merge-patch+json", body)?;
    if dry_run {
        call = call.with_query("dryRun", "All");
    }
    cluster.read(&call).await.map(drop)
}

async fn surge(
    cluster: &Cluster,
    key: &Key,
    how: SurgeStrategy,
    dry_run: bool,
) -> Result<(), ApiError> {
    if how == SurgeStrategy::Restart {
        let now = cluster.clock().now().to_string();
        let annotations = json!({"annotations": {RESTARTED_AT: now}});
        let body = json!({"spec": {"template": {"metadata": annotations}}});
        return patch(cluster, key, &body, dry_run).await;
    }
    change(cluster, key, dry_run, |replicas, surged_from| {
        // A run that was killed may have left it so.
        let replicas = surged_from.is_none().then_some(replicas)?;
        Some((replicas.saturating_add(1), Some(replicas.to_string())))
    })
    .await
}

async fn restore(cluster: &Cluster, key: &Key) -> Result<(), ApiError> {
    change(cluster, key, false, |replicas, surged_from| {
        let before = surged_from?;
        // Somebody may have scaled it meanwhile.
        let is_ours = replicas == before.saturating_add(1);
        Some((if is_ours { before } else { replicas }, None))
    })
    .await
}

/// Changes the replicas of a Deployment, and what it bears of the number that it had.
async fn change(
    cluster: &Cluster,
    key: &Key,
    dry_run: bool,
    next: impl Fn(i64, Option<i64>) -> Option<(i64, Option<String>)>,
) -> Result<(), ApiError> {
    retry_on_conflict(|| async {
        let found = read(cluster, key).await?;
        let replicas = found.pointer("/spec/replicas").and_then(Value::as_i64);
        let annotations = found.pointer("/metadata/annotations");
        let surged_from = annotations.and_then(|all| all.get(SURGED_FROM)?.as_str()?.parse().ok());
        let Some((replicas, note)) = replicas.and_then(|now| next(now, surged_from)) else {
            return Ok(());
        };
        let body = json!({
            "metadata": {
                "resourceVersion": found.pointer("/metadata/resourceVersion"),
                "annotations": {SURGED_FROM: note},
            },
            "spec": {"replicas": replicas},
        });
        patch(cluster, key, &body, dry_run).await
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_needs_a_rollout_that_starts_a_new_pod_first() {
        let with = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let rolling = with(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}));
        assert_eq!(objection(SurgeStrategy::Restart, &rolling, true), None);
        for strategy in [
            json!({"type": "Recreate"}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}),
        ] {
            assert!(objection(SurgeStrategy::Restart, &with(strategy), true).is_some());
        }
        assert_eq!(objection(SurgeStrategy::Scale, &rolling, true), None);
        assert!(objection(SurgeStrategy::Scale, &rolling, false).is_some());
        let paused = json!({"spec": {"paused": true}});
        assert!(objection(SurgeStrategy::Restart, &paused, true).is_some());
    }
}
