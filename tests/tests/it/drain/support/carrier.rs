//! `Carrier`: nodelife-controller on a shared control plane, which carries out the drains of tests
//! that ask for them by NodeMaintenance.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use nodelife_tests::ControlPlane;
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

pub(in crate::drain) struct Carrier(Replica);

impl Carrier {
    /// That of a control plane, if this test is to have one.
    pub(super) async fn of(plane: &'static ControlPlane) -> Option<Arc<Self>> {
        static ALL: Mutex<BTreeMap<PathBuf, Arc<Carrier>>> = Mutex::const_new(BTreeMap::new());
        if !BY_MAINTENANCE.get() {
            return None;
        }
        let mut all = ALL.lock().await;
        if let Some(known) = all.get(plane.folder()) {
            return Some(Arc::clone(known));
        }
        Scene::install(plane).await;
        let this = Arc::new(Self(Replica::start(plane, "carrier")));
        all.insert(plane.folder().to_owned(), Arc::clone(&this));
        Some(this)
    }

    /// What the drain of a maintenance said, a sentence in a line.
    pub(super) fn said(&self, maintenance: &str) -> String {
        let log = fs::read_to_string(self.0.log()).unwrap();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let own = lines.filter(|line: &Value| line["maintenance"] == maintenance);
        let sentences = own.filter_map(|line| Some(format!("{}\n", line["message"].as_str()?)));
        sentences.collect()
    }
}
