//! `Reservations`: the nodes that each maintenance of this leader has reserved and is draining. It keeps
//! two maintenances off one node, and shares the limits that they have in common.
//!
//! It need not outlive the leader: the status of each object has its nodes, and the nodes show whether
//! they are cordoned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use nodelife_cluster::watch::Update;
use nodelife_core::format;
use nodelife_core::node_marks::Lock;
use nodelife_core::object::{Lease, Node};
use nodelife_core::text::Str;
use nodelife_drain::{MaxUnavailable, SharedLimits, SharedState};
use nodelife_drain_plan::{InUse, Share};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::nodes::Nodes;

/// How many nodes a sentence names.
const SHOWN: usize = 10;

/// How many of the maintenances that wait may write at once. The requests of one account share a queue of the
/// API server: behind thousands, the renewal of the Lease would come too late.
const WAITING_WRITES: usize = 4;

/// How long a change waits for the next one, for each that hears of it: thousands cannot look each time.
const PAUSE: Duration = Duration::from_micros(50);

pub(super) struct Reservations {
    known: Mutex<Known>,
    changes: watch::Sender<()>,
    turns: Semaphore,
    pub(super) process: Arc<SharedState>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) nodes: Nodes,
    /// The locks of all drains, by the name of the Lease; none before the first list.
    pub(super) locks: BTreeMap<Str, Lock>,
    /// By UID.
    taken: BTreeMap<Str, Taken>,
    /// The part of the shared limits that the drain of each one uses.
    in_use: BTreeMap<Str, InUse>,
    /// The nodes of drains that have ended which the watch does not show to be cordoned yet.
    unseen: BTreeSet<Str>,
}

pub(super) struct Taken {
    pub(super) name: Str,
    /// Without those that it leaves alone.
    pub(super) nodes: BTreeSet<Str>,
    /// Whether its drain has ended: its nodes are out until it is deleted.
    pub(super) has_ended: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// How many nodes may be drained at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) max_unavailable: Option<MaxUnavailable>,
    pub(super) max_per_zone: Option<usize>,
}

impl Reservations {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            known: Mutex::default(),
            changes: watch::Sender::new(()),
            turns: Semaphore::new(WAITING_WRITES),
            process: Arc::default(),
        })
    }

    /// The turn of a maintenance that waits to write; those that drain need none.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Waits after a change until more may have come.
    pub(super) async fn gather(&self) {
        let hearers = u32::try_from(self.changes.receiver_count()).unwrap_or(u32::MAX);
        tokio::time::sleep(PAUSE.saturating_mul(hearers)).await;
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes with what is taken, and with the nodes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Takes in an update of the watch of nodes.
    pub(super) fn take_in(&self, update: Update<Node>) {
        let mut known = self.known();
        match &update {
            Update::Listed(_) => known.unseen.clear(),
            Update::Applied(node) if !node.spec.unschedulable => {}
            Update::Applied(node) | Update::Deleted(node) => {
                known.unseen.remove(&node.metadata.name);
            }
            Update::Unreadable(_) | Update::Failed { .. } => {}
        }
        let is_new = known.nodes.take_in(update);
        drop(known);
        if is_new {
            self.changes.send_replace(());
        }
    }

    pub(super) fn take_in_locks(&self, update: Update<Lease>) {
        let locks = &mut self.known().locks;
        match update {
            Update::Listed(leases) => {
                let leases = leases.into_iter().map(Lock::of);
                *locks = leases.map(|lock| (lock.name.clone(), lock)).collect();
            }
            Update::Applied(lease) => {
                locks.insert(lease.metadata.name.clone(), Lock::of(lease));
            }
            Update::Deleted(lease) => drop(locks.remove(&lease.metadata.name)),
            Update::Unreadable(_) => {}
            // A drain lists them itself: it is refused then.
            Update::Failed { error, wait } => {
                tracing::warn!(%error, ?wait, "the watch of the locks of drains failed, retrying");
                return;
            }
        }
        self.changes.send_replace(());
    }

    /// Forgets the nodes and the locks: they are not watched any more.
    pub(super) fn forget_nodes(&self) {
        let mut known = self.known();
        known.nodes = Nodes::default();
        known.locks.clear();
    }
}

impl Known {
    /// The lock of another drain, which is alive, on a node; `own`: the name of the own lock.
    pub(super) fn held_by_other(&self, node: &Str, own: &str, now: Timestamp) -> Option<&Lock> {
        let mut others = self.locks.values().filter(|lock| *lock.name != *own);
        others.find(|lock| lock.nodes.contains(node) && !lock.has_expired(now))
    }

    /// The other maintenance that has some of these nodes.
    pub(super) fn taken(&self, uid: &str, nodes: &BTreeSet<Str>) -> Option<Wait> {
        let mut others = self.taken.iter().filter(|(other, _)| *other != uid);
        others.find_map(|(_, other)| {
            let shared = format::first(SHOWN, other.nodes.intersection(nodes));
            (!shared.is_empty()).then(|| Wait {
                reason: "NodeInMaintenance",
                message: format!(
                    "waits for nodemaintenance/{}, which has {shared}",
                    other.name
                ),
            })
        })
    }

    /// The nodes of others that take no pods.
    fn others_out(&self, uid: &str) -> BTreeSet<&Str> {
        let own = self.taken.get(uid).map(|own| &own.nodes);
        let others = self.taken.iter().filter(|(other, _)| *other != uid);
        let nodes = others.flat_map(|(_, other)| &other.nodes);
        let nodes = nodes.filter(|node| own.is_none_or(|own| !own.contains(*node)));
        nodes.filter(|node| self.is_out(node)).collect()
    }

    /// The sentence about maintenances that have ended and keep some of these nodes.
    fn kept(&self, uid: &str, out: &BTreeSet<&Str>) -> String {
        let others = self.taken.iter().filter(|(other, _)| *other != uid);
        let ended = others.filter(|(_, other)| {
            other.has_ended && other.nodes.iter().any(|node| out.contains(node))
        });
        let names = ended.map(|(_, other)| format!("nodemaintenance/{}", other.name));
        let names = format::first(SHOWN, names);
        if names.is_empty() {
            return String::new();
        }
        format!("; drained, and kept until they are deleted, by: {names}")
    }

    /// Whether the watch shows that this node was uncordoned; not before it has shown the cordon.
    pub(super) fn is_uncordoned(&self, name: &Str, uid: &str) -> bool {
        let facts = self.nodes.get(name);
        let is_new = || self.unseen.contains(name);
        facts.is_some_and(|facts| !facts.is_cordoned && facts.uid == uid && !is_new())
    }

    /// Whether a node of a maintenance takes no pods.
    fn is_out(&self, node: &Str) -> bool {
        let facts = self.nodes.get(node);
        facts.is_some_and(|facts| facts.is_unavailable)
            || self.unseen.contains(node)
            || self
                .in_use
                .values()
                .any(|one| one.unavailable.contains(node))
    }

    /// How many nodes of each zone others are emptying, and the last of them.
    fn others_zones(&self, uid: &str) -> BTreeMap<Str, (usize, Str, Str)> {
        let mut zones: BTreeMap<Str, (usize, Str, Str)> = BTreeMap::new();
        for (other, in_use) in self.in_use.iter().filter(|(other, _)| *other != uid) {
            let name = self.taken.get(other).map(|taken| taken.name.clone());
            for node in &in_use.busy {
                let Some(facts) = self.nodes.get(node) else {
                    continue;
                };
                let zone = zones.entry(facts.zone()).or_default();
                *zone = (zone.0 + 1, name.clone().unwrap_or_default(), node.clone());
            }
        }
        zones
    }
}

/// The reservation of one maintenance. It ends when this is dropped.
pub(super) struct Reservation {
    pub(super) reservations: Arc<Reservations>,
    uid: Str,
}

impl Reservation {
    pub(super) fn new(reservations: &Arc<Reservations>, uid: Str) -> Self {
        Self {
            reservations: Arc::clone(reservations),
            uid,
        }
    }

    /// Takes these nodes, unless another has some of them.
    pub(super) fn take(&self, taken: Taken) -> Result<(), Wait> {
        let mut known = self.reservations.known();
        if let Some(wait) = known.taken(&self.uid, &taken.nodes) {
            return Err(wait);
        }
        known.taken.insert(self.uid.clone(), taken);
        drop(known);
        self.reservations.changes.send_replace(());
        Ok(())
    }

    /// The drain has ended: its nodes no longer count as being drained.
    pub(super) fn release_in_use(&self) {
        let mut known = self.reservations.known();
        let used = known.in_use.remove(&self.uid).unwrap_or_default();
        let is_unseen = |node: &Str| {
            let facts = known.nodes.get(node);
            facts.is_some_and(|facts| !facts.is_unavailable)
        };
        let unseen: Vec<Str> = used.unavailable.into_iter().filter(is_unseen).collect();
        known.unseen.extend(unseen);
        drop(known);
        self.reservations.changes.send_replace(());
    }

    /// Its share of the limits.
    /// `draining`: the nodes that its drain knows of; of the others, those that are out count.
    pub(super) fn limits(&self, limits: Limits, draining: BTreeSet<Str>) -> Arc<dyn SharedLimits> {
        Arc::new(Shared {
            draining,
            reservations: Arc::clone(&self.reservations),
            uid: self.uid.clone(),
            limits,
        })
    }

    /// Why none of these nodes may be begun now, if a limit is why.
    pub(super) fn limited(&self, limits: Limits, waiting: &[&Str]) -> Option<Wait> {
        let known = self.reservations.known();
        let own = known.taken.get(&self.uid)?;
        let mut out = known.others_out(&self.uid);
        out.extend(own.nodes.iter().filter(|node| known.is_out(node)));
        if let Some(most) = limits.max_unavailable {
            let most = most.of(own.nodes.len());
            if out.len() >= most {
                let names = format::first(SHOWN, &out);
                return Some(Wait {
                    reason: "MaxUnavailable",
                    message: format!(
                        "waits: {} nodes are cordoned or not Ready, of at most {most}: {names}{}",
                        out.len(),
                        known.kept(&self.uid, &out),
                    ),
                });
            }
        }
        let zones = known.others_zones(&self.uid);
        let most = limits.max_per_zone?;
        let mut full = waiting.iter().filter_map(|node| {
            let zone = known.nodes.get(node)?.zone();
            let (count, name, busy) = zones.get(&zone).filter(|(count, ..)| *count >= most)?;
            Some((count, name, busy, zone))
        });
        let (_, name, busy, zone) = full.next()?;
        Some(Wait {
            reason: "MaxPerZone",
            message: format!(
                "waits for nodemaintenance/{name}, which drains {busy} in zone {zone}"
            ),
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

impl Reservation {
    /// Others may have its nodes.
    pub(super) fn release(&self) {
        let mut known = self.reservations.known();
        known.taken.remove(&self.uid);
        known.in_use.remove(&self.uid);
        drop(known);
        self.reservations.changes.send_replace(());
    }
}

struct Shared {
    reservations: Arc<Reservations>,
    uid: Str,
    limits: Limits,
    draining: BTreeSet<Str>,
}

impl SharedLimits for Shared {
    fn decide(&self, decide: &mut dyn FnMut(Share) -> InUse) {
        let mut known = self.reservations.known();
        let mut share = Share::default();
        if let Some(most) = self.limits.max_unavailable {
            let own = known.taken.get(&self.uid).map(|own| &own.nodes);
            let mut out = known.others_out(&self.uid);
            let done = own.into_iter().flatten();
            let done = done.filter(|node| !self.draining.contains(*node));
            out.extend(done.filter(|node| known.is_out(node)));
            let most = most.of(own.map_or(0, BTreeSet::len));
            share.max_unavailable = Some(most.saturating_sub(out.len()));
        }
        if self.limits.max_per_zone.is_some() {
            let zones = known.others_zones(&self.uid).into_iter();
            share.zones = zones.map(|(zone, (count, ..))| (zone, count)).collect();
        }
        let now = decide(share);
        let is_new = known.in_use.get(&self.uid) != Some(&now);
        known.in_use.insert(self.uid.clone(), now);
        drop(known);
        if is_new {
            self.reservations.changes.send_replace(());
        }
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.reservations.changes()
    }
}

#[cfg(test)]
mod tests {
    use nodelife_core::object::NodeCondition;

    use super::*;

    fn nodes(names: &[&str]) -> BTreeSet<Str> {
        names.iter().map(|name| Str::from(*name)).collect()
    }

    /// A node that is Ready, in the zone of its first letter.
    fn node(name: &str, cordoned: bool) -> Node {
        let mut node = Node::default();
        node.metadata.name = name.into();
        let zone = ("topology.kubernetes.io/zone".into(), name[..1].into());
        node.metadata.labels.extend([zone]);
        node.spec.unschedulable = cordoned;
        node.status.conditions.push(NodeCondition {
            kind: "Ready".into(),
            status: "True".into(),
            ..NodeCondition::default()
        });
        node
    }

    fn reservations(names: &[&str], cordoned: &[&str]) -> Arc<Reservations> {
        let all = names.iter().map(|name| node(name, cordoned.contains(name)));
        let reservations = Reservations::new();
        reservations.take_in(Update::Listed(all.collect()));
        reservations
    }

    fn taken(name: &str, names: &[&str]) -> Taken {
        Taken {
            name: name.into(),
            nodes: nodes(names),
            has_ended: false,
        }
    }

    #[test]
    fn a_node_belongs_to_one_until_that_is_dropped() {
        let reservations = reservations(&["a", "b", "c"], &[]);
        let (one, two) = (
            Reservation::new(&reservations, "1".into()),
            Reservation::new(&reservations, "2".into()),
        );
        one.take(taken("one", &["a", "b"])).unwrap();
        let wait = two.take(taken("two", &["b", "c"])).unwrap_err();
        assert_eq!(wait.message, "waits for nodemaintenance/one, which has b");
        drop(one);
        two.take(taken("two", &["b", "c"])).unwrap();
    }

    #[test]
    fn limits_hold_for_what_others_empty_and_have_emptied() {
        let reservations = reservations(&["x1", "x2", "x3", "y1"], &["x3"]);
        let (one, two) = (
            Reservation::new(&reservations, "1".into()),
            Reservation::new(&reservations, "2".into()),
        );
        one.take(taken("one", &["x1", "x3"])).unwrap();
        two.take(taken("two", &["x2", "y1"])).unwrap();
        let limits = Limits {
            max_unavailable: Some(MaxUnavailable::Count(2)),
            max_per_zone: Some(1),
        };
        let share = |reservation: &Reservation, busy: &[&str]| {
            let mut left = Share::default();
            let draining = nodes(&["x1", "x2", "y1"]);
            reservation.limits(limits, draining).decide(&mut |share| {
                left = share;
                InUse {
                    busy: nodes(busy),
                    unavailable: nodes(busy),
                }
            });
            left
        };
        // x3 is cordoned already, whoever did that.
        assert_eq!(share(&two, &[]).max_unavailable, Some(1));
        share(&one, &["x1"]);
        let left = share(&two, &[]);
        assert_eq!(left.max_unavailable, Some(0));
        assert_eq!(
            left.zones.get("x"),
            Some(&1).filter(|_| left.zones.len() == 1)
        );
        let wait = two.limited(limits, &[&"x2".into()]).unwrap();
        assert_eq!(wait.reason, "MaxUnavailable");
        let zones_only = Limits {
            max_unavailable: None,
            ..limits
        };
        let wait = two.limited(zones_only, &[&"x2".into()]).unwrap();
        assert!(
            wait.message
                .starts_with("waits for nodemaintenance/one, which drains x1 in zone ")
        );
        assert_eq!(two.limited(zones_only, &[&"y1".into()]), None);
        // The drain ends before the watch shows its cordon.
        one.release_in_use();
        assert_eq!(share(&two, &[]).max_unavailable, Some(0));
        reservations.take_in(Update::Applied(node("x1", true)));
        assert_eq!(share(&two, &[]).max_unavailable, Some(0));
        reservations.take_in(Update::Applied(node("x1", false)));
        assert_eq!(share(&two, &[]).max_unavailable, Some(1));
    }

    #[test]
    fn a_percentage_is_one_of_the_own_nodes_and_counts_those_drained_before() {
        let reservations = reservations(&["x1", "x2", "x3", "y1", "y2", "y3", "y4"], &["x1"]);
        let (one, two) = (
            Reservation::new(&reservations, "1".into()),
            Reservation::new(&reservations, "2".into()),
        );
        one.take(taken("one", &["x1", "x2", "x3"])).unwrap();
        two.take(taken("two", &["y1", "y2", "y3", "y4"])).unwrap();
        let limits = Limits {
            max_unavailable: Some(MaxUnavailable::Percent(67)),
            max_per_zone: None,
        };
        let left = || {
            let mut left = None;
            let draining = nodes(&["x2", "x3"]);
            one.limits(limits, draining).decide(&mut |share| {
                left = share.max_unavailable;
                InUse::default()
            });
            left.unwrap()
        };
        // Another leader drained x1, and the nodes of the other raise nothing.
        assert_eq!(left(), 1);
        reservations.take_in(Update::Applied(node("y1", true)));
        assert_eq!(left(), 0);
        let wait = one.limited(limits, &[&"x2".into()]).unwrap();
        assert!(wait.message.contains("of at most 2"), "{}", wait.message);
        let ended = taken("two", &["y1", "y2", "y3", "y4"]);
        let ended = Taken {
            has_ended: true,
            ..ended
        };
        two.take(ended).unwrap();
        let wait = one.limited(limits, &[&"x2".into()]).unwrap();
        let kept = "x1, y1; drained, and kept until they are deleted, by: nodemaintenance/two";
        assert!(wait.message.ends_with(kept), "{}", wait.message);
    }
}
