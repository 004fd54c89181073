//! Greedy drain, the lower bound of the bench: evicts as soon as a watch shows that a budget
//! allows it; plans, checks and confirms nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::sync::watch;

/// What its requests are counted by.
pub(crate) const USER_AGENT: &str = "greedy/1";

/// How long it waits, if it pauses, until an eviction is counted.
const PAUSE: Duration = Duration::from_millis(60);

/// What each budget allows, and the version of its status.
type Allowed = BTreeMap<String, (i32, String)>;

/// Drains the nodes, all at once.
pub(crate) async fn drain(kubeconfig: &OsStr, nodes: &[String], pause: bool) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(Path::new(kubeconfig))?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let name = http::HeaderValue::from_static(USER_AGENT);
    config.headers.push((http::header::USER_AGENT, name));
    let client = Client::try_from(config)?;
    let all: Api<Node> = Api::all(client.clone());
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let params = PatchParams::default();
    try_join_all(nodes.iter().map(|node| all.patch(node, &params, &cordon))).await?;

    let pods: Api<Pod> = Api::all(client.clone());
    let mut groups: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
    let mut gone = Vec::new();
    for node in nodes {
        let selection = format!("spec.nodeName={node}");
        let listed = pods.list(&ListParams::default().fields(&selection)).await?;
        gone.push(wait_gone(&pods, selection));
        for pod in listed.items {
            let labels = pod.metadata.labels.clone().unwrap_or_default();
            let app = labels.get("app").cloned().unwrap_or_default();
            groups.entry(app).or_default().push(pod);
        }
    }
    let namespace = groups
        .values()
        .flatten()
        .find_map(|pod| pod.metadata.namespace.clone())
        .context("no pods")?;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), &namespace);
    let listed = budgets.list(&ListParams::default()).await?;
    let version = listed.metadata.resource_version.clone().unwrap_or_default();
    let (tell, allowed) = watch::channel(listed.items.iter().map(entry).collect::<Allowed>());
    let evicted = async {
        let evict = groups.into_iter().map(|(app, pods)| {
            let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
            evict(api, app, pods, allowed.clone(), pause)
        });
        try_join_all(evict).await?;
        try_join_all(gone).await
    };
    tokio::select! {
        done = evicted => done.map(drop),
        lost = follow(&budgets, &version, &tell) => lost,
    }
}

fn entry(budget: &PodDisruptionBudget) -> (String, (i32, String)) {
    let name = budget.metadata.name.clone().unwrap_or_default();
    let version = budget.metadata.resource_version.clone().unwrap_or_default();
    let allowed = budget
        .status
        .as_ref()
        .and_then(|status| status.disruptions_allowed)
        .unwrap_or(0);
    (name, (allowed, version))
}

async fn follow(
    budgets: &Api<PodDisruptionBudget>,
    version: &str,
    tell: &watch::Sender<Allowed>,
) -> Result<()> {
    let mut events = budgets
        .watch(&WatchParams::default(), version)
        .await?
        .boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(budget) | WatchEvent::Modified(budget) = event {
            tell.send_modify(|all| all.extend([entry(&budget)]));
        }
    }
    anyhow::bail!("the watch of the budgets ended")
}

/// Evicts the pods of one budget, which has the name of their `app`, one after the other.
async fn evict(
    api: Api<Pod>,
    app: String,
    pods: Vec<Pod>,
    mut allowed: watch::Receiver<Allowed>,
    pause: bool,
) -> Result<()> {
    let params = EvictParams::default();
    let names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
    if !allowed.borrow().contains_key(&app) {
        // No budget: all at once.
        try_join_all(names.map(|name| api.evict(name, &params))).await?;
        return Ok(());
    }
    for name in names {
        loop {
            let version = {
                let all = allowed.wait_for(|all| all.get(&app).is_some_and(|(n, _)| *n > 0));
                let all = all.await?;
                all.get(&app).map(|(_, version)| version.clone())
            };
            let changed = |all: &Allowed| all.get(&app).map(|(_, v)| v) != version.as_ref();
            match api.evict(name, &params).await {
                Ok(_) => {
                    if pause {
                        // Without a change it goes on as well.
                        let _ = tokio::time::timeout(PAUSE, allowed.wait_for(changed)).await;
                    }
                    break;
                }
                Err(kube::Error::Api(status)) if status.code == 429 => {
                    allowed.wait_for(changed).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Waits until no pod is left.
async fn wait_gone(pods: &Api<Pod>, selection: String) -> Result<()> {
    loop {
        let listed = pods.list(&ListParams::default().fields(&selection)).await?;
        let mut left = listed.items.len();
        if left == 0 {
            return Ok(());
        }
        let version = listed.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().fields(&selection);
        let mut events = pods.watch(&params, &version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Deleted(_) = event {
                left -= 1;
                if left == 0 {
                    return Ok(());
                }
            }
        }
    }
}
