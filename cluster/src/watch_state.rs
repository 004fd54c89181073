//! `WatchStates`: the state of a connection's watches, for probes and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nodelife_core::object::Meta;
use nodelife_core::text::Str;
use tokio::time::Instant;

#[derive(Clone, Debug, Default)]
pub struct WatchStates(Arc<Mutex<BTreeMap<u64, State>>>);

#[derive(Debug)]
struct State {
    kind: &'static str,
    /// When the API server last sent something, be it a bookmark.
    heard: Instant,
    /// When it last did anything; a watch that fails tries again.
    moved: Instant,
    unreadable: BTreeMap<(Str, Str), String>,
}

impl WatchStates {
    /// A watch that has done nothing for so long, although each of its steps has a deadline.
    pub fn stuck_for(&self, limit: Duration) -> Option<&'static str> {
        let states = self.lock();
        let mut stuck = states.values().filter(|one| one.moved.elapsed() > limit);
        stuck.next().map(|one| one.kind)
    }

    /// For how long the API server has sent nothing, of the quietest watch of each kind.
    pub fn silence(&self) -> BTreeMap<&'static str, Duration> {
        let mut silence = BTreeMap::new();
        for state in self.lock().values() {
            let longest: &mut Duration = silence.entry(state.kind).or_default();
            *longest = state.heard.elapsed().max(*longest);
        }
        silence
    }

    pub fn unreadable(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for state in self.lock().values() {
            let count: &mut usize = counts.entry(state.kind).or_default();
            *count = state.unreadable.len().max(*count);
        }
        counts
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, kind: &'static str) -> WatchState {
        let mut states = self.lock();
        let id = states.last_key_value().map_or(0, |(last, _)| last + 1);
        let state = State {
            kind,
            heard: Instant::now(),
            moved: Instant::now(),
            unreadable: BTreeMap::new(),
        };
        states.insert(id, state);
        WatchState(self.clone(), id)
    }
}

#[derive(Debug)]
pub(crate) struct WatchState(WatchStates, u64);

impl Drop for WatchState {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl WatchState {
    fn change(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = self.0.lock().get_mut(&self.1) {
            state.moved = Instant::now();
            change(state);
        }
    }

    pub(crate) fn heard(&self) {
        self.change(|state| state.heard = Instant::now());
    }

    /// It goes on, with success or without.
    pub(crate) fn moved(&self) {
        self.change(|_| {});
    }

    /// An object as it is now: why it cannot be read, if it cannot.
    pub(crate) fn seen(&self, meta: &Meta, unreadable: Option<&str>) {
        self.change(|state| match unreadable {
            None if state.unreadable.is_empty() => {}
            None => drop(state.unreadable.remove(&key(meta))),
            Some(reason) => {
                let before = state.unreadable.insert(key(meta), reason.to_owned());
                state.tell(meta, reason, before.as_deref());
            }
        });
    }

    /// Of everything that there is, these objects cannot be read.
    pub(crate) fn listed<'a>(&self, unreadable: impl Iterator<Item = (&'a Meta, &'a str)>) {
        self.change(|state| {
            let before = std::mem::take(&mut state.unreadable);
            for (meta, reason) in unreadable {
                let key = key(meta);
                state.tell(meta, reason, before.get(&key).map(String::as_str));
                state.unreadable.insert(key, reason.to_owned());
            }
        });
    }
}

impl State {
    fn tell(&self, meta: &Meta, reason: &str, before: Option<&str>) {
        if before != Some(reason) {
            let (kind, namespace, name) = (self.kind, &*meta.namespace, &*meta.name);
            tracing::warn!(kind, namespace, name, reason, "an object cannot be read");
        }
    }
}

fn key(meta: &Meta) -> (Str, Str) {
    (meta.namespace.clone(), meta.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_lasts_as_long_as_its_watch() {
        let states = WatchStates::default();
        let (one, two) = (states.begin("Pod"), states.begin("Pod"));
        let meta = Meta {
            name: "a".into(),
            ..Meta::default()
        };
        one.seen(&meta, Some("odd"));
        two.listed([(&meta, "odd")].into_iter());
        assert_eq!(states.unreadable(), [("Pod", 1)].into());
        one.seen(&meta, None);
        two.listed([].into_iter());
        assert_eq!(states.unreadable(), [("Pod", 0)].into());
        let moment = Duration::from_millis(1);
        one.heard();
        two.moved();
        while states.silence()["Pod"] <= moment || states.stuck_for(moment).is_none() {
            std::thread::yield_now();
        }
        assert_eq!(states.stuck_for(moment), Some("Pod"));
        drop((one, two));
        assert_eq!(states.stuck_for(moment), None);
    }
}
