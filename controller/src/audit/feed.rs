//! [`Feed`]: the changes of all watches of an audit, in one stream.

use futures::stream::{self, BoxStream, SelectAll, StreamExt as _};
use nodelife_cluster::Cluster;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::Object;
use nodelife_cluster::watch::Update;

use super::store::Store;
use super::watched::{self, Watched};

/// A change of the store.
type Change = Box<dyn FnOnce(&mut Store) + Send>;

/// The watches. Dropping it ends them.
pub(super) struct Feed {
    changes: SelectAll<BoxStream<'static, Change>>,
}

impl Feed {
    /// Watches every resource that an audit reads.
    pub(super) fn new(cluster: &Cluster) -> Self {
        let about_nodes = ListFilter {
            fields: Some("involvedObject.kind=Node".to_owned()),
            ..ListFilter::default()
        };
        let all = ListFilter::default;
        let mut changes = SelectAll::new();
        changes.push(follow(cluster, &watched::NODES, all()));
        changes.push(follow(cluster, &watched::LEASES, all()));
        changes.push(follow(cluster, &watched::PODS, all()));
        changes.push(follow(cluster, &watched::BUDGETS, all()));
        changes.push(follow(cluster, &watched::VOLUMES, all()));
        changes.push(follow(cluster, &watched::VOLUME_ATTACHMENTS, all()));
        changes.push(follow(cluster, &watched::CSI_NODES, all()));
        changes.push(follow(cluster, &watched::SIGNING_REQUESTS, all()));
        changes.push(follow(cluster, &watched::CLUSTER_ROLES, all()));
        changes.push(follow(cluster, &watched::CLUSTER_ROLE_BINDINGS, all()));
        changes.push(follow(cluster, &watched::EVENTS, about_nodes));
        for workloads in &watched::WORKLOADS {
            changes.push(follow(cluster, workloads, all()));
        }
        Self { changes }
    }

    /// The next change. May be cancelled and called again without losing one. `None` comes only
    /// while the runtime shuts down.
    pub(super) async fn next(&mut self) -> Option<Change> {
        self.changes.next().await
    }
}

fn follow<T: Object>(
    cluster: &Cluster,
    watched: &'static Watched<T>,
    filter: ListFilter,
) -> BoxStream<'static, Change> {
    let watch = cluster.list_and_watch(watched.listing, filter);
    let updates = stream::unfold(watch, |mut watch| async {
        let update = watch.next().await?;
        Some((update, watch))
    });
    updates
        .map(move |update| {
            if let Update::Failed { error, wait } = &update {
                let kind = watched.listing.kind;
                tracing::warn!(kind, %error, ?wait, "a watch failed, retrying");
            }
            let change: Change = Box::new(move |store| store.apply(watched, update));
            change
        })
        .boxed()
}
