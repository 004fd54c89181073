//! The client for lookups: one live GET each, without a cache.
//!
//! A cache of all pods would cost more memory than the rest of the process, and one of budgets and
//! workloads as much as those who write them like; the rules that need a lookup are rare (one token per
//! pod and hour, a changed scale), so a live read is cheap and never stale, but for the lists of a scale.
//!
//! Unlike the plugin it does not fall back to `~/.kube/config`: a webhook without an API server still
//! answers what needs no lookup.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodelife_admission::{Access, Lookup, LookupResult, MOST_LISTED, MinorVersion};
use nodelife_cluster::request::Call;
use nodelife_cluster::resource::Resource;
use nodelife_cluster::{ApiError, ApiResult, Cluster};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
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
const REVIEWS: Resource = Resource::grouped("authorization.k8s.io", "v1", "subjectaccessreviews");

pub(crate) struct LookupClient {
    cluster: Option<Cluster>,
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
        let cluster = config.map(|config| Cluster::build(config, None));
        let cluster = cluster.transpose()?;
        if cluster.is_none() {
            tracing::warn!(
                "no API server for lookups: requests that need one get 503: evictions, tokens, mirror pods and pod certificates of nodes"
            );
        }
        Ok(Self {
            cluster,
            room: Semaphore::new(LOOKUPS),
            peers: Mutex::default(),
        })
    }

    /// The API server's version; `None` without an API server.
    pub(crate) async fn server_version(&self) -> Option<anyhow::Result<MinorVersion>> {
        let asked = tokio::time::timeout(VERSION, self.cluster.as_ref()?.fetch_version());
        Some(asked.await.map_err(anyhow::Error::from).and_then(|answer| {
            let version = answer?.context("reading it is forbidden")?;
            let minor = version.minor;
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
        let Some(cluster) = &self.cluster else {
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
            ask(cluster, lookup).await
        };
        match tokio::time::timeout_at(deadline, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => LookupResult::Failed(format!("the lookup failed: {error:#}")),
            Err(_) => LookupResult::Failed("the lookup timed out".to_owned()),
        }
    }
}

/// Asks once: the API server repeats the whole review.
async fn ask(cluster: &Cluster, lookup: &Lookup) -> ApiResult<LookupResult> {
    match cluster.call(&call(lookup)?).await {
        Ok(answer) => Ok(LookupResult::read(lookup, answer.body())),
        Err(ApiError::NotFound(_)) => Ok(LookupResult::Missing),
        Err(error) => Err(error),
    }
}

fn call(lookup: &Lookup) -> ApiResult<Call> {
    if let Lookup::Access(access) = lookup {
        return Call::create(REVIEWS.all(), &access_review(access));
    }
    let ((api, kind), namespace, name) = lookup.object();
    let root = if api == "v1" { "api" } else { "apis" };
    let namespace = namespace.map(|namespace| format!("/namespaces/{}", escape(namespace)));
    let name = name.map(|name| format!("/{}", escape(name)));
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let kinds = kind.to_lowercase();
    let call = Call::path(&format!("/{root}/{api}{namespace}/{kinds}s{name}")).with_most(LARGEST);
    Ok(match lookup {
        // The cache knows no limit.
        Lookup::List { cached: true, .. } => call.with_query("resourceVersion", "0"),
        Lookup::List { .. } => call.with_query("limit", MOST_LISTED.to_string()),
        _ => call,
    })
}

/// Whether an object can have this name (apimachinery pkg/api/validation/path/name.go,
/// `IsValidPathSegmentName`): in the mutating phase, names that the client sent are not validated.
fn is_path_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '%'])
}

fn escape(name: &str) -> impl Display {
    utf8_percent_encode(name, NON_ALPHANUMERIC)
}

fn access_review(access: &Access) -> Value {
    json!({
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
    })
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
            let uri = call(&lookup).unwrap().uri();
            assert_eq!(uri, format!("/api/v1/namespaces/d/pods/{escaped}"));
        }
    }
}
