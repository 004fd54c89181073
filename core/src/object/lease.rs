//! Leases: a node's heartbeat.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Meta;
use crate::text::Str;

/// `coordination.k8s.io/v1` Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lease {
    /// Metadata; a node's lease bears the node's name.
    pub metadata: Meta,
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub holder_identity: Option<Str>,
    /// How long a renewal holds, in seconds.
    pub lease_duration_seconds: Option<i32>,
    /// The last renewal, by the holder's clock.
    #[serde(deserialize_with = "crate::time::optional")]
    pub renew_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i32>,
}

impl Lease {
    /// Who holds it; none if it was given back.
    pub fn holder(&self) -> Option<&str> {
        let holder = self.spec.holder_identity.as_deref();
        holder.filter(|holder| !holder.is_empty())
    }
}
