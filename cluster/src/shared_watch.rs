//! [`SharedWatches`]: one watch for all in a process that follow the same objects.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinSet;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::known::Known;
use crate::list::ListFilter;
use crate::listing::{Listing, Object};
use crate::watch::{Update, Watch};

/// Updates that are kept for a follower that is behind; later it begins anew with all that there is.
const KEPT: usize = 256;

/// The watches that are running, by their kinds and filters. One ends with its last follower.
#[derive(Debug, Default)]
pub struct SharedWatches(Mutex<BTreeMap<Of, Weak<dyn Any + Send + Sync>>>);

type Of = (&'static str, ListFilter);

impl SharedWatches {
    /// As [`Cluster::watch`], together with those that follow the same already: what they know comes first.
    /// Objects that cannot be read are told of when they change, and not at the beginning.
    pub fn follow<T: Object>(
        &self,
        cluster: &Cluster,
        listing: &'static Listing<T>,
        filter: ListFilter,
    ) -> BoxStream<'static, Update<T>> {
        let of = (listing.kind, filter.clone());
        let follower = self.follower(of, || Shared::start(cluster.watch(listing, filter)));
        let updates = stream::unfold(follower, |mut follower| async move {
            follower.next().await.map(|update| (update, follower))
        });
        updates.boxed()
    }

    fn follower<T: Object>(&self, of: Of, start: impl FnOnce() -> Shared<T>) -> Follower<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, shared| shared.strong_count() > 0);
        let running = all.get(&of).and_then(Weak::upgrade);
        let shared = running.and_then(|shared| shared.downcast::<Shared<T>>().ok());
        let shared = shared.unwrap_or_else(|| {
            let shared = Arc::new(start());
            let weak: Weak<Shared<T>> = Arc::downgrade(&shared);
            all.insert(of, weak);
            shared
        });
        let (first, updates) = shared.state.begin();
        Follower {
            shared,
            first,
            updates,
        }
    }
}

struct Shared<T> {
    state: Arc<State<T>>,
    _task: JoinSet<()>,
}

struct State<T> {
    seen: Mutex<Seen<T>>,
    updates: broadcast::Sender<Arc<Update<T>>>,
}

struct Seen<T> {
    objects: Known<T>,
    failed: Option<(ApiError, Duration)>,
}

impl<T: Object> Shared<T> {
    fn start(mut watch: Watch<T>) -> Self {
        let seen = Seen {
            objects: Known::default(),
            failed: None,
        };
        let state = Arc::new(State {
            seen: Mutex::new(seen),
            updates: broadcast::Sender::new(KEPT),
        });
        let mut task = JoinSet::new();
        let shown = Arc::clone(&state);
        task.spawn(async move {
            while let Some(update) = watch.next().await {
                shown.take_in(update);
            }
        });
        Self { state, _task: task }
    }
}

impl<T: Object> State<T> {
    fn take_in(&self, update: Update<T>) {
        let mut seen = self.lock();
        seen.objects.take_in(update.clone());
        seen.failed = match &update {
            Update::Failed { error, wait } => Some((error.clone(), *wait)),
            _ => None,
        };
        // Nobody follows in the moment before the task ends.
        let _ = self.updates.send(Arc::new(update));
    }

    /// What is known, and all updates from then on.
    fn begin(&self) -> (Vec<Update<T>>, broadcast::Receiver<Arc<Update<T>>>) {
        let seen = self.lock();
        let listed = seen.objects.is_listed();
        let listed = listed.then(|| Update::Listed(seen.objects.all().cloned().collect()));
        let failed = seen.failed.clone();
        let failed = failed.map(|(error, wait)| Update::Failed { error, wait });
        // The last one is told first.
        let first = failed.into_iter().chain(listed).collect();
        (first, self.updates.subscribe())
    }

    fn lock(&self) -> MutexGuard<'_, Seen<T>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Follower<T> {
    shared: Arc<Shared<T>>,
    /// What comes before `updates`, the last one first.
    first: Vec<Update<T>>,
    updates: broadcast::Receiver<Arc<Update<T>>>,
}

impl<T: Object> Follower<T> {
    async fn next(&mut self) -> Option<Update<T>> {
        loop {
            if let Some(update) = self.first.pop() {
                return Some(update);
            }
            match self.updates.recv().await {
                Ok(update) => return Some(Update::clone(&update)),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => {
                    (self.first, self.updates) = self.shared.state.begin();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nodelife_core::object::{Meta, Node};
    use tokio::sync::mpsc;

    use super::*;

    fn node(name: &str) -> Node {
        let metadata = Meta {
            name: name.into(),
            uid: name.into(),
            ..Meta::default()
        };
        Node::of_metadata(metadata, "Node")
    }

    async fn told(follower: &mut Follower<Node>) -> String {
        let names = |nodes: Vec<Node>| {
            let names = nodes.iter().map(|node| node.metadata.name.to_string());
            names.collect::<Vec<_>>().join(" ")
        };
        match follower.next().await.unwrap() {
            Update::Listed(nodes) => format!("listed {}", names(nodes)),
            Update::Applied(node) => format!("applied {}", names(vec![node])),
            Update::Deleted(node) => format!("deleted {}", names(vec![node])),
            Update::Failed { .. } => "failed".to_owned(),
            Update::Unreadable(_) => "unreadable".to_owned(),
        }
    }

    #[tokio::test]
    async fn who_comes_later_is_told_what_is_known_and_all_that_follows() {
        let all = SharedWatches::default();
        let (sender, updates) = mpsc::channel(1);
        let send = async |update| sender.send(Box::new(update)).await.unwrap();
        let of = || ("Node", ListFilter::default());
        let mut one = all.follower(of(), || Shared::start(Watch::of(updates)));
        let join = || all.follower(of(), || unreachable!("it runs already"));
        // Nothing is known before the first list.
        send(Update::Unreadable(crate::wire::Outline::default())).await;
        assert_eq!(told(&mut one).await, "unreadable");
        let mut two = join();
        send(Update::Listed(vec![node("a"), node("b")])).await;
        assert_eq!(told(&mut one).await, "listed a b");
        assert_eq!(told(&mut two).await, "listed a b");
        send(Update::Deleted(node("a"))).await;
        send(Update::Applied(node("c"))).await;
        let error = ApiError::Timeout {
            server: "it".to_owned(),
            after: Duration::ZERO,
        };
        let wait = Duration::ZERO;
        send(Update::Failed { error, wait }).await;
        for expected in ["deleted a", "applied c", "failed"] {
            assert_eq!(told(&mut one).await, expected);
        }
        let mut three = join();
        assert_eq!(told(&mut three).await, "listed b c");
        assert_eq!(told(&mut three).await, "failed");

        // One that does not listen holds up nobody, and is told all anew.
        for _ in 0..2 * KEPT {
            send(Update::Applied(node("d"))).await;
            assert_eq!(told(&mut one).await, "applied d");
        }
        assert_eq!(told(&mut two).await, "listed b c d");
        send(Update::Deleted(node("d"))).await;
        assert_eq!(told(&mut two).await, "deleted d");

        drop((one, two, three));
        sender.closed().await;
        let (_sender, updates) = mpsc::channel(1);
        let mut begun = false;
        let anew: Follower<Node> = all.follower(of(), || {
            begun = true;
            Shared::start(Watch::of(updates))
        });
        assert!(begun && anew.first.is_empty());
    }
}
