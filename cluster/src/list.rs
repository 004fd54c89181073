//! Paged lists. Decodes one page while it downloads the next, which it requests as soon as the
//! first bytes of a page contain the continue token.

use std::sync::Arc;

use http::Method;
use nodelife_core::text::Str;
use tokio::task::JoinHandle;

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::listing::{Listing, Object};
use crate::page::Page;
use crate::request::Call;
use crate::resource::Target;
use crate::wire::{self, DecodeError, Encoded, Encoding, Outline, Sharing};

/// Objects a page. client-go's pager takes twice as many (v0.36.3, `tools/pager/pager.go`); smaller
/// pages take no longer, and an audit of 30,000 pods holds 10 MiB less.
const PAGE_SIZE: usize = 250;

/// How often a list starts over when its version is gone (410), before it goes on with a later one.
const MAX_RESTARTS: usize = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListFilter {
    pub namespace: Option<String>,
    /// A label selector, as kubectl's `-l`.
    pub labels: Option<String>,
    /// A field selector, `spec.nodeName=worker-1`.
    pub fields: Option<String>,
}

impl ListFilter {
    pub fn on_node(node: &str) -> Self {
        Self {
            fields: Some(format!("spec.nodeName={node}")),
            ..Self::default()
        }
    }

    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::default()
        }
    }

    pub fn named(name: &str) -> Self {
        Self {
            fields: Some(format!("metadata.name={name}")),
            ..Self::default()
        }
    }

    pub(crate) fn narrow(&self, mut call: Call) -> Call {
        if let Some(labels) = &self.labels {
            call = call.with_query("labelSelector", labels);
        }
        if let Some(fields) = &self.fields {
            call = call.with_query("fieldSelector", fields);
        }
        call
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub listed: usize,
    /// Objects that are still to come, where the server knows.
    pub remaining: Option<u64>,
    /// Whether all pages so far show the same version ([`Listed::consistent`]).
    pub consistent: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    /// Those that are there as well, and that cannot be decoded.
    pub unreadable: Vec<Outline>,
    /// The version that it shows: where a watch goes on.
    pub resource_version: Str,
    /// Whether all pages show the same version. If not, an object that changed
    /// meanwhile may be there as it was earlier, and one may be there that is gone.
    pub consistent: bool,
}

struct Decoded<T> {
    items: Vec<T>,
    unreadable: Vec<Outline>,
    sharing: Sharing,
}

impl<T> Listed<T> {
    /// The objects, for who must not pass by one: a pod that cannot be read is on its node all the same.
    pub fn complete(self, listing: &Listing<T>) -> ApiResult<Vec<T>> {
        match self.unreadable.first() {
            Some(outline) => Err(list_call(listing, &ListFilter::default()).malformed(outline)),
            None => Ok(self.items),
        }
    }
}

impl Cluster {
    /// Lists everything that `filter` takes, by a consistent read: what the server
    /// had committed when the request came in is in it. (No `resourceVersion`: with
    /// `0` a server answers from its cache, and ignores the limit.)
    ///
    /// `progress` is called after each page.
    /// Pages are read again for up to 30 s each while the server is
    /// overloaded or restarting.
    pub async fn list<T: Object>(
        &self,
        listing: &'static Listing<T>,
        filter: &ListFilter,
        progress: impl FnMut(Progress),
    ) -> ApiResult<Listed<T>> {
        self.list_as(Encoding::Protobuf, listing, filter, progress)
            .await
    }

    pub async fn items<T: Object>(
        &self,
        listing: &'static Listing<T>,
        filter: &ListFilter,
    ) -> ApiResult<Vec<T>> {
        Ok(self.list(listing, filter, |_| {}).await?.items)
    }

    /// [`Cluster::list`], asking for one encoding.
    pub async fn list_as<T: Object>(
        &self,
        encoding: Encoding,
        listing: &'static Listing<T>,
        filter: &ListFilter,
        mut progress: impl FnMut(Progress),
    ) -> ApiResult<Listed<T>> {
        let mut call = list_call(listing, filter).with_accept(encoding.accept());
        let mut restarts = 0;
        'list: loop {
            let mut pending = self.request_page(&call, "");
            let mut consistent = true;
            let mut resource_version = None;
            let mut decoded = None;
            // The page before, and how many objects come after it.
            let mut decoding: Option<(DecodeTask<T>, Option<u64>)> = None;
            loop {
                let token = pending.token_of_next().await;
                // First, so that no more than two pages are held: the one that comes and another.
                if let Some((before, remaining)) = decoding.take() {
                    let so_far = before.finish(&call).await?;
                    progress(Progress {
                        listed: so_far.items.len(),
                        remaining,
                        consistent,
                    });
                    decoded = Some(so_far);
                }
                let early = token.and_then(|token| {
                    let room = Arc::clone(&self.ahead).try_acquire_owned().ok()?;
                    Some((self.request_page(&call, &token), token, room))
                });
                let page = match pending.page(&call).await {
                    Ok(page) => page,
                    Err(ApiError::Expired(_)) if restarts < MAX_RESTARTS => {
                        restarts += 1;
                        continue 'list;
                    }
                    Err(ApiError::Expired(answer)) => {
                        // The server's way to go on from a later version stands in the refusal.
                        let status = answer.status.as_ref();
                        let Some(token) = status.and_then(|s| s.metadata.next.as_deref()) else {
                            return Err(ApiError::Expired(answer));
                        };
                        consistent = false;
                        pending = self.request_page(&call, token);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                // The pages of a list are about as long as each other.
                call = call.with_room(page.body.len() + page.body.len() / 32);
                let head = page.head.clone();
                let resource_version = resource_version.get_or_insert(head.resource_version);
                let decoded = decoded
                    .take()
                    .unwrap_or_else(|| Decoded::with_room_for(head.remaining));
                let now = DecodeTask::start(listing, page, decoded);
                if head.next.is_empty() {
                    let Decoded {
                        mut items,
                        unreadable,
                        ..
                    } = now.finish(&call).await?;
                    items.shrink_to_fit();
                    for outline in &unreadable {
                        let kind = listing.kind;
                        self.warnings.add(format!(
                            "{kind} left out, since it cannot be read: {outline}"
                        ));
                    }
                    progress(Progress {
                        listed: items.len(),
                        remaining: Some(0),
                        consistent,
                    });
                    return Ok(Listed {
                        items,
                        unreadable,
                        resource_version: resource_version.clone(),
                        consistent,
                    });
                }
                decoding = Some((now, head.remaining));
                pending = match early {
                    Some((early, token, _)) if token == head.next => early,
                    // A page that broke off and was read again may show another version.
                    _ => self.request_page(&call, &head.next),
                };
            }
        }
    }
}

impl<T> Decoded<T> {
    /// A list that grows by doubling is held twice each time. The server's number is only a hint.
    fn with_room_for(remaining: Option<u64>) -> Self {
        let mut items = Vec::new();
        if let Some(Ok(remaining)) = remaining.map(usize::try_from) {
            let _ = items.try_reserve_exact(remaining.saturating_add(PAGE_SIZE));
        }
        Self {
            items,
            unreadable: Vec::new(),
            sharing: Sharing::default(),
        }
    }
}

/// A page that is decoded on a thread that may block, so that others come in meanwhile.
struct DecodeTask<T>(JoinHandle<Result<Decoded<T>, DecodeError>>);

impl<T: Object> DecodeTask<T> {
    fn start(listing: &'static Listing<T>, page: Page, mut decoded: Decoded<T>) -> Self {
        Self(tokio::task::spawn_blocking(move || {
            let mut add = |item: Encoded<'_>| match item.read(listing.message) {
                Ok(item) => {
                    let mut object = T::from_item(item, listing.kind);
                    object.share(&mut decoded.sharing);
                    decoded.items.push(object);
                }
                Err(outline) => decoded.unreadable.push(outline),
            };
            wire::items(page.encoding, &page.body, &mut add)?;
            Ok(decoded)
        }))
    }

    async fn finish(self, call: &Call) -> ApiResult<Decoded<T>> {
        let decoded = self.0.await.map_err(|panicked| call.malformed(&panicked))?;
        decoded.map_err(|error| call.malformed(&error))
    }
}

pub(crate) fn list_target<T>(listing: &Listing<T>, filter: &ListFilter) -> Target {
    let target = listing.resource.all();
    match filter.namespace.as_deref().or(listing.namespace) {
        Some(namespace) => target.in_namespace(namespace),
        None => target,
    }
}

fn list_call<T>(listing: &Listing<T>, filter: &ListFilter) -> Call {
    let call = Call::on(Method::GET, "list", list_target(listing, filter));
    filter
        .narrow(call)
        .with_query("limit", PAGE_SIZE.to_string())
}
