//! Drain locks: a Lease for each drain, which names the nodes that the drain has to itself.
//!
//! The Leases stand in a namespace in which the API server lets no kubelet write, so that no node can
//! keep its own drain away. Its annotations say nothing about the lock.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use crate::object::Lease;
use crate::text::Str;

pub const LOCK_NAMESPACE: &str = "nodelife-system";

pub const LOCK_LABEL: &str = "nodelife.dev/drain-lock";

/// The value of the label from the moment on when the drain has its nodes.
pub const LOCK_HELD: &str = "held";

/// The annotation of the Lease with the names of the nodes, separated by commas.
pub const LOCK_NODES: &str = "nodelife.dev/nodes";

/// For how long the lock of a drain at a terminal holds that nobody renews.
pub const LOCK_LEASE: SignedDuration = SignedDuration::from_mins(1);

/// The same of a maintenance, which runs for long, and whose next process takes its lock at once.
pub const MAINTENANCE_LOCK_LEASE: SignedDuration = SignedDuration::from_mins(4);

/// After so long, any drain removes the Lease of one that is dead.
const REMOVED_AFTER: SignedDuration = SignedDuration::from_hours(24);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub name: Str,
    pub uid: Str,
    pub resource_version: Str,
    /// Who, for people: user, machine and process id.
    pub holder: Str,
    /// Since when, by the API server's clock.
    pub since: Timestamp,
    /// When the holder was last heard of, by the API server's clock.
    pub renewed_at: Timestamp,
    /// For how long it holds then.
    pub lease: SignedDuration,
    pub nodes: BTreeSet<Str>,
    pub is_held: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Claim<'a> {
    Held,
    /// These came first.
    Yields(Vec<&'a Lock>),
    /// Nobody came first, but these have to be removed: their holders find out when they wake.
    Expired(Vec<&'a Lock>),
    Lost,
}

impl Claim<'_> {
    /// What the drain with the Lease `own` may do, by a list of all Leases that was read after `own` was
    /// created.
    ///
    /// The first of two Leases is the one with the lower resource version: versions are ordered since
    /// Kubernetes 1.35 (KEP-5504), and etcd's revisions before. A Lease is written first when its drain
    /// has the nodes, so the version of one that only asks is that of its creation. A drain that finds
    /// nobody before it has its nodes, and whoever creates a Lease later finds it.
    pub fn of<'a>(own: &str, locks: &'a [Lock], now: Timestamp) -> Claim<'a> {
        let mut all = locks.iter();
        let Some(own) = all.find(|lock| lock.uid == own && !lock.has_expired(now)) else {
            return Claim::Lost;
        };
        let others = locks.iter().filter(|other| other.uid != own.uid);
        let (expired, living): (Vec<&Lock>, Vec<&Lock>) =
            others.partition(|other| other.has_expired(now));
        let is_first = |other: &&Lock| {
            other.shares_nodes(&own.nodes) && (other.is_held || other.version() < own.version())
        };
        let first: Vec<&Lock> = living.into_iter().filter(is_first).collect();
        if !first.is_empty() {
            return Claim::Yields(first);
        }
        let is_over = |other: &&Lock| {
            other.shares_nodes(&own.nodes) || other.silence(now).abs() > REMOVED_AFTER
        };
        let expired: Vec<&Lock> = expired.into_iter().filter(is_over).collect();
        if expired.is_empty() {
            Claim::Held
        } else {
            Claim::Expired(expired)
        }
    }
}

impl Lock {
    /// The lock that a Lease is. One that was never renewed has expired.
    pub fn of(lease: Lease) -> Self {
        let Lease { metadata, spec } = lease;
        let nodes = metadata.annotations.get(LOCK_NODES);
        let nodes = nodes.map(|nodes| nodes.split(',').map(Str::from).collect());
        let seconds = spec.lease_duration_seconds.map(i64::from);
        let lease = seconds.map_or(LOCK_LEASE, SignedDuration::from_secs);
        Self {
            lease: lease.clamp(LOCK_LEASE, MAINTENANCE_LOCK_LEASE),
            is_held: metadata.labels.get(LOCK_LABEL).map(Str::as_str) == Some(LOCK_HELD),
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            holder: spec.holder_identity.unwrap_or_default(),
            since: metadata.creation_timestamp.unwrap_or_default(),
            renewed_at: spec.renew_time.unwrap_or_default(),
            nodes: nodes.unwrap_or_default(),
        }
    }

    pub fn shares_nodes(&self, nodes: &BTreeSet<Str>) -> bool {
        !self.nodes.is_disjoint(nodes)
    }

    /// Whether the holder was not heard of for too long. A time in the future is no better than
    /// one in the past: nobody may hold a node by a clock that was wrong.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.silence(now).abs() > self.lease
    }

    /// How often the holder renews: three renewals may fail before the lock passes on.
    pub fn renewal(&self) -> SignedDuration {
        self.lease / 4
    }

    fn silence(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.renewed_at)
    }

    /// One that is no number comes last: such a server is none that we know.
    fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(u64::MAX)
    }

    /// Who, since when, and when the lock passes on if nobody renews it.
    pub fn describe(&self, now: Timestamp) -> String {
        let silent = self.silence(now).as_secs();
        let renewed = if silent > 0 {
            format!("last renewed {silent} s ago")
        } else {
            "renewed just now".to_owned()
        };
        let left = (self.lease.as_secs() - silent).max(0);
        format!(
            "{} has been draining it since {:.0}, {renewed}; if that drain is dead, its lock \
             expires in {left} s",
            self.holder, self.since
        )
    }
}

#[cfg(test)]
mod tests;
