//! The client for lookups: one live GET each, without a cache.
//!
//! A cache of all pods would cost more memory than the rest of the process; the rules that need a
//! lookup are rare (one token per pod and hour, a changed scale), so a live read is cheap and never
//! stale, but for the lists of a scale.
//!
//! This is not [`nodelife_cluster::Cluster`], which falls back to `~/.kube/config` and waits 15 s
//! for a connection: a lookup has less time than the timeout of a review, and a webhook without
//! an API server still answers what needs no lookup.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nodelife_admission::{Access, Lookup, LookupResult, MOST_LISTED, MinorVersion};
use nodelife_cluster::USER_AGENT;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Concurrent lookups, and those of one address: forged reviews leave room for an API server's.
const LOOKUPS: usize = 32;
const LOOKUPS_OF_PEER: usize = LOOKUPS / 2;
/// A list takes as much memory as this many objects.
const ROOM_OF_LIST: u32 = 4;
/// Bytes of an answer.
const LARGEST: usize = 4 << 20;
const VERSION: Duration = Duration::from_secs(5);

pub(crate) struct LookupClient {
    client: Option<Client>,
    room: Semaphore,
    peers: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl LookupClient {
    /// Uses the cluster of `kubeconfig`, or else that of this Pod. Without either, every lookup
    /// fails, and a request that needs one gets no verdict.
    ///
    /// Does not connect yet: the API server may start later than the webhook.
    pub(crate) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        let config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path)
                    .with_context(|| format!("failed to read {}", path.display()))?;
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(file, &options).await;
                Some(config.with_context(|| format!("failed to use {}", path.display()))?)
            }
            None => Config::incluster().ok(),
        };
        let client = config.map(client).transpose()?;
        if client.is_none() {
            tracing::warn!(
                "no API server for lookups: requests that need one get 503: evictions, tokens, mirror pods and pod certificates of nodes"
            );
        }
        Ok(Self {
            client,
            room: Semaphore::new(LOOKUPS),
            peers: Mutex::default(),
        })
    }

    /// The API server's version; `None` without an API server.
    pub(crate) async fn server_version(&self) -> Option<anyhow::Result<MinorVersion>> {
        let asked = tokio::time::timeout(VERSION, self.client.as_ref()?.apiserver_version());
        Some(asked.await.map_err(anyhow::Error::from).and_then(|answer| {
            let minor = answer?.minor;
            MinorVersion::of_server(&minor)
                .with_context(|| format!("the minor version is {minor:?}"))
        }))
    }

    /// The room of the lookups for one address; that of an address without lookups is forgotten.
    fn room_of(&self, peer: IpAddr) -> Arc<Semaphore> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.retain(|_, room| Arc::strong_count(room) > 1);
        let room = peers.entry(peer);
        Arc::clone(room.or_insert_with(|| Arc::new(Semaphore::new(LOOKUPS_OF_PEER))))
    }

    pub(super) async fn answer(
        &self,
        lookup: &Lookup,
        peer: IpAddr,
        deadline: Instant,
    ) -> LookupResult {
        let Some(client) = &self.client else {
            return LookupResult::Failed(
                "the lookup failed: no API server is configured".to_owned(),
            );
        };
        let (_, namespace, name) = lookup.object();
        if !namespace.into_iter().chain(name).all(is_path_segment) {
            return LookupResult::Missing;
        }
        let asked = async {
            // The semaphores are never closed. The own one first: who waits there takes nobody's room.
            let of_peer = self.room_of(peer);
            let room = match lookup {
                Lookup::List { .. } => ROOM_OF_LIST,
                _ => 1,
            };
            let _own = of_peer.acquire_many(room).await;
            let _room = self.room.acquire_many(room).await;
            ask(client, lookup).await
        };
        match tokio::time::timeout_at(deadline, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => LookupResult::Failed(format!("the lookup failed: {error:#}")),
            Err(_) => LookupResult::Failed("the lookup timed out".to_owned()),
        }
    }
}

fn client(mut config: Config) -> anyhow::Result<Client> {
    // The API server retries the whole call; a hidden retry here would only outlive it.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.headers.push((
        HeaderName::from_static("user-agent"),
        HeaderValue::from_static(USER_AGENT),
    ));
    Client::try_from(config).context("failed to create the API client")
}

async fn ask(client: &Client, lookup: &Lookup) -> anyhow::Result<LookupResult> {
    let answer = client.send(request(lookup)?).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
    if status == StatusCode::NOT_FOUND {
        return Ok(LookupResult::Missing);
    }
    if !status.is_success() {
        anyhow::bail!("the API server answered {status}");
    }
    Ok(LookupResult::read(lookup, &body))
}

fn request(lookup: &Lookup) -> anyhow::Result<Request<kube::client::Body>> {
    let ((api, kind), namespace, name) = lookup.object();
    let root = if api == "v1" { "api" } else { "apis" };
    let mut path = format!("/{root}/{api}");
    if let Some(namespace) = namespace {
        write!(path, "/namespaces/{}", escape(namespace))?;
    }
    write!(path, "/{}s", kind.to_lowercase())?;
    if let Some(name) = name {
        write!(path, "/{}", escape(name))?;
    }
    match lookup {
        // The cache knows no limit.
        Lookup::List { cached: true, .. } => path.push_str("?resourceVersion=0"),
        Lookup::List { .. } => write!(path, "?limit={MOST_LISTED}")?,
        _ => {}
    }
    let (method, body) = match lookup {
        Lookup::Access(access) => (Method::POST, access_review(access)?),
        _ => (Method::GET, Vec::new()),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(kube::client::Body::from(body))?;
    Ok(request)
}

/// Whether an object can have this name (apimachinery pkg/api/validation/path/name.go,
/// `IsValidPathSegmentName`): in the mutating phase, names that the client sent are not validated.
fn is_path_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

fn escape(name: &str) -> impl Display {
    utf8_percent_encode(name, NON_ALPHANUMERIC)
}

fn access_review(access: &Access) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": access.user,
            "uid": access.uid,
            "groups": access.groups,
            "extra": access.extra,
            "resourceAttributes": {
                "verb": access.verb,
                "group": access.group,
                "version": access.version,
                "resource": access.resource,
                "namespace": access.namespace,
                "name": access.name,
            },
        },
    }))
}

/// Time for lookups, so that the response is sent before the API server gives up.
pub(super) fn time_for_lookups(timeout: Duration) -> Duration {
    timeout
        .saturating_sub(Duration::from_millis(500))
        .max(timeout / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_address_leaves_room_for_another() {
        let lookups = LookupClient::connect(None).await.unwrap();
        let [forger, server] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let room = lookups.room_of(forger);
        let taken: Vec<_> = std::iter::from_fn(|| room.try_acquire().ok()).collect();
        assert_eq!(taken.len(), LOOKUPS_OF_PEER);
        assert!(lookups.room_of(forger).try_acquire().is_err());
        assert!(lookups.room_of(server).try_acquire().is_ok());
        drop(taken);
        drop(room);
        lookups.room_of(server);
        assert_eq!(lookups.peers.lock().unwrap().len(), 1);
    }

    /// In the mutating phase, the name in a `boundObjectRef` is what the client sent.
    #[test]
    fn a_name_cannot_leave_its_segment_of_the_path() {
        for name in ["", ".", "..", "../../nodes/n", "a/b", "a%2fb"] {
            assert!(!is_path_segment(name), "{name}");
        }
        for (name, escaped) in [("a?watch=1", "a%3Fwatch%3D1"), ("a#b c", "a%23b%20c")] {
            assert!(is_path_segment(name), "{name}");
            let lookup = Lookup::Pod {
                namespace: "d".to_owned(),
                name: name.to_owned(),
            };
            let uri = request(&lookup).unwrap().uri().to_string();
            assert_eq!(uri, format!("/api/v1/namespaces/d/pods/{escaped}"));
        }
    }
}
