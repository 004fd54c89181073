//! `--surge`: adds a pod to Deployments whose budget can never allow an eviction.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, Cluster, listing, retry_on_conflict};
use nodelife_core::node_marks::FIELD_MANAGER;
use nodelife_core::object::{IntOrString, WorkloadKind};
use nodelife_core::text::Str;
use nodelife_drain_plan::{DrainPlan, EvictionResult, Impossible};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::removal::{RemovalMethod, remove};
use super::view::ClusterView;
use crate::reporter::Reporter;
use crate::settings::SurgeStrategy;
use crate::status::DrainStatus;

const DEPLOYMENTS: Resource = Resource::grouped("apps", "v1", "deployments");

/// What a Deployment bears that was scaled up: how many replicas it had, and for which node. Whoever
/// has the lock of that node may restore it: a run that was killed left it so.
const SURGED_FROM: &str = "nodelife.dev/surged-from";
const SURGED_FOR: &str = "nodelife.dev/surged-for";

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
    /// By the node for which an earlier run scaled them up.
    left: BTreeMap<Str, BTreeSet<Key>>,
    started: BTreeSet<(Str, Key)>,
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
        reporter: &mut dyn Reporter,
    ) -> Result<Self, ApiError> {
        let mut surges = Self {
            how: Some(how),
            ..Self::default()
        };
        if how == SurgeStrategy::Scale {
            let nodes = view.nodes.iter().map(|node| node.metadata.name.clone());
            match left(cluster, &nodes.collect()).await {
                Ok(left) => surges.left = left,
                Err(error) => reporter.warn(format_args!(
                    "cannot look for replicas that an earlier drain added: {error}"
                )),
            }
        }
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
                let deployment = read(cluster, &key).await?;
                let spec = view.store.budgets.get(budget);
                let fixed = spec.is_some_and(|budget| {
                    matches!(budget.spec.min_available, Some(IntOrString::Int(_)))
                });
                let mut against = objection(how, &deployment, fixed).map(str::to_owned);
                if against.is_none() {
                    let tried = surge(cluster, &key, (how, &pod.spec.node_name), true).await;
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
                reporter.warn(format_args!(
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
    pub(crate) fn start(&mut self, cluster: &Cluster, node: &Str) {
        let Some(how) = self.how else {
            return;
        };
        let left = self.left.remove(node).unwrap_or_default();
        let left = left.into_iter().map(|key| (node.clone(), key));
        for key in self.wanted.remove(node).unwrap_or_default() {
            if self.started.iter().any(|(_, started)| *started == key) {
                continue;
            }
            self.started.insert((node.clone(), key.clone()));
            let (cluster, node) = (cluster.clone(), node.clone());
            self.sent.spawn(async move {
                let done = surge(&cluster, &key, (how, &node), false).await;
                (key, done)
            });
        }
        self.started.extend(left);
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
    pub(crate) async fn restore(&mut self, cluster: &Cluster, reporter: &mut dyn Reporter) {
        while let Some((text, _)) = self.next_failed().await {
            reporter.warn(text);
        }
        if self.how != Some(SurgeStrategy::Scale) {
            self.started.clear();
        }
        while let Some((node, key)) = self.started.first().cloned() {
            if let Err(error) = restore(cluster, &key, &node, false).await {
                let (namespace, name) = &key;
                reporter.warn(format_args!(
                    "Deployment {namespace}/{name} may still have an extra replica: {error:#}"
                ));
            }
            self.started.remove(&(node, key));
        }
    }

    /// Tells what was not taken back in time.
    pub(crate) fn warn_left(&self, reporter: &mut dyn Reporter) {
        for (node, (namespace, name)) in &self.started {
            reporter.warn(format_args!(
                "Deployment {namespace}/{name} may still have an extra replica: its annotation \
                 {SURGED_FROM} records the original number; to restore it: kubectl nodelife drain \
                 {node} --undo"
            ));
        }
    }
}

/// Takes the replicas away that drains of these nodes added and did not take away. Whoever may not
/// list Deployments has none.
pub(crate) async fn undo_surges(
    cluster: &Cluster,
    nodes: &BTreeSet<Str>,
    dry: bool,
    reporter: &mut dyn Reporter,
) -> DrainStatus {
    let mut status = DrainStatus::Done;
    let would = if dry { "would be " } else { "" };
    let left = match left(cluster, nodes).await {
        Ok(left) => left,
        Err(ApiError::Forbidden(_)) => BTreeMap::new(),
        Err(error) => {
            reporter.warn(format_args!(
                "cannot look for replicas that a drain added: {error}"
            ));
            return DrainStatus::Failed;
        }
    };
    for (node, keys) in left {
        for key in keys {
            let (namespace, name) = &key;
            let text = format!("Deployment {namespace}/{name}");
            match restore(cluster, &key, &node, dry).await {
                Ok(()) => reporter.note(format_args!(
                    "{text}: {would}scaled back; --surge had scaled it up for node {node}"
                )),
                Err(error) => {
                    reporter.warn(format_args!("failed to scale {text} back: {error}"));
                    status = DrainStatus::Failed;
                }
            }
        }
    }
    status
}

/// The Deployments that drains of these nodes scaled up, by node.
async fn left(
    cluster: &Cluster,
    nodes: &BTreeSet<Str>,
) -> Result<BTreeMap<Str, BTreeSet<Key>>, ApiError> {
    let mut left: BTreeMap<Str, BTreeSet<Key>> = BTreeMap::new();
    let mut listings = listing::WORKLOADS.iter();
    let deployments = listings.find(|listing| listing.kind == WorkloadKind::Deployment.as_str());
    let Some(deployments) = deployments else {
        return Ok(left);
    };
    let all = ListFilter::default();
    for found in cluster.list(deployments, &all, |_| {}).await?.items {
        let meta = &found.metadata;
        if let Some(node) = meta.annotations.get(SURGED_FOR)
            && nodes.contains(node)
        {
            let key = (meta.namespace.clone(), meta.name.clone());
            left.entry(node.clone()).or_default().insert(key);
        }
    }
    Ok(left)
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
    (how, node): (SurgeStrategy, &str),
    dry_run: bool,
) -> Result<(), ApiError> {
    if how == SurgeStrategy::Restart {
        let now = cluster.clock().now().to_string();
        let annotations = json!({"annotations": {RESTARTED_AT: now}});
        let body = json!({"spec": {"template": {"metadata": annotations}}});
        return patch(cluster, key, &body, dry_run).await;
    }
    change(cluster, key, dry_run, |replicas, surged| {
        // A run that was killed may have left it so.
        let replicas = surged.is_none().then_some(replicas)?;
        let surged = Surged {
            from: replicas,
            node: node.to_owned(),
        };
        Some((replicas.saturating_add(1), Some(surged)))
    })
    .await
}

async fn restore(cluster: &Cluster, key: &Key, node: &str, dry_run: bool) -> Result<(), ApiError> {
    change(cluster, key, dry_run, |replicas, surged| {
        // Another drain's, for another node, is left to it.
        let surged = surged.filter(|surged| surged.node == node)?;
        // Somebody may have scaled it meanwhile.
        let is_ours = replicas == surged.from.saturating_add(1);
        Some((if is_ours { surged.from } else { replicas }, None))
    })
    .await
}

/// What a Deployment bears that a drain scaled up.
struct Surged {
    from: i64,
    node: String,
}

impl Surged {
    fn of(deployment: &Value) -> Option<Self> {
        let annotations = deployment.pointer("/metadata/annotations")?;
        let text = |key: &str| annotations.get(key)?.as_str();
        Some(Self {
            from: text(SURGED_FROM)?.parse().ok()?,
            node: text(SURGED_FOR)?.to_owned(),
        })
    }
}

/// Changes the replicas of a Deployment, and what it bears of the number that it had.
async fn change(
    cluster: &Cluster,
    key: &Key,
    dry_run: bool,
    next: impl Fn(i64, Option<Surged>) -> Option<(i64, Option<Surged>)>,
) -> Result<(), ApiError> {
    retry_on_conflict(|| async {
        let found = read(cluster, key).await?;
        let replicas = found.pointer("/spec/replicas").and_then(Value::as_i64);
        let surged = Surged::of(&found);
        let Some((replicas, surged)) = replicas.and_then(|now| next(now, surged)) else {
            return Ok(());
        };
        let from = surged.as_ref().map(|surged| surged.from.to_string());
        let body = json!({
            "metadata": {
                "resourceVersion": found.pointer("/metadata/resourceVersion"),
                "annotations": {SURGED_FROM: from, SURGED_FOR: surged.map(|it| it.node)},
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
