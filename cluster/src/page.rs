//! One page of a list: request, streaming and head.

use bytes::Bytes;
use http::HeaderMap;
use nodelife_core::text::Str;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Cluster;
use crate::error::ApiResult;
use crate::request::Call;
use crate::wire::{self, Encoding, PageHead};

/// A head stands within so many bytes, or is not looked for before the page is at its end.
const MAX_HEAD: usize = 64 << 10;

pub(crate) struct Page {
    pub(crate) head: PageHead,
    pub(crate) encoding: Encoding,
    pub(crate) body: Bytes,
}

impl Cluster {
    pub(crate) fn request_page(&self, call: &Call, token: &str) -> PendingPage {
        let mut call = call.clone();
        if !token.is_empty() {
            call = call.with_query("continue", token);
        }
        let (sender, next) = watch::channel(None);
        let cluster = self.clone();
        let mut whole = JoinSet::new();
        whole.spawn(async move { cluster.page(&call, &sender).await });
        PendingPage { next, whole }
    }

    /// Reads a page, and tells where the next one begins before it is at its end.
    async fn page(&self, call: &Call, next: &watch::Sender<Option<Str>>) -> ApiResult<Page> {
        let observer = |headers: &HeaderMap, begun: &[u8]| {
            let encoding = Encoding::of(headers);
            next.send_if_modified(|next| {
                if next.is_none() && encoding == Encoding::Protobuf && begun.len() < MAX_HEAD {
                    *next = wire::head(encoding, begun).ok().map(|head| head.next);
                }
                next.is_some()
            });
        };
        let answer = self.read_observed(call, &observer).await?;
        let encoding = Encoding::of(&answer.headers);
        let head = wire::head(encoding, answer.body()).map_err(|error| call.malformed(&error))?;
        Ok(Page {
            head,
            encoding,
            body: answer.into_body(),
        })
    }
}

pub(crate) struct PendingPage {
    next: watch::Receiver<Option<Str>>,
    whole: JoinSet<ApiResult<Page>>,
}

impl PendingPage {
    pub(crate) async fn token_of_next(&mut self) -> Option<Str> {
        let known = self.next.wait_for(Option::is_some).await.ok()?;
        known.clone().filter(|token| !token.is_empty())
    }

    pub(crate) async fn page(mut self, call: &Call) -> ApiResult<Page> {
        match self.whole.join_next().await {
            Some(ended) => ended.map_err(|panicked| call.malformed(&panicked))?,
            None => Err(call.malformed(&"nobody reads it")),
        }
    }
}
