//! `Carrier`: nodelife-controller, which carries out the drains of tests that ask for them by
//! NodeMaintenance.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex as BlockingMutex, PoisonError};

use nodelife_tests::proxy::Proxy;
use nodelife_tests::{ControlPlane, Identity};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::maintenance::replica::Replica;
use crate::maintenance::support::Scene;

thread_local! {
    static BY_MAINTENANCE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test, which keeps to its thread, with each of its drains as a NodeMaintenance.
pub(crate) fn by_maintenance(test: fn()) {
    BY_MAINTENANCE.set(true);
    let ended = catch_unwind(test);
    BY_MAINTENANCE.set(false);
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

pub(super) fn is_by_maintenance() -> bool {
    BY_MAINTENANCE.get()
}

/// Which parts a control plane has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::drain) enum Parts {
    /// etcd and kube-apiserver.
    Api,
    All,
}

/// A control plane that one test has at a time. Those of tests that ended well serve others.
pub(super) struct Lent {
    pub(super) plane: &'static ControlPlane,
    parts: Parts,
}

static FREE: BlockingMutex<Vec<Lent>> = BlockingMutex::new(Vec::new());

impl Lent {
    pub(super) async fn take(parts: Parts) -> Self {
        let free = {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            let found = free.iter().position(|lent| lent.parts == parts);
            found.map(|at| free.swap_remove(at))
        };
        if let Some(lent) = free {
            return lent;
        }
        let options = match parts {
            Parts::Api => ControlPlane::options(),
            Parts::All => ControlPlane::options().with_everything(),
        };
        let plane = options.start().await.unwrap();
        Scene::install(&plane).await;
        // It ends with the process.
        let plane = Box::leak(Box::new(plane));
        Self { plane, parts }
    }
}

pub(in crate::drain) struct Carrier {
    replica: Option<Replica>,
    /// The control plane that it has for itself.
    lent: Option<Lent>,
}

impl Carrier {
    /// The one that the tests of a shared control plane share.
    pub(super) async fn shared(plane: &'static ControlPlane) -> Arc<Self> {
        static ALL: Mutex<BTreeMap<PathBuf, Arc<Carrier>>> = Mutex::const_new(BTreeMap::new());
        let mut all = ALL.lock().await;
        if let Some(known) = all.get(plane.folder()) {
            return Arc::clone(known);
        }
        Scene::install(plane).await;
        let this = Arc::new(Self {
            replica: Some(Replica::start(plane, "carrier")),
            lent: None,
        });
        all.insert(plane.folder().to_owned(), Arc::clone(&this));
        this
    }

    /// One for the test of this name alone, which acts as `user`. One that was killed holds its
    /// Lease for a while, so each has another.
    pub(super) fn alone(lent: Lent, test: &str, user: &Identity) -> Self {
        let lease = format!("carrier-{test}");
        Self {
            replica: Some(Replica::start_as(lent.plane, "carrier", user, &lease)),
            lent: Some(lent),
        }
    }

    fn replica(&self) -> &Replica {
        self.replica.as_ref().unwrap()
    }

    /// Whether it serves one test alone.
    pub(super) fn is_alone(&self) -> bool {
        self.lent.is_some()
    }

    pub(super) fn proxy(&self) -> Arc<Proxy> {
        Arc::clone(&self.replica().proxy)
    }

    /// What the drain of a maintenance said, a sentence in a line.
    pub(super) fn said(&self, maintenance: &str) -> String {
        let log = fs::read_to_string(self.replica().log()).unwrap();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let own = lines.filter(|line: &Value| line["maintenance"] == maintenance);
        let sentences = own.filter_map(|line| Some(format!("{}\n", line["message"].as_str()?)));
        sentences.collect()
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // It has ended before another serves the control plane.
        self.replica.take();
        // What a test has left that failed is not known.
        if let Some(lent) = self.lent.take()
            && !std::thread::panicking()
        {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            free.push(lent);
        }
    }
}
