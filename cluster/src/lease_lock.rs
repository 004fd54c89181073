//! [`LeaseLock`]: a `coordination.k8s.io` Lease that one process holds at a time, as in client-go's
//! leader election (v0.36.3, `tools/leaderelection/leaderelection.go`).
//!
//! The lock tells whether this process holds the Lease; what follows from that is the caller's.
//! Clocks of different machines are never compared: a process counts, by its own clock, for how
//! long it has seen no renewal.

use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use nodelife_core::object::Lease;
use serde_json::{Value, json};

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::listing;
use crate::request::Call;
use crate::resource::Target;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

pub struct LeaseLock {
    cluster: Cluster,
    target: Target,
    identity: String,
    duration: Duration,
    ours: Option<Held>,
    other: Option<Observed>,
}

struct Held {
    /// When it was sent: whoever else sees it counts from a later moment.
    since: Instant,
    version: String,
    transitions: i32,
}

struct Observed {
    version: String,
    first_seen: Instant,
}

impl LeaseLock {
    /// `identity` differs between processes ([`unique_identity`]); `duration`: how long a holder may be silent.
    pub fn new(cluster: Cluster, lease: &LeaseName, identity: String, duration: Duration) -> Self {
        let target = listing::LEASES
            .resource
            .all()
            .in_namespace(&lease.namespace)
            .named(&lease.name);
        Self {
            cluster,
            target,
            identity,
            duration,
            ours: None,
            other: None,
        }
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// When the last successful renewal was sent, if this process is the holder.
    pub fn renewed_at(&self) -> Option<Instant> {
        self.ours.as_ref().map(|held| held.since)
    }

    /// Acquires the Lease, or renews it if the last renewal is older than `renew_after`; whether
    /// this process holds it. It asks once: the caller repeats.
    /// After no answer or a refusal it is unknown whether the Lease was renewed;
    /// [`Self::renewed_at`] stays what it was.
    pub async fn hold(&mut self, renew_after: Duration) -> ApiResult<bool> {
        let now = Instant::now();
        if let Some(held) = &self.ours {
            if now.duration_since(held.since) < renew_after {
                return Ok(true);
            }
            match self.write(&held.version, true, held.transitions).await {
                Ok(lease) => return Ok(self.note(now, &lease)),
                // An earlier renewal whose answer was lost, or another holder: read it.
                Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(lease) = self.read().await? else {
            return match self.create().await {
                Ok(lease) => Ok(self.note(now, &lease)),
                Err(ApiError::Conflict(_)) => Ok(self.lost()),
                Err(error) => Err(error),
            };
        };
        let is_ours = lease.holder() == Some(&*self.identity);
        if !is_ours && lease.holder().is_some() && !self.is_silent(&lease, now) {
            return Ok(self.lost());
        }
        let transitions = lease.spec.lease_transitions.unwrap_or(0) + i32::from(!is_ours);
        let version = lease.metadata.resource_version.to_string();
        match self.write(&version, true, transitions).await {
            Ok(lease) => Ok(self.note(now, &lease)),
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => Ok(self.lost()),
            Err(error) => Err(error),
        }
    }

    /// Releases the Lease, if it is ours, so that a successor need not wait until it expires.
    /// If the Lease cannot be read or written, it expires by itself.
    pub async fn release(&mut self) -> ApiResult<()> {
        if self.ours.take().is_none() {
            return Ok(());
        }
        let Some(lease) = self.read().await? else {
            return Ok(());
        };
        if lease.holder() != Some(&*self.identity) {
            return Ok(());
        }
        let version = lease.metadata.resource_version.to_string();
        let transitions = lease.spec.lease_transitions.unwrap_or(0);
        self.write(&version, false, transitions).await.map(drop)
    }

    fn note(&mut self, since: Instant, lease: &Lease) -> bool {
        self.other = None;
        self.ours = Some(Held {
            since,
            version: lease.metadata.resource_version.to_string(),
            transitions: lease.spec.lease_transitions.unwrap_or(0),
        });
        true
    }

    fn lost(&mut self) -> bool {
        self.ours = None;
        false
    }

    /// Whether the other holder has not renewed for its whole duration of our own clock.
    fn is_silent(&mut self, lease: &Lease, now: Instant) -> bool {
        let version = lease.metadata.resource_version.as_str();
        let seconds = lease.spec.lease_duration_seconds;
        let seconds = seconds.and_then(|seconds| seconds.try_into().ok());
        let duration = seconds.map_or(self.duration, Duration::from_secs);
        match &self.other {
            Some(seen) if seen.version == version => {
                now.duration_since(seen.first_seen) >= duration
            }
            _ => {
                self.other = Some(Observed {
                    version: version.to_owned(),
                    first_seen: now,
                });
                false
            }
        }
    }

    async fn read(&self) -> ApiResult<Option<Lease>> {
        let call = Call::get(self.target.clone());
        match self.send(&call).await {
            Ok(lease) => Ok(Some(lease)),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self) -> ApiResult<Lease> {
        let mut list = self.target.clone();
        let name = list.name.take();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": name },
            "spec": self.spec(true, 0),
        });
        self.send(&Call::create(list, &lease)?).await
    }

    async fn write(&self, version: &str, holds: bool, transitions: i32) -> ApiResult<Lease> {
        let patch = json!({
            "metadata": { "resourceVersion": version },
            "spec": self.spec(holds, transitions),
        });
        let call = Call::on(Method::PATCH, "patch", self.target.clone())
            .with_json("application/merge-patch+json", &patch)?;
        self.send(&call).await
    }

    /// Sends once: a repeated read would outlive the moment for which it asks.
    async fn send(&self, call: &Call) -> ApiResult<Lease> {
        self.cluster.call(call).await?.json(call)
    }

    fn spec(&self, holds: bool, transitions: i32) -> Value {
        json!({
            "holderIdentity": if holds { self.identity.as_str() } else { "" },
            "leaseDurationSeconds": self.duration.as_secs(),
            // MicroTime: six digits, always.
            "renewTime": format!("{:.6}", Timestamp::now()),
            "leaseTransitions": transitions,
        })
    }
}

/// An identity that no other process has: the Pod's name or `program`, made unique as in client-go.
pub fn unique_identity(program: &str) -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| program.to_owned());
    let start = Timestamp::now().as_nanosecond();
    format!("{host}_{}_{start}", std::process::id())
}
