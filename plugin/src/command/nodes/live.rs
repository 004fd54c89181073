//! `Live`: nodes and pods as two watches show them.

use std::collections::HashMap;
use std::time::Duration;

use nodelife_audit::nodes;
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::listing::{self, Object};
use nodelife_cluster::watch::{Update, Watch};
use nodelife_cluster::{ApiError, Cluster};
use nodelife_core::object::{Node, Pod};
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;
use tokio::time::Instant;

/// A failure is told for this long after the watch has tried again, unless it fails again.
const SETTLED: Duration = Duration::from_secs(5);

pub(super) struct Live {
    snapshot: Snapshot,
    nodes: Followed<Node>,
    /// None without permission to list pods.
    pods: Option<Followed<Pod>>,
    cluster: Cluster,
}

/// One kind of object, and where in its list each one stands.
struct Followed<T> {
    watch: Watch<T>,
    places: HashMap<Str, usize>,
    /// The last failure, and until when the screen shows it.
    trouble: Option<(String, Instant)>,
}

impl Live {
    /// Lists nodes and pods, in pages as the audit does, and watches them from there on.
    ///
    /// # Errors
    ///
    /// The nodes cannot be listed, or the server is lost. Without permission to list pods there is
    /// a view without them.
    pub(super) async fn open(cluster: &Cluster) -> Result<Self, ApiError> {
        let version = cluster.server_version();
        let mut snapshot = nodes::narrowed(Snapshot {
            server_version: version.map(|version| Str::from(version.git_version.as_str())),
            ..Snapshot::default()
        });
        let all = ListFilter::default;
        let mut nodes = Followed::of(cluster.list_and_watch(&listing::NODES, all()));
        let mut pods = Followed::of(cluster.list_and_watch(&listing::PODS, all()));
        let (nodes_listed, pods_listed) = tokio::join!(
            nodes.first(&mut snapshot.nodes),
            pods.first(&mut snapshot.pods)
        );
        nodes_listed?;
        let pods = match pods_listed {
            Ok(()) => Some(pods),
            Err(error @ ApiError::Forbidden(_)) => {
                let reason = Str::from(error.to_string());
                snapshot.missing.insert(Source::Pods, reason);
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            snapshot,
            nodes,
            pods,
            cluster: cluster.clone(),
        })
    }

    /// Takes in the next change. May be cancelled without losing one.
    pub(super) async fn next(&mut self) -> anyhow::Result<()> {
        let Self {
            snapshot,
            nodes,
            pods,
            ..
        } = self;
        let pod = async {
            match pods {
                Some(pods) => pods.watch.next().await,
                None => std::future::pending().await,
            }
        };
        let went_on = tokio::select! {
            update = nodes.watch.next() => nodes.apply(&mut snapshot.nodes, update),
            update = pod => match pods {
                Some(pods) => pods.apply(&mut snapshot.pods, update),
                None => false,
            },
        };
        anyhow::ensure!(went_on, "failed to watch the cluster");
        Ok(())
    }

    /// The cluster as it is now.
    pub(super) fn snapshot(&mut self) -> &Snapshot {
        self.snapshot.taken_at = Some(self.cluster.clock().now());
        &self.snapshot
    }

    /// Why some of it may be old.
    pub(super) fn troubles(&self) -> impl Iterator<Item = String> {
        let now = Instant::now();
        let nodes = self.nodes.trouble.as_ref();
        let pods = self.pods.as_ref().and_then(|pods| pods.trouble.as_ref());
        let all = [("nodes", nodes), ("pods", pods)].into_iter();
        all.filter_map(move |(what, trouble)| {
            let (text, until) = trouble?;
            (now < *until).then(|| format!("{what} may be out of date: {text}"))
        })
    }
}

impl<T: Object> Followed<T> {
    fn of(watch: Watch<T>) -> Self {
        Self {
            watch,
            places: HashMap::new(),
            trouble: None,
        }
    }

    /// Waits for the first list.
    async fn first(&mut self, list: &mut Vec<T>) -> Result<(), ApiError> {
        match self.watch.next().await {
            // A list was tried again for as long as that may help.
            Some(Update::Failed { error, .. }) => Err(error),
            update => {
                self.apply(list, update);
                Ok(())
            }
        }
    }

    /// Takes in an update; false if there are no more.
    fn apply(&mut self, list: &mut Vec<T>, update: Option<Update<T>>) -> bool {
        let Some(update) = update else {
            return false;
        };
        if !matches!(update, Update::Failed { .. }) {
            self.trouble = None;
        }
        match update {
            Update::Listed(objects) => {
                let uids = objects.iter().map(|object| object.metadata().uid.clone());
                self.places = uids.zip(0..).collect();
                *list = objects;
            }
            Update::Applied(object) => {
                let uid = object.metadata().uid.clone();
                let place = *self.places.entry(uid).or_insert(list.len());
                match list.get_mut(place) {
                    Some(known) => *known = object,
                    None => list.push(object),
                }
            }
            Update::Deleted(object) => {
                if let Some(place) = self.places.remove(&object.metadata().uid) {
                    list.swap_remove(place);
                    if let Some(moved) = list.get(place) {
                        self.places.insert(moved.metadata().uid.clone(), place);
                    }
                }
            }
            // The list has warned of it; what was known last is better than nothing.
            Update::Unreadable(_) => {}
            Update::Failed { error, wait } => {
                let until = Instant::now() + wait + SETTLED;
                self.trouble = Some((error.to_string(), until));
            }
        }
        true
    }
}
