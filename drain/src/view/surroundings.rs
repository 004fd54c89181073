//! Other nodes, pods and volumes of the cluster, to find room for evicted pods.

use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{Cluster, listing};
use nodelife_core::object::{Node, PersistentVolume, Pod};
use nodelife_drain_plan::PlanContext;
use tokio::sync::oneshot;

/// A cluster of more pods is not read for the sake of a plan: twenty pages of a list cost
/// about as much as a drain's own requests.
const MAX_PODS: u64 = 10_000;

#[derive(Default)]
pub(crate) struct ClusterObjects {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Arc<Vec<Pod>>,
    pub(crate) volumes: Vec<PersistentVolume>,
}

impl ClusterObjects {
    pub(crate) fn plan_context(&self) -> PlanContext<'_> {
        PlanContext::new(&self.nodes, &self.pods, &self.volumes)
    }
}

/// Drains that are prepared within this time of each other read all pods once.
const TOGETHER: Duration = Duration::from_secs(5);

/// All pods of the cluster: drains of one process that are prepared at the same time share one copy.
#[derive(Debug, Default)]
pub(crate) struct AllPods(tokio::sync::Mutex<Option<(Instant, Weak<Vec<Pod>>)>>);

impl AllPods {
    /// The pods, or a sentence for the user that says why they are not read: a plan that says less is no
    /// reason to fail.
    pub(crate) async fn read(&self, cluster: &Cluster) -> Result<Arc<Vec<Pod>>, String> {
        let mut last = self.0.lock().await;
        if let Some((begun, pods)) = &*last
            && begun.elapsed() < TOGETHER
            && let Some(pods) = pods.upgrade()
        {
            return Ok(pods);
        }
        let begun = Instant::now();
        let pods = Arc::new(list_all_pods(cluster).await?);
        *last = Some((begun, Arc::downgrade(&pods)));
        Ok(pods)
    }
}

async fn list_all_pods(cluster: &Cluster) -> Result<Vec<Pod>, String> {
    let (sender, too_many) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let all = ListFilter::default();
    let listed = cluster.list(&listing::PODS, &all, |progress| {
        let listed = u64::try_from(progress.listed).unwrap_or(u64::MAX);
        let count = listed.saturating_add(progress.remaining.unwrap_or(0));
        if count > MAX_PODS
            && let Some(sender) = sender.lock().ok().and_then(|mut sender| sender.take())
        {
            // The other end is there as long as the list is waited for.
            let _ = sender.send(count);
        }
    });
    // Dropped, and so cancelled, when it has said that it is too long.
    let listed = match select(too_many, pin!(listed)).await {
        Either::Left((Ok(count), _)) => return Err(format!("the cluster has {count} pods")),
        Either::Left((Err(_), listed)) => listed.await,
        Either::Right((listed, _)) => listed,
    };
    listed
        .map(|listed| listed.items)
        .map_err(|error| error.to_string())
}

/// Reads the rest; `volumes`: whether those matter to a pod of the drain. What cannot be read is
/// a sentence for the user.
pub(crate) async fn read(
    cluster: &Cluster,
    (nodes, pods): (Vec<Node>, Arc<Vec<Pod>>),
    volumes: bool,
) -> Result<ClusterObjects, String> {
    let volumes = if volumes {
        let all = ListFilter::default();
        let listed = cluster.list(&listing::VOLUMES, &all, |_| {}).await;
        listed.map_err(|error| error.to_string())?.items
    } else {
        Vec::new()
    };
    Ok(ClusterObjects {
        nodes,
        pods,
        volumes,
    })
}
