//! Writes the Leases of drains (`nodelife_core::node_marks::Lock`).

use std::collections::BTreeSet;

use jiff::SignedDuration;
use nodelife_core::node_marks::{
    FIELD_MANAGER, LOCK_HELD, LOCK_LABEL, LOCK_NAMESPACE, LOCK_NODES, Lock,
};
use nodelife_core::object::Lease;
use nodelife_core::text::Str;
use serde_json::{Value, json};

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult};
use crate::list::ListFilter;
use crate::listing;
use crate::request::Call;
use crate::resource::{Resource, Target};

const NAMESPACES: Resource = Resource::core("namespaces");

impl Cluster {
    pub async fn drain_locks(&self) -> ApiResult<Vec<Lock>> {
        let filter = ListFilter::drain_locks();
        let leases = self.items(&listing::DRAIN_LOCKS, &filter).await?;
        Ok(leases.into_iter().map(Lock::of).collect())
    }

    /// Asks for nodes: the lock is not held yet.
    /// Fails with [`ApiError::Conflict`] if there is one of this name, be it by a request whose answer was lost;
    /// [`ApiError::NotFound`] without the namespace.
    pub async fn create_drain_lock(
        &self,
        name: &str,
        holder: &str,
        lease: SignedDuration,
        nodes: &BTreeSet<Str>,
    ) -> ApiResult<Lock> {
        let nodes: Vec<&str> = nodes.iter().map(Str::as_str).collect();
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {LOCK_LABEL: "asked"},
                "annotations": {LOCK_NODES: nodes.join(",")},
            },
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": lease.as_secs(),
                "renewTime": self.renew_time(),
            },
        });
        let call = Call::create(locks(), &body)?.with_query("fieldManager", FIELD_MANAGER);
        self.read(&call).await?.json::<Lease>(&call).map(Lock::of)
    }

    /// Renews exactly this lock, of its UID; from then on it is held.
    /// Fails with [`ApiError::NotFound`], or with [`ApiError::Conflict`] if another bears its name.
    pub async fn renew_drain_lock(&self, lock: &Lock) -> ApiResult<()> {
        let body = json!({
            "metadata": {"uid": lock.uid, "labels": {LOCK_LABEL: LOCK_HELD}},
            "spec": {"renewTime": self.renew_time()},
        });
        let target = locks().named(&lock.name);
        let call = Call::patch(target, "application/merge-patch+json", &body)?;
        self.read(&call).await.map(drop)
    }

    /// Deletes a lock, if it is still so: `preconditions` of `DeleteOptions`. Whether it is gone.
    pub async fn delete_drain_lock(&self, name: &str, preconditions: &Value) -> ApiResult<bool> {
        let call = Call::delete(locks().named(name), preconditions)?;
        match self.read(&call).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(true),
            Err(ApiError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub async fn create_lock_namespace(&self) -> ApiResult<()> {
        let name = json!({"name": LOCK_NAMESPACE});
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": name});
        match self.read(&Call::create(NAMESPACES.all(), &body)?).await {
            Ok(_) | Err(ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A `MicroTime`: six digits, always.
    fn renew_time(&self) -> String {
        format!("{:.6}", self.clock().now())
    }
}

impl ListFilter {
    pub fn drain_locks() -> Self {
        Self {
            labels: Some(LOCK_LABEL.to_owned()),
            ..Self::default()
        }
    }
}

fn locks() -> Target {
    listing::DRAIN_LOCKS
        .resource
        .all()
        .in_namespace(LOCK_NAMESPACE)
}
