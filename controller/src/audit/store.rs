//! [`Store`]: the objects that an audit reads, kept up to date by watches.
//!
//! The store keeps one [`Snapshot`] and changes it in place, so that an audit of it costs no copy.
//! Its lists have the order of the API server's, since messages name the first of several objects.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nodelife_cluster::ApiError;
use nodelife_cluster::listing::Object;
use nodelife_cluster::snapshot::kinds::{Kind, Visitor, each_kind};
use nodelife_cluster::watch::Update;
use nodelife_cluster::wire::Sharing;
use nodelife_core::snapshot::{Snapshot, Source};
use nodelife_core::text::Str;

/// After so many changes equal strings are shared anew: deleted objects had some of them.
const CHANGES_BETWEEN_SHARINGS: usize = 100_000;

/// So many new objects of a list wait before they are put in order: a new one is compared with each.
const MOST_WAITING: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    Waiting,
    Listed,
    Unreadable(Str),
}

#[derive(Debug, Default)]
struct Order {
    /// So many objects are in order; those that follow are new.
    sorted: usize,
    gone: BTreeSet<usize>,
}

#[derive(Debug)]
pub(super) struct Store {
    snapshot: Snapshot,
    orders: BTreeMap<Source, Order>,
    readings: BTreeMap<&'static str, (Source, Reading)>,
    sharing: Sharing,
    changes: usize,
}

impl Default for Store {
    fn default() -> Self {
        let mut waiting = Waiting(BTreeMap::new());
        each_kind(&mut waiting);
        Self {
            snapshot: Snapshot::default(),
            orders: BTreeMap::new(),
            readings: waiting.0,
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
        let mut readings = self.readings.values();
        if readings.any(|(_, one)| *one == Reading::Waiting) {
            return None;
        }
        each_kind(&mut Settle(self));
        self.snapshot.taken_at = Some(now);
        // All kinds or none, as in the plugin's audit: an owner that is not in a list is taken for gone.
        let is_partial = self.snapshot.missing.contains_key(&Source::Workloads);
        let known = is_partial.then(|| std::mem::take(&mut self.snapshot.workloads));
        let judged = judge(&self.snapshot);
        if let Some(known) = known {
            self.snapshot.workloads = known;
        }
        Some(judged)
    }

    /// Takes over the server's version and the permissions of nodes from `other`, a snapshot of these alone.
    pub(super) fn set_facts(&mut self, other: Snapshot) {
        for source in [Source::NodeAuthorizer, Source::NodeRestriction] {
            self.set_missing(source, other.missing.get(&source).cloned());
        }
        self.snapshot.server_version = other.server_version;
        self.snapshot.node_authorizer = other.node_authorizer;
        self.snapshot.node_restriction = other.node_restriction;
    }

    /// Takes over the configurations of kubelets, the answers of `other`, a snapshot of these alone.
    pub(super) fn set_configurations(&mut self, other: Snapshot) {
        let source = Source::KubeletConfigs;
        self.set_missing(source, other.missing.get(&source).cloned());
        self.snapshot.kubelet_configs = other.kubelet_configs;
    }

    fn set_missing(&mut self, source: Source, reason: Option<Str>) {
        match reason {
            Some(reason) => self.snapshot.missing.insert(source, reason),
            None => self.snapshot.missing.remove(&source),
        };
    }

    pub(super) fn apply<T: Object>(&mut self, kind: &Kind<T>, update: Update<T>) {
        match update {
            Update::Listed(objects) => {
                self.replace(kind, objects);
                self.read(kind.source, kind.listing.kind, Reading::Listed);
            }
            Update::Applied(object) => self.put(kind, object),
            Update::Deleted(object) => self.remove(kind, &object),
            // The watch tells of it in the log and in a metric; the audit goes by what it knew.
            Update::Unreadable(_) => {}
            Update::Failed { error, .. } => self.fail(kind, &error),
        }
        if self.changes >= CHANGES_BETWEEN_SHARINGS {
            self.share_anew();
        }
    }

    fn replace<T: Object>(&mut self, kind: &Kind<T>, mut objects: Vec<T>) {
        for object in &mut objects {
            object.share(&mut self.sharing);
        }
        objects.sort_by(|a, b| compare(kind, a, b));
        self.settle(kind);
        let list = (kind.list)(&mut self.snapshot);
        let start = list.partition_point(|one| (kind.rank_of)(one) < kind.rank);
        let end = list.partition_point(|one| (kind.rank_of)(one) <= kind.rank);
        if (start, end) == (0, list.len()) {
            *list = objects;
        } else {
            list.splice(start..end, objects);
        }
        let sorted = list.len();
        self.orders.entry(kind.source).or_default().sorted = sorted;
    }

    fn put<T: Object>(&mut self, kind: &Kind<T>, mut object: T) {
        object.share(&mut self.sharing);
        self.changes += 1;
        let list = (kind.list)(&mut self.snapshot);
        let order = self.orders.entry(kind.source).or_default();
        let place = order.find(kind, list, &object);
        if let Some(place) = place {
            order.gone.remove(&place);
        }
        match place.and_then(|place| list.get_mut(place)) {
            Some(known) => *known = object,
            None => list.push(object),
        }
        if list.len() - order.sorted > MOST_WAITING {
            self.settle(kind);
        }
    }

    fn remove<T: Object>(&mut self, kind: &Kind<T>, object: &T) {
        self.changes += 1;
        let list = (kind.list)(&mut self.snapshot);
        let order = self.orders.entry(kind.source).or_default();
        let Some(place) = order.find(kind, list, object) else {
            return;
        };
        // Another object may bear its name by now.
        let is_it = |known: &T| known.metadata().uid == object.metadata().uid;
        if !list.get(place).is_some_and(is_it) {
            return;
        }
        if place < order.sorted {
            order.gone.insert(place);
        } else {
            list.swap_remove(place);
        }
    }

    /// A list that the API server refuses is missing, as in the plugin; other trouble may pass.
    fn fail<T: Object>(&mut self, kind: &Kind<T>, error: &ApiError) {
        let reading = self.readings.get(kind.listing.kind);
        let is_listed = matches!(reading, Some((_, Reading::Listed)));
        let is_refusal = match error {
            ApiError::Forbidden(_) | ApiError::NotFound(_) => true,
            // One event that does not read: all are listed anew.
            ApiError::TooLarge { .. } | ApiError::Malformed { .. } => !is_listed,
            ApiError::Refused(_) => !error.is_transient(),
            _ => false,
        };
        if is_refusal {
            self.replace(kind, Vec::new());
            if kind.source != Source::Workloads {
                // A list that was not read is absent, where the snapshot can say so, and not empty.
                (kind.take)(&mut self.snapshot);
            }
            let reason = Reading::Unreadable(Str::from(error.to_string()));
            self.read(kind.source, kind.listing.kind, reason);
        }
    }

    /// Notes how a kind was read. A source is missing if one of its kinds is.
    fn read(&mut self, source: Source, kind: &'static str, reading: Reading) {
        self.readings.insert(kind, (source, reading));
        let reason = self.readings.values().find_map(|reading| match reading {
            (of, Reading::Unreadable(reason)) if *of == source => Some(reason.clone()),
            _ => None,
        });
        self.set_missing(source, reason);
    }

    fn settle<T: Object>(&mut self, kind: &Kind<T>) {
        let Some(order) = self.orders.get_mut(&kind.source) else {
            return;
        };
        if order.gone.is_empty() && self.snapshot.missing.contains_key(&kind.source) {
            return;
        }
        let list = (kind.list)(&mut self.snapshot);
        if !order.gone.is_empty() {
            let mut place = 0;
            list.retain(|_| {
                place += 1;
                !order.gone.contains(&(place - 1))
            });
            order.sorted -= order.gone.len();
            order.gone.clear();
        }
        merge(list, order.sorted, |a, b| compare(kind, a, b));
        order.sorted = list.len();
    }

    fn share_anew(&mut self) {
        self.changes = 0;
        self.sharing = Sharing::default();
        each_kind(&mut Share(self));
    }
}

struct Waiting(BTreeMap<&'static str, (Source, Reading)>);

impl Visitor for Waiting {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        let waiting = (kind.source, Reading::Waiting);
        self.0.insert(kind.listing.kind, waiting);
    }
}

struct Settle<'a>(&'a mut Store);

impl Visitor for Settle<'_> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        if kind.is_first() {
            self.0.settle(kind);
        }
    }
}

struct Share<'a>(&'a mut Store);

impl Visitor for Share<'_> {
    fn visit<T: Object>(&mut self, kind: &'static Kind<T>) {
        let Store {
            snapshot, sharing, ..
        } = &mut *self.0;
        kind.change_list(snapshot, |list| {
            for object in list {
                object.share(sharing);
            }
        });
    }
}

/// By kind, namespace and name, in the order of the keys in etcd, which lists have.
fn compare<T: Object>(kind: &Kind<T>, a: &T, b: &T) -> Ordering {
    let kinds = (kind.rank_of)(a).cmp(&(kind.rank_of)(b));
    kinds.then_with(|| {
        let [a, b] = [a, b].map(T::metadata);
        if a.namespace == b.namespace {
            return a.name.cmp(&b.name);
        }
        let [a, b] = [a, b].map(|meta| {
            meta.namespace
                .bytes()
                .chain([b'/'])
                .chain(meta.name.bytes())
        });
        a.cmp(b)
    })
}

impl Order {
    fn find<T: Object>(&self, kind: &Kind<T>, list: &[T], object: &T) -> Option<usize> {
        let (sorted, new) = list.split_at_checked(self.sorted).unwrap_or((list, &[]));
        if let Ok(place) = sorted.binary_search_by(|one| compare(kind, one, object)) {
            return Some(place);
        }
        let is_it = |one: &T| compare(kind, one, object) == Ordering::Equal;
        let place = new.iter().position(is_it)?;
        Some(self.sorted + place)
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
