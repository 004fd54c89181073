//! Watches of the API server that reconnect after network and server failures.
//!
//! A watch has what there is sent first, then follows the changes, in one request where the
//! server can (`sendInitialEvents`), else by a list and a request that goes on from its version.
//! A stream that ends or breaks goes on from the last version seen; one whose version is no
//! longer kept (410) begins anew. Whoever consumes it sees the trouble, and decides
//! for how long to put up with it.
//!
//! kube-runtime's watcher is not used: it decodes its own types, where these are core's with
//! shared strings, and its errors do not say which permission is missing on what.

use std::collections::BTreeMap;
use std::time::Duration;

use nodelife_core::object::Meta;
use nodelife_core::response::ApiResponse;
use nodelife_core::text::Str;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::frames::Frames;
use crate::list::{ListFilter, list_target};
use crate::listing::{Listing, Object};
use crate::request::{Call, NO_OBSERVER};
use crate::retry::{Backoff, spread};
use crate::wire::{DecodeError, Encoding, Event};

/// For how long a server may keep a stream open, before a spread that keeps many
/// clients from coming back at once. client-go: 5 to 10 minutes (v0.36.3,
/// `tools/cache/reflector.go`).
const STREAM_TIMEOUT: Duration = Duration::from_mins(10);

/// A stream that ends sooner is opened again after a wait: something on the way closes them, or
/// keeps nothing of them (client-go v0.36.3 backs off from a "very short watch").
const SHORT_STREAM: Duration = Duration::from_secs(1);

/// A connection that is silent for longer is dead: the server sends a bookmark about
/// every minute (k8s.io/apiserver v0.36.3, `pkg/storage/cacher/cacher.go`).
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);

/// Stands on the bookmark that ends what there was (k8s.io/apimachinery v0.36.3,
/// `pkg/apis/meta/v1/types.go`, `InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Updates that may wait for whoever consumes them; then the stream waits, too.
const QUEUE_LENGTH: usize = 256;

#[derive(Debug)]
pub enum Update<T> {
    /// Everything there is, in place of all that was known. Comes first, and again
    /// when the watch has lost its place: what is not in it is gone.
    Listed(Vec<T>),
    /// One object is new or has changed.
    Applied(T),
    /// One object is gone (or no longer selected); this is how it last was.
    Deleted(T),
    /// Something failed; the watch tries again by itself after `wait`. Stop it by
    /// dropping it where the error says that waiting is no use.
    Failed { error: ApiError, wait: Duration },
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch<T> {
    // Boxed: a channel has room for some from its beginning, and a drain may have a thousand watches.
    updates: mpsc::Receiver<Box<Update<T>>>,
    _task: JoinSet<()>,
}

impl<T> Watch<T> {
    /// The next update. May be cancelled and called again without losing one. `None`
    /// comes only while the runtime shuts down.
    pub async fn next(&mut self) -> Option<Update<T>> {
        self.updates.recv().await.map(|update| *update)
    }
}

impl Cluster {
    /// Lists and then follows what `filter` takes.
    pub fn watch<T: Object>(&self, listing: &'static Listing<T>, filter: ListFilter) -> Watch<T> {
        self.follow(listing, filter, true)
    }

    /// As [`Cluster::watch`], but what there is comes in pages of a list, whose objects share their
    /// memory. Whoever keeps them all has those of the changes share as well ([`Object::share`]).
    /// For whole clusters.
    pub fn list_and_watch<T: Object>(
        &self,
        listing: &'static Listing<T>,
        filter: ListFilter,
    ) -> Watch<T> {
        self.follow(listing, filter, false)
    }

    fn follow<T: Object>(
        &self,
        listing: &'static Listing<T>,
        filter: ListFilter,
        streams_initial_events: bool,
    ) -> Watch<T> {
        let (sender, updates) = mpsc::channel(QUEUE_LENGTH);
        let follower = Follower {
            cluster: self.clone(),
            listing,
            filter,
            sender,
            backoff: Backoff::for_watches(),
            streams_initial_events,
        };
        let mut task = JoinSet::new();
        task.spawn(follower.run());
        Watch {
            updates,
            _task: task,
        }
    }
}

/// Nobody listens any more.
struct Dropped;

struct Follower<T: 'static> {
    cluster: Cluster,
    listing: &'static Listing<T>,
    filter: ListFilter,
    sender: mpsc::Sender<Box<Update<T>>>,
    backoff: Backoff,
    /// Whether the server is asked for what there is and for the changes in one request.
    streams_initial_events: bool,
}

impl<T: Object> Follower<T> {
    async fn run(mut self) {
        loop {
            let begun = if self.streams_initial_events {
                Ok(Some(Str::default()))
            } else {
                self.relist().await
            };
            let ended = match begun {
                Ok(Some(version)) => self.follow(version).await,
                Ok(None) => continue,
                Err(dropped) => Err(dropped),
            };
            if let Err(Dropped) = ended {
                return;
            }
        }
    }

    /// Lists, and returns the version to go on from.
    async fn relist(&mut self) -> Result<Option<Str>, Dropped> {
        match self
            .cluster
            .list(self.listing, &self.filter, |_progress| {})
            .await
        {
            Ok(listed) => {
                self.send(Update::Listed(listed.items)).await?;
                Ok(Some(listed.resource_version))
            }
            Err(error) => {
                self.report_failure(error).await?;
                Ok(None)
            }
        }
    }

    /// Follows stream after stream until the version is no longer kept. Without a version it
    /// begins with what there is.
    async fn follow(&mut self, mut version: Str) -> Result<(), Dropped> {
        loop {
            let begun = Instant::now();
            let ended = self.stream(&mut version).await;
            let regular = matches!(ended, Ok(()) | Err(End::Failed(ApiError::Expired(_))));
            if regular && begun.elapsed() < SHORT_STREAM {
                tokio::time::sleep(self.backoff.next(None)).await;
            }
            match ended {
                Ok(()) => {}
                Err(End::Dropped) => return Err(Dropped),
                Err(End::Failed(ApiError::Expired(_))) => return Ok(()),
                Err(End::Failed(error)) if version.is_empty() && is_unsupported(&error) => {
                    self.streams_initial_events = false;
                    return Ok(());
                }
                Err(End::Failed(error)) => self.report_failure(error).await?,
            }
        }
    }

    /// Follows one stream to its regular end.
    async fn stream(&mut self, version: &mut Str) -> Result<(), End> {
        let call = self.call(version);
        let response = self.cluster.open(&call).await?;
        if !response.status().is_success() {
            let answer = self.cluster.collect(&call, response, NO_OBSERVER).await?;
            self.cluster.accept(&call, answer)?;
            return Ok(());
        }
        let encoding = Encoding::of_answer(response.headers());
        let mut frames = Frames::new(encoding, response.into_body());
        let mut initial = version.is_empty().then(BTreeMap::new);
        loop {
            let frame = tokio::time::timeout(IDLE_TIMEOUT, frames.next(&self.cluster, &call))
                .await
                .map_err(|_elapsed| ApiError::Timeout {
                    server: self.cluster.server.to_string(),
                    after: IDLE_TIMEOUT,
                })??;
            let Some(frame) = frame else {
                return Ok(());
            };
            let event = Event::read(encoding, &frame).map_err(|error| call.malformed(&error))?;
            let decoded = self.read(&call, &event)?;
            let update = match (decoded.update, &mut initial) {
                // Changes may come before all was sent.
                (Some(Update::Applied(object)), Some(initial)) => {
                    initial.insert(object.metadata().uid.clone(), object);
                    None
                }
                (Some(Update::Deleted(object)), Some(initial)) => {
                    initial.remove(&object.metadata().uid);
                    None
                }
                (update, _) => update,
            };
            let update = if decoded.initial_events_end {
                let all = initial.take();
                all.map(|all| Update::Listed(all.into_values().collect()))
            } else {
                update
            };
            if let Some(update) = update {
                self.send(update).await?;
            }
            // What was cut off before all was sent begins anew.
            if initial.is_none() {
                *version = decoded.version;
            }
            self.backoff.reset();
        }
    }

    fn call(&self, version: &str) -> Call {
        let target = list_target(self.listing, &self.filter);
        let seconds = spread(STREAM_TIMEOUT).as_secs();
        let call = Call::on(http::Method::GET, "watch", target);
        let call = self
            .filter
            .narrow(call)
            .with_query("watch", "true")
            .with_query("allowWatchBookmarks", "true")
            .with_query("timeoutSeconds", seconds.to_string())
            .with_accept(Encoding::Protobuf.accept())
            .uncompressed();
        if version.is_empty() {
            // Without a version it is a consistent read.
            call.with_query("sendInitialEvents", "true")
                .with_query("resourceVersionMatch", "NotOlderThan")
        } else {
            call.with_query("resourceVersion", version)
        }
    }

    fn read(&self, call: &Call, event: &Event<'_>) -> Result<Decoded<T>, ApiError> {
        let malformed = |error: DecodeError| call.malformed(&error);
        match event.kind {
            "ERROR" => {
                let status = event.status().map_err(malformed)?;
                let answer = Box::new(ApiResponse {
                    code: status.code,
                    status: Some(status),
                    ..ApiResponse::default()
                });
                Err(if answer.code == 410 {
                    ApiError::Expired(answer)
                } else {
                    ApiError::Refused(answer)
                })
            }
            "BOOKMARK" => {
                let bookmark: Bookmark = event.object(self.listing.message).map_err(malformed)?;
                let annotations = bookmark.metadata.annotations;
                Ok(Decoded {
                    initial_events_end: annotations.contains_key(INITIAL_EVENTS_END),
                    version: bookmark.metadata.resource_version,
                    update: None,
                })
            }
            kind => {
                let item: T::Item = event.object(self.listing.message).map_err(malformed)?;
                let mut object = T::from_item(item, self.listing.kind);
                object.trim();
                Ok(Decoded {
                    version: object.metadata().resource_version.clone(),
                    update: match kind {
                        "ADDED" | "MODIFIED" => Some(Update::Applied(object)),
                        "DELETED" => Some(Update::Deleted(object)),
                        // A kind of event that a later version invents.
                        _ => None,
                    },
                    initial_events_end: false,
                })
            }
        }
    }

    async fn send(&self, update: Update<T>) -> Result<(), Dropped> {
        let sent = self.sender.send(Box::new(update)).await;
        sent.map_err(|_closed| Dropped)
    }

    /// Tells of the trouble and waits.
    async fn report_failure(&mut self, error: ApiError) -> Result<(), Dropped> {
        let asked = error.answer().and_then(|answer| answer.retry_after);
        let wait = self.backoff.next(asked);
        self.send(Update::Failed { error, wait }).await?;
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// One event of a stream.
struct Decoded<T> {
    update: Option<Update<T>>,
    version: Str,
    /// All that there was has been sent.
    initial_events_end: bool,
}

/// Whether a list has to do what this request did not: a server without `WatchList` (off by default
/// in some versions) answers 422.
fn is_unsupported(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused(answer) if matches!(answer.code, 400 | 422))
}

/// Why a stream ended before its time.
enum End {
    Dropped,
    Failed(ApiError),
}

impl From<ApiError> for End {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

impl From<Dropped> for End {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: Meta,
}
