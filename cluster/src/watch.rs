//! Watches of the API server that reconnect after network and server failures.
//!
//! A watch has what there is sent first, then follows the changes, in one request where the
//! server can (`sendInitialEvents`), else by a list and a request that goes on from its version.
//! A stream that ends or breaks goes on from the last version seen; one whose version is no
//! longer kept (410) begins anew. Whoever consumes it sees the trouble, and decides
//! for how long to put up with it.
//!
//! An object that does not decode is passed by: the stream goes on behind its event. A stream whose
//! place is not known, since not even the metadata of an object can be read, begins anew.
//!
//! kube-runtime's watcher is not used: it decodes its own types, where these are core's with
//! shared strings, and its errors do not say which permission is missing on what.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use nodelife_core::object::Meta;
use nodelife_core::response::ApiResponse;
use nodelife_core::text::Str;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::frames::Frames;
use crate::list::{ListFilter, list_target};
use crate::listing::{Listing, Object};
use crate::request::{Call, NO_OBSERVER};
use crate::retry::{Backoff, spread};
use crate::watch_state::WatchState;
use crate::wire::{DecodeError, Encoding, Event, Outline, Sharing};

/// For how long a server may keep a stream open, before a spread that keeps many
/// clients from coming back at once. client-go: 5 to 10 minutes (v0.36.3,
/// `tools/cache/reflector.go`).
const STREAM_TIMEOUT: Duration = Duration::from_mins(10);

/// How long the server may take to begin a stream, and to be waited for at most. It sends the headers
/// before the first event (k8s.io/apiserver v0.37.2, `pkg/endpoints/handlers/watch.go`); what stands in
/// between may accept a request and never answer.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

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

#[derive(Clone, Debug)]
pub enum Update<T> {
    /// Everything there is, in place of all that was known. Comes first, and again
    /// when the watch has lost its place: what is not in it is gone.
    Listed(Vec<T>),
    /// One object is new or has changed.
    Applied(T),
    /// One object is gone (or no longer selected); this is how it last was, or its metadata alone.
    Deleted(T),
    /// One object is new or has changed, and cannot be read; comes also before the list that it is in.
    /// The object as it was known no longer holds.
    Unreadable(Outline),
    /// Something failed; the watch tries again by itself after `wait`. Stop it by
    /// dropping it where the error says that waiting is no use.
    Failed { error: ApiError, wait: Duration },
}

#[derive(Debug)]
pub struct Watch<T> {
    // Boxed: a channel has room for some from its beginning, and a drain may have a thousand watches.
    updates: mpsc::Receiver<Box<Update<T>>>,
    _task: JoinSet<()>,
}

impl<T> Watch<T> {
    #[cfg(test)]
    pub(crate) fn of(updates: mpsc::Receiver<Box<Update<T>>>) -> Self {
        Self {
            updates,
            _task: JoinSet::new(),
        }
    }

    /// The next update. May be cancelled without losing one. `None` only while the runtime shuts down.
    pub async fn next(&mut self) -> Option<Update<T>> {
        self.updates.recv().await.map(|update| *update)
    }

    /// The updates as a stream, which has the watch run as long as it is there.
    pub fn into_stream(self) -> BoxStream<'static, Update<T>>
    where
        T: Send + 'static,
    {
        let updates = stream::unfold(self, |mut watch| async move {
            watch.next().await.map(|update| (update, watch))
        });
        updates.boxed()
    }
}

impl Cluster {
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
            state: self.watches.begin(listing.kind),
            cluster: self.clone(),
            listing,
            filter,
            sender,
            backoff: Backoff::for_watches(),
            streams_initial_events,
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            let Err(Dropped) = follower.run().await;
        });
        Watch {
            updates,
            _task: task,
        }
    }
}

struct Dropped;

struct Follower<T: 'static> {
    state: WatchState,
    cluster: Cluster,
    listing: &'static Listing<T>,
    filter: ListFilter,
    sender: mpsc::Sender<Box<Update<T>>>,
    backoff: Backoff,
    /// Whether the server is asked for what there is and for the changes in one request.
    streams_initial_events: bool,
}

impl<T: Object> Follower<T> {
    async fn run(mut self) -> Result<Infallible, Dropped> {
        loop {
            if self.streams_initial_events {
                self.follow(Str::default()).await?;
            } else if let Some(version) = self.relist().await? {
                self.follow(version).await?;
            }
        }
    }

    async fn relist(&mut self) -> Result<Option<Str>, Dropped> {
        match self
            .cluster
            .list(self.listing, &self.filter, |_progress| self.state.heard())
            .await
        {
            Ok(listed) => {
                self.send_all(listed.items, listed.unreadable).await?;
                Ok(Some(listed.resource_version))
            }
            Err(error) => {
                self.report_failure(error).await?;
                Ok(None)
            }
        }
    }

    /// Follows stream after stream until the version is no longer kept; without one from what there is.
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
                // The same version would bring the same again.
                Err(End::Failed(
                    error @ (ApiError::Malformed { .. } | ApiError::TooLarge { .. }),
                )) => return self.report_failure(error).await,
                Err(End::Failed(error)) => self.report_failure(error).await?,
            }
        }
    }

    async fn stream(&mut self, version: &mut Str) -> Result<(), End> {
        let call = self.call(version);
        let server = &self.cluster.server;
        let late = |after: Duration| ApiError::Timeout {
            server: server.to_string(),
            after,
        };
        let opened = tokio::time::timeout(OPEN_TIMEOUT, async {
            let response = self.cluster.open(&call).await?;
            if response.status().is_success() {
                return Ok(Some(response));
            }
            let answer = self.cluster.collect(&call, response, NO_OBSERVER).await?;
            self.cluster.accept(&call, answer).map(|_| None)
        });
        let Some(response) = opened.await.map_err(|_elapsed| late(OPEN_TIMEOUT))?? else {
            return Ok(());
        };
        let mut frames = Frames::new(response.into_body());
        let mut initial = version.is_empty().then(BTreeMap::new);
        let mut sharing = Sharing::default();
        let mut unreadable = Vec::new();
        loop {
            self.state.heard();
            let frame = tokio::time::timeout(IDLE_TIMEOUT, frames.next(&self.cluster, &call))
                .await
                .map_err(|_elapsed| late(IDLE_TIMEOUT))??;
            let Some(frame) = frame else {
                return Ok(());
            };
            let event = Event::read(&frame).map_err(|error| call.malformed(&error))?;
            let decoded = self.read(&call, &event)?;
            let update = match (decoded.update, &mut initial) {
                // Changes may come before all was sent.
                (Some(Update::Applied(mut object)), Some(initial)) => {
                    object.share(&mut sharing);
                    initial.insert(object.metadata().uid.clone(), object);
                    None
                }
                (Some(Update::Deleted(object)), Some(initial)) => {
                    initial.remove(&object.metadata().uid);
                    None
                }
                (Some(Update::Unreadable(outline)), Some(initial)) => {
                    initial.remove(&outline.metadata.uid);
                    unreadable.push(outline);
                    None
                }
                (update, _) => update,
            };
            if decoded.initial_events_end
                && let Some(all) = initial.take()
            {
                sharing = Sharing::default();
                let all = all.into_values().collect();
                self.send_all(all, std::mem::take(&mut unreadable)).await?;
            }
            if let Some(update) = update {
                if decoded.version.is_empty() {
                    return Err(call.malformed(&"an object without metadata").into());
                }
                self.note(&update);
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
            .with_accept(Encoding::Json.accept())
            .uncompressed();
        if version.is_empty() {
            // Without a version it is a consistent read.
            call.with_query("sendInitialEvents", "true")
                .with_query("resourceVersionMatch", "NotOlderThan")
        } else {
            call.with_query("resourceVersion", version)
        }
    }

    fn read(&self, call: &Call, event: &Event<'_>) -> ApiResult<Decoded<T>> {
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
                let bookmark = event.object().decode(self.listing.message);
                let bookmark: Bookmark = bookmark.map_err(malformed)?;
                let annotations = bookmark.metadata.annotations;
                Ok(Decoded {
                    initial_events_end: annotations.contains_key(INITIAL_EVENTS_END),
                    version: bookmark.metadata.resource_version,
                    update: None,
                })
            }
            kind => {
                let (message, of) = (self.listing.message, self.listing.kind);
                let read = event.object().read(message).map(|item| {
                    let mut object = T::from_item(item, of);
                    object.trim();
                    object
                });
                let metadata = match &read {
                    Ok(object) => object.metadata(),
                    Err(outline) => &outline.metadata,
                };
                let version = metadata.resource_version.clone();
                let update = match (kind, read) {
                    ("ADDED" | "MODIFIED", Ok(object)) => Some(Update::Applied(object)),
                    ("ADDED" | "MODIFIED", Err(outline)) => Some(Update::Unreadable(outline)),
                    ("DELETED", Ok(object)) => Some(Update::Deleted(object)),
                    ("DELETED", Err(outline)) => {
                        Some(Update::Deleted(T::of_metadata(outline.metadata, of)))
                    }
                    // A kind of event that a later version invents.
                    _ => None,
                };
                Ok(Decoded {
                    update,
                    version,
                    initial_events_end: false,
                })
            }
        }
    }

    fn note(&self, update: &Update<T>) {
        match update {
            Update::Applied(object) => {
                let reason = (self.listing.unreadable_part)(object);
                self.state.seen(object.metadata(), reason);
            }
            Update::Deleted(object) => self.state.seen(object.metadata(), None),
            Update::Unreadable(outline) => {
                self.state.seen(&outline.metadata, Some(&outline.reason));
            }
            Update::Listed(_) | Update::Failed { .. } => {}
        }
    }

    /// Sends all that there is, those that cannot be read first.
    async fn send_all(&self, objects: Vec<T>, unreadable: Vec<Outline>) -> Result<(), Dropped> {
        let outlines = unreadable.iter();
        let outlines = outlines.map(|outline| (&outline.metadata, outline.reason.as_str()));
        let parts = objects.iter().filter_map(|object| {
            let reason = (self.listing.unreadable_part)(object)?;
            Some((object.metadata(), reason))
        });
        self.state.listed(outlines.chain(parts));
        for outline in unreadable {
            self.send(Update::Unreadable(outline)).await?;
        }
        self.send(Update::Listed(objects)).await
    }

    async fn send(&self, update: Update<T>) -> Result<(), Dropped> {
        let sent = self.sender.send(Box::new(update)).await;
        self.state.moved();
        sent.map_err(|_closed| Dropped)
    }

    async fn report_failure(&mut self, error: ApiError) -> Result<(), Dropped> {
        let asked = error.answer().and_then(|answer| answer.retry_after);
        let wait = self.backoff.next(asked).min(OPEN_TIMEOUT);
        self.send(Update::Failed { error, wait }).await?;
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

struct Decoded<T> {
    update: Option<Update<T>>,
    version: Str,
    initial_events_end: bool,
}

/// Whether a list has to do what this request did not: without `WatchList` a server answers 422.
fn is_unsupported(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused(answer) if matches!(answer.code, 400 | 422))
}

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
