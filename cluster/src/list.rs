//! Whole lists, page by page: one is decoded while the next is on its way.

use bytes::Bytes;
use http::Method;
use nodelife_core::text::Str;

use crate::client::Cluster;
use crate::error::ApiError;
use crate::listing::{Listing, Object};
use crate::request::Call;
use crate::resource::Target;
use crate::wire::{self, Encoding, PageHead, Sharing};

/// Objects a page. client-go's pager takes as many (v0.36.3, `tools/pager/pager.go`).
const PAGE: usize = 500;

/// How often a list starts over when its version is gone (410) before it goes on
/// with pages of a later version.
const RESTARTS: usize = 1;

/// Which objects of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// A label selector, as kubectl's `-l`.
    pub labels: Option<String>,
    /// A field selector, `spec.nodeName=worker-1`.
    pub fields: Option<String>,
}

impl Selection {
    /// The pods that are bound to a node.
    pub fn on_node(node: &str) -> Self {
        Self {
            fields: Some(format!("spec.nodeName={node}")),
            ..Self::default()
        }
    }

    /// Puts the selectors into a query.
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

/// How far a list has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Objects that are here.
    pub listed: usize,
    /// Objects that are still to come, where the server knows.
    pub remaining: Option<u64>,
    /// Whether all pages so far show the same version ([`Listed::consistent`]).
    pub consistent: bool,
}

/// A list, as the server had it at one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The version that it shows: where a watch goes on.
    pub resource_version: Str,
    /// Whether all pages show the same version. If not, an object that changed
    /// meanwhile may be there as it was earlier, and one may be there that is gone.
    pub consistent: bool,
}

/// A page that has arrived.
struct Page {
    head: PageHead,
    encoding: Encoding,
    body: Bytes,
}

/// What has been decoded so far, on its way in and out of the decoding thread.
struct Decoded<T> {
    items: Vec<T>,
    sharing: Sharing,
}

impl Cluster {
    /// Lists everything that `selection` takes, by a consistent read: what the server
    /// had committed when the request came in is in it. (No `resourceVersion`: with
    /// `0` a server answers from its cache, and ignores the limit.)
    ///
    /// `progress` is called after each page.
    ///
    /// # Errors
    ///
    /// [`ApiError`]; pages are read again for up to 30 s each while the server is
    /// overloaded or restarting.
    pub async fn list<T: Object>(
        &self,
        listing: &'static Listing<T>,
        selection: &Selection,
        progress: impl FnMut(Progress),
    ) -> Result<Listed<T>, ApiError> {
        self.list_as(Encoding::Protobuf, listing, selection, progress)
            .await
    }

    /// [`Cluster::list`], asking for one encoding.
    ///
    /// # Errors
    ///
    /// As [`Cluster::list`].
    pub async fn list_as<T: Object>(
        &self,
        encoding: Encoding,
        listing: &'static Listing<T>,
        selection: &Selection,
        mut progress: impl FnMut(Progress),
    ) -> Result<Listed<T>, ApiError> {
        let call = list_call(listing, selection).with_accept(encoding.accept());
        let mut restarts = 0;
        'list: loop {
            let mut page = self.page(&call, "").await?;
            let mut consistent = true;
            let resource_version = page.head.resource_version.clone();
            let mut decoded = Decoded {
                items: Vec::new(),
                sharing: Sharing::default(),
            };
            // A list that grows by doubling is held twice each time. What the server says is a
            // hint, so nothing fails for want of it.
            let remaining = page.head.remaining.map(usize::try_from);
            if let Some(Ok(remaining)) = remaining {
                let _ = (decoded.items).try_reserve_exact(remaining.saturating_add(PAGE));
            }
            loop {
                let head = page.head.clone();
                let decoding = decode(&call, listing, page, decoded);
                if head.next.is_empty() {
                    let Decoded { mut items, .. } = decoding.await?;
                    items.shrink_to_fit();
                    progress(Progress {
                        listed: items.len(),
                        remaining: Some(0),
                        consistent,
                    });
                    return Ok(Listed {
                        items,
                        resource_version,
                        consistent,
                    });
                }
                let (done, next) = futures::join!(decoding, self.page(&call, &head.next));
                decoded = done?;
                progress(Progress {
                    listed: decoded.items.len(),
                    remaining: head.remaining,
                    consistent,
                });
                page = match next {
                    Ok(page) => page,
                    Err(ApiError::Expired(answer)) => {
                        if restarts < RESTARTS {
                            restarts += 1;
                            continue 'list;
                        }
                        // The server's way to go on from a later version stands in the refusal.
                        let Some(token) = answer
                            .status
                            .as_ref()
                            .and_then(|s| s.metadata.next.as_deref())
                        else {
                            return Err(ApiError::Expired(answer));
                        };
                        consistent = false;
                        self.page(&call, token).await?
                    }
                    Err(error) => return Err(error),
                };
            }
        }
    }

    async fn page(&self, call: &Call, token: &str) -> Result<Page, ApiError> {
        let mut call = call.clone();
        if !token.is_empty() {
            call = call.with_query("continue", token);
        }
        let answer = self.read(&call).await?;
        let encoding = Encoding::of(answer.header("content-type"));
        let head = wire::head(encoding, answer.body()).map_err(|error| call.malformed(&error))?;
        Ok(Page {
            head,
            encoding,
            body: answer.into_body(),
        })
    }
}

/// The address of a list, narrowed to the namespace that was chosen.
pub(crate) fn list_target<T>(listing: &Listing<T>, selection: &Selection) -> Target {
    let target = listing.resource.all();
    match selection.namespace.as_deref().or(listing.namespace) {
        Some(namespace) => target.in_namespace(namespace),
        None => target,
    }
}

fn list_call<T>(listing: &Listing<T>, selection: &Selection) -> Call {
    let call = Call::on(Method::GET, "list", list_target(listing, selection));
    selection.narrow(call).with_query("limit", PAGE.to_string())
}

/// Decodes a page on a thread that may block, so that the next page comes in meanwhile.
async fn decode<T: Object>(
    call: &Call,
    listing: &'static Listing<T>,
    page: Page,
    mut decoded: Decoded<T>,
) -> Result<Decoded<T>, ApiError> {
    let task = tokio::task::spawn_blocking(move || {
        let Decoded { items, sharing } = &mut decoded;
        wire::items(page.encoding, listing, &page.body, sharing, items).map(|()| decoded)
    });
    task.await
        .map_err(|panicked| call.malformed(&panicked))?
        .map_err(|error| call.malformed(&error))
}
