//! `ControllerUnderTest`: nodelife-controller, which carries out the drains of tests that ask for them by
//! NodeMaintenance.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use nodelife_tests::proxy::Proxy;
use nodelife_tests::{ControlPlane, Identity, PlaneLease, until};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::maintenance::replica::Replica;
use crate::maintenance::support::{LEADS_ON, Scene};

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

pub(in crate::drain) struct ControllerUnderTest {
    replica: Mutex<Option<Replica>>,
    proxy: Arc<Proxy>,
    /// The name of its Lease.
    leads_by: String,
    log: PathBuf,
    /// The control plane that it has for itself. Dropped last: no other test gets it before the
    /// controller has ended.
    lease: Option<PlaneLease>,
}

/// Those that tests of one control plane share, by its folder.
static SHARED: Mutex<BTreeMap<PathBuf, Arc<ControllerUnderTest>>> =
    Mutex::const_new(BTreeMap::new());

impl ControllerUnderTest {
    /// The one that the tests of a shared control plane share.
    pub(super) async fn shared(plane: &'static ControlPlane) -> Arc<Self> {
        let mut all = SHARED.lock().await;
        if let Some(known) = all.get(plane.folder()) {
            return Arc::clone(known);
        }
        Scene::install(plane).await;
        let user = Identity::User {
            name: "controller".to_owned(),
            groups: vec!["system:masters".to_owned()],
        };
        let this = Arc::new(Self::start(plane, &user, "nodelife-controller", None));
        all.insert(plane.folder().to_owned(), Arc::clone(&this));
        this
    }

    /// Ends the one of a control plane.
    pub(super) async fn end(plane: &ControlPlane) {
        SHARED.lock().await.remove(plane.folder());
    }

    /// One for the test of this name alone, which acts as `user`. One that was killed holds its
    /// Lease for a while, so each has another.
    pub(super) fn alone(lease: PlaneLease, test: &str, user: &Identity) -> Self {
        let name = format!("controller-{test}");
        Self::start(lease.plane, user, &name, Some(lease))
    }

    fn start(
        plane: &ControlPlane,
        user: &Identity,
        leads_by: &str,
        lease: Option<PlaneLease>,
    ) -> Self {
        let replica = Replica::start_as(plane, "controller", user, (leads_by, &LEADS_ON));
        Self {
            proxy: Arc::clone(&replica.proxy),
            log: replica.log().to_owned(),
            leads_by: leads_by.to_owned(),
            replica: Mutex::new(Some(replica)),
            lease,
        }
    }

    /// Kills the controller and starts it again. Its Lease, which would hold for minutes, goes with it.
    pub(super) async fn kill(&self, plane: &ControlPlane) {
        if let Some(replica) = self.replica.lock().await.as_mut() {
            replica.kill().await;
        }
        let leases: Api<Lease> = Api::default_namespaced(plane.admin().await.unwrap());
        until("the Lease gone", async || {
            match leases
                .delete(&self.leads_by, &DeleteParams::default())
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(())),
                deleted => Ok(deleted.map(|_| Some(()))?),
            }
        })
        .await;
    }

    /// Whether it serves one test alone.
    pub(super) fn is_alone(&self) -> bool {
        self.lease.is_some()
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
