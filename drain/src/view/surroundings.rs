//! Other nodes, pods and volumes of the cluster, to find room for evicted pods.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ApiResult, Cluster, listing};
use nodelife_core::object::{Node, PersistentVolume, Pod};
use nodelife_core::text::Str;
use nodelife_drain_plan::PlanContext;
use tokio::sync::oneshot;

/// Larger clusters are not read for a plan: 20 pages of a list cost as much as a drain's requests.
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

/// Drains that are prepared within this time of each other read the pods once.
const TOGETHER: Duration = Duration::from_secs(5);

/// What drains of one process read of the cluster: those that ask at the same time share one copy.
#[derive(Debug)]
pub(crate) struct Shared<K, V>(tokio::sync::Mutex<BTreeMap<K, Known<V>>>);

/// When it was asked for, and what came, while somebody needs it.
type Known<V> = (Instant, Weak<V>);

impl<K, V> Default for Shared<K, V> {
    fn default() -> Self {
        Self(tokio::sync::Mutex::default())
    }
}

impl<K: Ord, V> Shared<K, V> {
    pub(crate) async fn share<E>(
        &self,
        of: K,
        read: impl Future<Output = Result<V, E>>,
    ) -> Result<Arc<V>, E> {
        let mut known = self.0.lock().await;
        known.retain(|_, (begun, value)| begun.elapsed() < TOGETHER && value.strong_count() > 0);
        if let Some(value) = known.get(&of).and_then(|(_, value)| value.upgrade()) {
            return Ok(value);
        }
        let begun = Instant::now();
        let value = Arc::new(read.await?);
        known.insert(of, (begun, Arc::downgrade(&value)));
        Ok(value)
    }
}

pub(crate) type SharedPods = Shared<Option<Str>, Vec<Pod>>;

impl SharedPods {
    /// The pods of the cluster, or a sentence for the user that says why they are not read: a plan that says
    /// less is no reason to fail.
    pub(crate) async fn all(&self, cluster: &Cluster) -> Result<Arc<Vec<Pod>>, String> {
        self.share(None, list_all_pods(cluster)).await
    }

    pub(crate) async fn of(&self, cluster: &Cluster, namespace: &Str) -> ApiResult<Arc<Vec<Pod>>> {
        let filter = ListFilter::in_namespace(namespace);
        let list = cluster.items(&listing::PODS, &filter);
        self.share(Some(namespace.clone()), list).await
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

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn drains_that_are_prepared_together_read_pods_once() {
        let (shared, lists) = (SharedPods::default(), Mutex::new(0));
        let list = async || {
            *lists.lock().unwrap() += 1;
            Ok::<_, String>(vec![Pod::default()])
        };
        let read = |of: Option<&str>| shared.share(of.map(Str::from), list());
        let all = join_all((0..40).map(|_| read(None))).await;
        let shop = join_all((0..40).map(|_| read(Some("shop")))).await;
        assert_eq!(*lists.lock().unwrap(), 2);
        // Nobody keeps what is not used.
        drop(all);
        assert!(read(None).await.is_ok());
        assert!(read(Some("shop")).await.is_ok());
        assert_eq!(*lists.lock().unwrap(), 3);
        drop(shop);
        assert!(read(Some("shop")).await.is_ok());
        assert_eq!(*lists.lock().unwrap(), 4);

        let failed = async { Err("no".to_owned()) };
        assert_eq!(
            shared.share(Some("other".into()), failed).await,
            Err("no".to_owned())
        );
        assert!(read(Some("other")).await.is_ok());
    }
}
