//! `PlaneLease`: a control plane that one test has at a time.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;

use super::ControlPlane;

/// The parts of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// etcd and kube-apiserver.
    Api,
    All,
}

/// A control plane with default options that no other test uses meanwhile. Its next test finds it as it
/// was when it started, but for definitions of custom resources.
pub struct PlaneLease {
    pub plane: &'static ControlPlane,
    /// None of one that a test has started by itself: it serves no other.
    pool: Option<Pool>,
}

struct Pool {
    parts: Parts,
    running: usize,
    /// The keys in etcd when it started.
    keys: BTreeSet<String>,
}

/// Those that wait for a test.
static FREE: Mutex<Vec<PlaneLease>> = Mutex::new(Vec::new());

/// Of those with the same parts, more are not kept: one that waits takes 3 % of a core.
const KEPT: usize = 3;

impl PlaneLease {
    pub async fn take(parts: Parts) -> Result<Self> {
        let free = {
            let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
            let found = free.iter().position(|lease| lease.has(parts));
            found.map(|at| free.swap_remove(at))
        };
        if let Some(lease) = free {
            lease.clear().await?;
            return Ok(lease);
        }
        let options = match parts {
            Parts::Api => ControlPlane::options(),
            Parts::All => ControlPlane::options().with_everything(),
        };
        let plane: &'static ControlPlane = Box::leak(Box::new(options.start().await?));
        let keys = plane.etcd().await?.keys().await?.into_iter().collect();
        let running = plane.running();
        let pool = Some(Pool {
            parts,
            running,
            keys,
        });
        Ok(Self { plane, pool })
    }

    /// Of a control plane that the test has started.
    pub fn own(plane: &'static ControlPlane) -> Self {
        Self { plane, pool: None }
    }

    fn has(&self, parts: Parts) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.parts == parts)
    }

    /// Removes what tests have made, from etcd itself: that takes no time, and no finalizer holds it up.
    /// Watches tell everybody.
    async fn clear(&self) -> Result<()> {
        let Some(pool) = &self.pool else {
            return Ok(());
        };
        let etcd = self.plane.etcd().await?;
        let mut keys = etcd.keys().await?;
        keys.retain(|key| {
            let is_of_the_cluster =
                is_kept(key) || pool.parts == Parts::All && is_of_controllers(key);
            !pool.keys.contains(key) && !is_of_the_cluster
        });
        etcd.delete_all(&keys).await?;
        let position = self.plane.audit_position()?;
        self.plane
            .recorded_before
            .store(position, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a key belongs to what the API server makes for itself after its start, or to a definition of
/// custom resources: tests apply the same one.
fn is_kept(key: &str) -> bool {
    [
        "/registry/apiregistration.k8s.io/",
        "/registry/apiextensions.k8s.io/",
        "/registry/namespaces/kube-",
    ]
    .iter()
    .any(|begin| key.starts_with(begin))
        || ["/kube-system/", "/kube-public/", "/namespaces/default"]
            .iter()
            .any(|part| key.contains(part))
}

/// Whether controllers make it in the namespaces that are always there.
fn is_of_controllers(key: &str) -> bool {
    ["/registry/configmaps/", "/registry/serviceaccounts/"]
        .iter()
        .filter_map(|kind| key.strip_prefix(kind))
        .any(|rest| rest.starts_with("default/") || rest.starts_with("kube-node-lease/"))
}

impl Deref for PlaneLease {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        self.plane
    }
}

impl Drop for PlaneLease {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else {
            return;
        };
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = free.iter().filter(|lease| lease.has(pool.parts)).count();
        // What a test that failed has done to it is not known. Some tests stop parts.
        if thread::panicking() || alike == KEPT || self.plane.running() != pool.running {
            self.plane.kill_all();
            return;
        }
        let plane = self.plane;
        free.push(Self {
            plane,
            pool: Some(pool),
        });
    }
}
