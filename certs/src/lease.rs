//! Leader election with a Lease, so that only one writer works at a time.
//!
//! It only avoids duplicate work: every write is conditional on a resourceVersion, so a writer
//! that wrongly believes it holds the Lease does no harm.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::error::Error;
use crate::names::ObjectNames;

/// How long a holder may be silent, as in client-go's leader election
/// (`LeaseDuration`, `RenewDeadline`, `RetryPeriod` are 15, 10 and 2 s).
const DURATION: Duration = Duration::from_secs(15);
/// A third of it: two renewals may fail.
const RENEW: Duration = Duration::from_secs(5);

/// The Lease, as this process tries to hold it.
pub(crate) struct LeaseLock {
    api: Api<Lease>,
    what: String,
    name: String,
    identity: String,
    renewed: Option<Instant>,
    /// The other holder's resourceVersion and when we first observed it: clocks are not compared.
    other: Option<(String, Instant)>,
}

impl LeaseLock {
    pub(crate) fn new(client: Client, names: &ObjectNames, identity: String) -> Self {
        Self {
            api: Api::namespaced(client, &names.namespace),
            what: format!("Lease {}/{}", names.namespace, names.lease),
            name: names.lease.clone(),
            identity,
            renewed: None,
            other: None,
        }
    }

    /// Acquires or renews the Lease if that is due; returns whether we hold it.
    pub(crate) async fn hold(&mut self) -> Result<bool, Error> {
        if self.renewed.is_some_and(|at| at.elapsed() < RENEW) {
            return Ok(true);
        }
        self.renewed = None;
        let now = Instant::now();
        let lease = self
            .api
            .get_opt(&self.name)
            .await
            .map_err(Error::of_read(format!("get {}", self.what)))?;
        let written = match lease {
            None => self.create().await,
            Some(lease) => {
                let version = lease.metadata.resource_version.unwrap_or_default();
                let spec = lease.spec.unwrap_or_default();
                let holder = spec.holder_identity.unwrap_or_default();
                let ours = holder == self.identity;
                if !ours && !holder.is_empty() && !self.silent(&version, now) {
                    return Ok(false);
                }
                let transitions = spec.lease_transitions.unwrap_or(0) + i32::from(!ours);
                self.write(&version, &self.identity, transitions).await
            }
        };
        match written {
            Ok(()) => {
                self.renewed = Some(now);
                Ok(true)
            }
            Err(Error::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Releases the Lease, so that a successor need not wait until it expires.
    pub(crate) async fn release(&mut self) -> Result<(), Error> {
        if self.renewed.take().is_none() {
            return Ok(());
        }
        let lease = self
            .api
            .get(&self.name)
            .await
            .map_err(Error::of_read(format!("get {}", self.what)))?;
        let spec = lease.spec.unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        let version = lease.metadata.resource_version.unwrap_or_default();
        self.write(&version, "", spec.lease_transitions.unwrap_or(0))
            .await
    }

    /// Whether the other holder has not renewed for [`DURATION`] of our own clock.
    fn silent(&mut self, version: &str, now: Instant) -> bool {
        match &self.other {
            Some((seen, since)) if seen == version => now.duration_since(*since) >= DURATION,
            _ => {
                self.other = Some((version.to_owned(), now));
                false
            }
        }
    }

    async fn create(&self) -> Result<(), Error> {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": self.name },
            "spec": spec(&self.identity, 0),
        });
        let lease: Lease = serde_json::from_value(lease)
            .map_err(|error| Error::unusable("the Lease", error.to_string()))?;
        self.api
            .create(&PostParams::default(), &lease)
            .await
            .map(drop)
            .map_err(|error| Error::of_write(format!("create {}", self.what), error))
    }

    async fn write(&self, version: &str, holder: &str, transitions: i32) -> Result<(), Error> {
        let patch = json!({
            "metadata": { "resourceVersion": version },
            "spec": spec(holder, transitions),
        });
        self.api
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(drop)
            .map_err(|error| Error::of_write(format!("write {}", self.what), error))
    }
}

fn spec(holder: &str, transitions: i32) -> Value {
    json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": DURATION.as_secs(),
        // MicroTime: six digits, always.
        "renewTime": format!("{:.6}", Timestamp::now()),
        "leaseTransitions": transitions,
    })
}
