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
    /// None of one that a test has started: it serves no other.
    parts: Option<Parts>,
}

static FREE: BlockingMutex<Vec<Lent>> = BlockingMutex::new(Vec::new());

impl Lent {
    pub(super) async fn take(parts: Parts) -> Self {
        let free = {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            let found = free.iter().position(|lent| lent.parts == Some(parts));
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
        // It ends with the process.
        let plane = Box::leak(Box::new(plane));
        Scene::install(plane).await;
        let parts = Some(parts);
        Self { plane, parts }
    }

    /// One that the test has started.
    pub(super) async fn own(plane: &'static ControlPlane) -> Self {
        Scene::install(plane).await;
        Self { plane, parts: None }
    }
}

pub(in crate::drain) struct Carrier {
    replica: Mutex<Option<Replica>>,
    proxy: Arc<Proxy>,
    log: PathBuf,
    /// The control plane that it has for itself.
    lent: Option<Lent>,
}

/// Those that tests of one control plane share, by its folder.
static SHARED: Mutex<BTreeMap<PathBuf, Arc<Carrier>>> = Mutex::const_new(BTreeMap::new());

impl Carrier {
    /// The one that the tests of a shared control plane share.
    pub(super) async fn shared(plane: &'static ControlPlane) -> Arc<Self> {
        let mut all = SHARED.lock().await;
        if let Some(known) = all.get(plane.folder()) {
            return Arc::clone(known);
        }
        Scene::install(plane).await;
        let this = Arc::new(Self::of(Replica::start(plane, "carrier"), None));
        all.insert(plane.folder().to_owned(), Arc::clone(&this));
        this
    }

    /// Ends the one of a control plane.
    pub(super) async fn end(plane: &ControlPlane) {
        SHARED.lock().await.remove(plane.folder());
    }

    /// One for the test of this name alone, which acts as `user`. One that was killed holds its
    /// Lease for a while, so each has another.
    pub(super) fn alone(lent: Lent, test: &str, user: &Identity) -> Self {
        let lease = format!("carrier-{test}");
        let replica = Replica::start_as(lent.plane, "carrier", user, &lease);
        Self::of(replica, Some(lent))
    }

    fn of(replica: Replica, lent: Option<Lent>) -> Self {
        Self {
            proxy: Arc::clone(&replica.proxy),
            log: replica.log().to_owned(),
            replica: Mutex::new(Some(replica)),
            lent,
        }
    }

    /// Kills the controller and starts it again.
    pub(super) async fn kill(&self) {
        if let Some(replica) = self.replica.lock().await.as_mut() {
            replica.kill().await;
        }
    }

    /// Whether it serves one test alone.
    pub(super) fn is_alone(&self) -> bool {
        self.lent.is_some()
    }

    pub(super) fn proxy(&self) -> Arc<Proxy> {
        Arc::clone(&self.proxy)
    }

    /// What the drain of a maintenance said, a sentence in a line.
    pub(super) fn said(&self, maintenance: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap();
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
        self.replica.get_mut().take();
        // What a test has left that failed is not known.
        if let Some(lent) = self.lent.take()
            && lent.parts.is_some()
            && !std::thread::panicking()
        {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            free.push(lent);
        }
    }
}
