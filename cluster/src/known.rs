//! [`Known`]: objects as a watch shows them.

use std::collections::BTreeMap;

use nodelife_core::text::Str;

use crate::listing::Object;
use crate::watch::Update;

/// By UID; none before the first list.
#[derive(Debug)]
pub struct Known<T>(Option<BTreeMap<Str, T>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Object> Known<T> {
    /// A failure changes nothing, and an object that cannot be read no longer counts.
    pub fn take_in(&mut self, update: Update<T>) {
        let uid = |object: &T| object.metadata().uid.clone();
        match (update, &mut self.0) {
            (Update::Listed(all), known) => {
                *known = Some(all.into_iter().map(|one| (uid(&one), one)).collect());
            }
            (Update::Applied(one), Some(known)) => drop(known.insert(uid(&one), one)),
            (Update::Deleted(one), Some(known)) => drop(known.remove(&uid(&one))),
            (Update::Unreadable(one), Some(known)) => drop(known.remove(&one.metadata.uid)),
            (_, None) | (Update::Failed { .. }, _) => {}
        }
    }

    pub fn is_listed(&self) -> bool {
        self.0.is_some()
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(BTreeMap::values)
    }
}
