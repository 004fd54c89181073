//! [`Feed`]: the changes of all watches of an audit, in one stream.

use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use nodelife_cluster::Cluster;
use nodelife_cluster::listing::Object;
use nodelife_cluster::snapshot::kinds::{Kind, Visitor, each_kind};
use nodelife_cluster::watch::Update;

use super::store::Store;

type Change = Box<dyn FnOnce(&mut Store) + Send>;

/// The watches. Dropping it ends them.
pub(super) struct Feed {
    cluster: Cluster,
    changes: SelectAll<BoxStream<'static, Change>>,
}

impl Feed {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut feed = Self {
            cluster: cluster.clone(),
            changes: SelectAll::new(),
        };
        each_kind(&mut feed);
        feed
    }

    /// The next change. May be cancelled without losing one. `None` only while the runtime shuts down.
    pub(super) async fn next(&mut self) -> Option<Change> {
        self.changes.next().await
    }
}

impl Visitor for Feed {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        let watch = self.cluster.list_and_watch(kind.listing, kind.filter());
        let changes = watch.into_stream().map(move |update| {
            if let Update::Failed { error, wait } = &update {
                let kind = kind.listing.kind;
                tracing::warn!(kind, %error, ?wait, "a watch failed, retrying");
            }
            let change: Change = Box::new(move |store| store.apply(kind, update));
            change
        });
        self.changes.push(changes.boxed());
    }
}
