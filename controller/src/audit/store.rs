//! [`Store`]: the objects that an audit reads, kept up to date by watches.
//!
//! The store keeps one [`Snapshot`] and changes it in place, so that an audit of it costs no copy.
//! Its lists have the order of the API server's, since messages name the first of several objects.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodelife_cluster::ApiError;
use nodelife_cluster::listing::Object;
use nodelife_cluster::watch::Update;
use nodelife_cluster::wire::Sharing;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

use super::watched::{self, KINDS, Watched, forget};

/// After so many changes equal strings of all objects are shared anew: those that only deleted
/// objects had go with it.
const CHANGES_BETWEEN_SHARINGS: usize = 100_000;

/// So many new objects of a list wait at its end before they are put in order: a new object is
/// compared with each of them.
const MOST_WAITING: usize = 256;

/// What is known of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    Waiting,
    Listed,
    /// The API server does not give it, and why.
    Unreadable(Str),
}

/// How far a list is in order.
#[derive(Debug, Default)]
struct Order {
    /// So many objects are in order; those that follow are new.
    sorted: usize,
    /// Places among these of objects that are gone.
    gone: BTreeSet<usize>,
}

/// Where an object is in its list.
enum Place {
    Sorted(usize),
    New(usize),
}

/// The objects, by the watches so far.
#[derive(Debug)]
pub(super) struct Store {
    snapshot: Snapshot,
    orders: BTreeMap<Source, Order>,
    readings: BTreeMap<&'static str, Reading>,
    sharing: Sharing,
    changes: usize,
}

impl Default for Store {
    fn default() -> Self {
        let waiting = KINDS.iter().map(|(kind, _)| (*kind, Reading::Waiting));
        Self {
            snapshot: Snapshot::default(),
            orders: BTreeMap::new(),
            readings: waiting.collect(),
            sharing: Sharing::default(),
            changes: 0,
        }
    }
}

impl Store {
    /// Judges the state at `now`; none while a kind has not arrived.
    pub(super) fn judge<R>(
        &mut self,
        now: Timestamp,
        judge: impl FnOnce(&Snapshot) -> R,
    ) -> Option<R> {
        if self.readings.values().any(|one| *one == Reading::Waiting) {
            return None;
        }
        self.settle_all();
        self.snapshot.taken_at = Some(now);
        // All kinds or none, as in an audit of the plugin: an owner that is not in a list is taken
        // for gone.
        let is_partial = self.snapshot.missing.contains_key(&Source::Workloads);
        let known = is_partial.then(|| std::mem::take(&mut self.snapshot.workloads));
        let judged = judge(&self.snapshot);
        if let Some(known) = known {
            self.snapshot.workloads = known;
        }
        Some(judged)
    }

    /// Takes over the server's version and the permissions of nodes: the answers of `other`, a
    /// snapshot of these alone.
    pub(super) fn set_facts(&mut self, other: Snapshot) {
        for source in [Source::NodeAuthorizer, Source::NodeRestriction] {
            self.set_missing(source, &other);
        }
        self.snapshot.server_version = other.server_version;
        self.snapshot.node_authorizer = other.node_authorizer;
        self.snapshot.node_restriction = other.node_restriction;
    }

    /// Takes over the configurations of kubelets, the answers of `other`, a snapshot of these alone.
    pub(super) fn set_configurations(&mut self, other: Snapshot) {
        self.set_missing(Source::KubeletConfigs, &other);
        self.snapshot.kubelet_configs = other.kubelet_configs;
    }

    fn set_missing(&mut self, source: Source, other: &Snapshot) {
        match other.missing.get(&source) {
            Some(reason) => self.snapshot.missing.insert(source, reason.clone()),
            None => self.snapshot.missing.remove(&source),
        };
    }

    /// Applies one update of a watch.
    pub(super) fn apply<T: Object>(&mut self, watched: &Watched<T>, update: Update<T>) {
        match update {
            Update::Listed(objects) => {
                self.replace(watched, objects);
                self.read(watched.source, watched.listing.kind, Reading::Listed);
            }
            Update::Applied(object) => self.put(watched, object),
            Update::Deleted(object) => self.remove(watched, &object),
            Update::Failed { error, .. } => self.fail(watched, &error),
        }
        if self.changes >= CHANGES_BETWEEN_SHARINGS {
            self.share_anew();
        }
    }

    /// Puts these objects in the place of all of the kind.
    fn replace<T: Object>(&mut self, watched: &Watched<T>, mut objects: Vec<T>) {
        for object in &mut objects {
            object.share(&mut self.sharing);
        }
        objects.sort_by(|a, b| watched.compare(a, b));
        self.settle(watched);
        let list = watched.list(&mut self.snapshot);
        let start = list.partition_point(|one| watched.rank_of(one) < watched.rank);
        let end = list.partition_point(|one| watched.rank_of(one) <= watched.rank);
        if (start, end) == (0, list.len()) {
            *list = objects;
        } else {
            list.splice(start..end, objects);
        }
        let sorted = list.len();
        self.orders.entry(watched.source).or_default().sorted = sorted;
    }

    fn put<T: Object>(&mut self, watched: &Watched<T>, mut object: T) {
        object.share(&mut self.sharing);
        self.changes += 1;
        let list = watched.list(&mut self.snapshot);
        let order = self.orders.entry(watched.source).or_default();
        let place = order.find(watched, list, &object).map(|place| match place {
            Place::Sorted(place) => {
                order.gone.remove(&place);
                place
            }
            Place::New(place) => place,
        });
        let known = place.and_then(|place| list.get_mut(place));
        match known {
            Some(known) => *known = object,
            None => list.push(object),
        }
        if list.len() - order.sorted > MOST_WAITING {
            self.settle(watched);
        }
    }

    fn remove<T: Object>(&mut self, watched: &Watched<T>, object: &T) {
        self.changes += 1;
        let list = watched.list(&mut self.snapshot);
        let order = self.orders.entry(watched.source).or_default();
        let Some(place) = order.find(watched, list, object) else {
            return;
        };
        let (Place::Sorted(index) | Place::New(index)) = place;
        // Another object may bear its name by now.
        let is_it = |known: &T| known.metadata().uid == object.metadata().uid;
        if !list.get(index).is_some_and(is_it) {
            return;
        }
        match place {
            Place::Sorted(index) => {
                order.gone.insert(index);
            }
            Place::New(index) => {
                list.swap_remove(index);
            }
        }
    }

    /// What the API server refuses to give is missing, as in an audit of the plugin; any other
    /// trouble may pass, and what was known stays.
    fn fail<T: Object>(&mut self, watched: &Watched<T>, error: &ApiError) {
        let is_refusal = match error {
            ApiError::Forbidden(_)
            | ApiError::NotFound(_)
            | ApiError::TooLarge { .. }
            | ApiError::Malformed { .. } => true,
            ApiError::Refused(_) => !error.is_transient(),
            _ => false,
        };
        if is_refusal {
            self.replace(watched, Vec::new());
            forget(&mut self.snapshot, watched.source);
            let reason = Reading::Unreadable(Str::from(error.to_string()));
            self.read(watched.source, watched.listing.kind, reason);
        }
    }

    /// Notes how a kind was read. A source is missing if one of its kinds is.
    fn read(&mut self, source: Source, kind: &'static str, reading: Reading) {
        self.readings.insert(kind, reading);
        let kinds = KINDS.iter().filter(|(_, of)| *of == source);
        let reason = kinds
            .filter_map(|(kind, _)| self.readings.get(kind))
            .find_map(|reading| match reading {
                Reading::Unreadable(reason) => Some(reason.clone()),
                Reading::Waiting | Reading::Listed => None,
            });
        match reason {
            Some(reason) => self.snapshot.missing.insert(source, reason),
            None => self.snapshot.missing.remove(&source),
        };
    }

    /// Brings a list in order.
    fn settle<T: Object>(&mut self, watched: &Watched<T>) {
        let Some(order) = self.orders.get_mut(&watched.source) else {
            return;
        };
        if order.gone.is_empty() && self.snapshot.missing.contains_key(&watched.source) {
            return;
        }
        let list = watched.list(&mut self.snapshot);
        if !order.gone.is_empty() {
            let mut place = 0;
            list.retain(|_| {
                place += 1;
                !order.gone.contains(&(place - 1))
            });
            order.sorted -= order.gone.len();
            order.gone.clear();
        }
        merge(list, order.sorted, |a, b| watched.compare(a, b));
        order.sorted = list.len();
    }

    fn settle_all(&mut self) {
        self.settle(&watched::NODES);
        self.settle(&watched::LEASES);
        self.settle(&watched::PODS);
        self.settle(&watched::BUDGETS);
        self.settle(&watched::VOLUMES);
        self.settle(&watched::VOLUME_ATTACHMENTS);
        self.settle(&watched::CSI_NODES);
        self.settle(&watched::SIGNING_REQUESTS);
        self.settle(&watched::CLUSTER_ROLES);
        self.settle(&watched::CLUSTER_ROLE_BINDINGS);
        self.settle(&watched::EVENTS);
        if let Some(workloads) = watched::WORKLOADS.first() {
            self.settle(workloads);
        }
    }

    /// Shares the strings and collections of all objects in new pools.
    fn share_anew(&mut self) {
        self.changes = 0;
        self.sharing = Sharing::default();
        let (snapshot, sharing) = (&mut self.snapshot, &mut self.sharing);
        share_all(&mut snapshot.nodes, sharing);
        share_all(&mut snapshot.leases, sharing);
        share_all(&mut snapshot.pods, sharing);
        share_all(&mut snapshot.budgets, sharing);
        share_all(&mut snapshot.workloads, sharing);
        share_all(snapshot.events.as_mut().unwrap_or(&mut Vec::new()), sharing);
    }
}

impl Order {
    /// Where the object of this name is.
    fn find<T: Object>(&self, watched: &Watched<T>, list: &[T], object: &T) -> Option<Place> {
        let (sorted, new) = list.split_at_checked(self.sorted).unwrap_or((list, &[]));
        if let Ok(place) = sorted.binary_search_by(|one| watched.compare(one, object)) {
            return Some(Place::Sorted(place));
        }
        let is_it = |one: &T| watched.compare(one, object) == Ordering::Equal;
        let place = new.iter().position(is_it)?;
        Some(Place::New(self.sorted + place))
    }
}

/// Brings a list in order whose first `sorted` elements are in order, without a copy of it.
fn merge<T>(list: &mut [T], sorted: usize, compare: impl Fn(&T, &T) -> Ordering) {
    let (mut left, mut end) = (sorted, list.len());
    if let Some(new) = list.get_mut(left..) {
        new.sort_by(&compare);
    }
    // From the greatest new one on: what is greater moves behind all new ones.
    while left < end {
        let Some((greatest, rest)) = list.get(..end).and_then(|all| all.split_last()) else {
            return;
        };
        let before = rest.get(..left).unwrap_or_default();
        let place = before.partition_point(|one| compare(one, greatest) == Ordering::Less);
        let moved = left - place;
        if let Some(part) = list.get_mut(place..end) {
            part.rotate_left(moved);
        }
        left = place;
        end -= moved + 1;
    }
}

fn share_all<T: Object>(objects: &mut [T], sharing: &mut Sharing) {
    for object in objects {
        object.share(sharing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_elements_are_merged_in_order() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let mut list: Vec<u8> = (0..random.usize(0..20)).map(|_| random.u8(..)).collect();
            let sorted = random.usize(0..=list.len());
            list[..sorted].sort_unstable();
            let mut expected = list.clone();
            expected.sort_unstable();
            merge(&mut list, sorted, Ord::cmp);
            assert_eq!(list, expected);
        }
    }
}
