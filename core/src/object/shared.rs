//! Shared collections: equal maps and lists are stored once.
//!
//! The replicas of a workload repeat their labels, containers and tolerations
//! to the byte. In a cluster of 150,000 pods that is most of what pods weigh, so
//! these collections are counted references: reading goes through `Deref`,
//! changing one copies it first, and [`Pool`] lets equal ones share their memory.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use foldhash::HashSet;
use serde::{Deserialize, Serialize};

/// A collection that may be shared, and that is copied when it is changed.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> Borrow<T> for Shared<T> {
    fn borrow(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Shared<BTreeMap<K, V>> {
    fn from(entries: [(K, V); N]) -> Self {
        Self::from(BTreeMap::from(entries))
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Shared<BTreeMap<K, V>> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self::from(BTreeMap::from_iter(entries))
    }
}

impl<T> FromIterator<T> for Shared<Vec<T>> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::from(Vec::from_iter(items))
    }
}

#[expect(clippy::into_iter_without_iter, reason = "`iter` is the collection's own")]
impl<'a, T> IntoIterator for &'a Shared<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (&*self.0).into_iter()
    }
}

#[derive(Debug, Default)]
pub struct Pool<T> {
    known: HashSet<Shared<T>>,
}

impl<T: Eq + Hash> Pool<T> {
    pub fn known(&self, value: &T) -> Option<Shared<T>> {
        self.known.get(value).cloned()
    }

    pub fn get(&mut self, value: T) -> Shared<T> {
        if let Some(known) = self.known(&value) {
            return known;
        }
        let new = Shared::from(value);
        self.known.insert(new.clone());
        new
    }

    pub fn share(&mut self, value: &mut Shared<T>) {
        if let Some(known) = self.known(value) {
            *value = known;
        } else {
            self.known.insert(value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_collections_share_their_memory_until_one_changes() {
        let mut pool = Pool::default();
        let one = pool.get(vec!["a"]);
        let mut two = pool.get(vec!["a"]);
        assert!(Arc::ptr_eq(&one.0, &two.0));
        two.push("b");
        assert_eq!((one.len(), two.len()), (1, 2));
    }
}
