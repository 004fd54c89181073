//! `Drain`: a drain that is planned, and runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use nodelife_cluster::Cluster;
use nodelife_core::disruption::keeps_replicas;
use nodelife_core::text::Str;
use nodelife_drain_plan::{Action, DrainOptions, DrainPlan, PlanScope};
use tokio::time::Instant;

use crate::executor::Executor;
use crate::identity::DrainIdentity;
use crate::reporter::{DrainStatus, Interrupts, Reporter};
use crate::settings::DrainRequest;
use crate::surge::Surges;
use crate::view::ClusterView;
use crate::view::watches::Watches;

/// Between two looks at whether a plan has changed, and how many times as long as the last look took
/// more: a fiftieth of a core.
const REPLAN_PAUSE: Duration = Duration::from_secs(1);
const REPLAN_FACTOR: u32 = 50;

pub enum Prepared {
    /// Nothing can be done; the reporter has the reason.
    Refused {
        status: DrainStatus,
        /// The plan; none where a right is missing.
        plan: Option<Box<DrainPlan>>,
        nodes: BTreeMap<Str, String>,
    },
    Planned {
        status: DrainStatus,
        plan: Box<DrainPlan>,
    },
    Ready(Box<Drain>),
}

impl Prepared {
    pub fn status(&self) -> DrainStatus {
        match self {
            Self::Refused { status, .. } | Self::Planned { status, .. } => *status,
            Self::Ready(drain) => drain.refusals().status,
        }
    }

    /// The nodes that are left as they are, and why; none of a dry run.
    pub fn refused_nodes(&self) -> Option<&BTreeMap<Str, String>> {
        match self {
            Self::Refused { nodes, .. } => Some(nodes),
            Self::Planned { .. } => None,
            Self::Ready(drain) => Some(&drain.refusals().nodes),
        }
    }

    /// The plan; none where a right is missing.
    pub fn into_plan(self) -> Option<DrainPlan> {
        match self {
            Self::Refused { plan, .. } => plan.map(|plan| *plan),
            Self::Planned { plan, .. } => Some(*plan),
            Self::Ready(drain) => Some(drain.plan),
        }
    }
}

/// The nodes that are left as they are, since pods of theirs need a permission or cannot be evicted.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    pub status: DrainStatus,
    pub all: bool,
    pub nodes: BTreeMap<Str, String>,
}

/// A drain that is planned and has changed nothing yet. It can be dropped.
pub struct Drain {
    pub(crate) cluster: Cluster,
    pub(crate) request: DrainRequest,
    pub(crate) plan: DrainPlan,
    pub(crate) machine: DrainOptions,
    pub(crate) view: ClusterView,
    pub(crate) watches: Watches,
    pub(crate) surges: Surges,
    pub(crate) refusals: Refusals,
}

impl Drain {
    pub fn plan(&self) -> &DrainPlan {
        &self.plan
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Binds it to an approved plan: a pod that this does not remove is left, also one that comes later.
    pub fn bind(&mut self, approved: Arc<PlanScope>) {
        self.machine.policy.consent.approved = Some(approved);
    }

    /// Waits until another plan of these nodes would be made, as far as the watches show.
    pub async fn changed(&mut self) {
        // No watch shows the others: both plans are made without them.
        self.view.forget_others();
        // What is refused now may be allowed soon.
        self.view.include_excluded();
        let before = self.outline();
        loop {
            match self.watches.next().await {
                Some(event) => self.view.take_in(event),
                // The program ends.
                None => std::future::pending().await,
            }
            let begun = Instant::now();
            while let Some(Some(event)) = self.watches.next().now_or_never() {
                self.view.take_in(event);
            }
            if self.outline() != before {
                return;
            }
            // A large plan takes a while, and clusters are never still.
            tokio::time::sleep(REPLAN_PAUSE + begun.elapsed() * REPLAN_FACTOR).await;
        }
    }

    fn outline(&self) -> (PlanScope, BTreeSet<Str>) {
        let now = self.cluster.clock().now();
        let plan = self.request.plan(&self.view, now);
        let refused = plan.with(Action::Refuse);
        let refused = refused.chain(plan.with(Action::Impossible));
        let refused = refused.map(|pod| pod.uid.clone()).collect();
        (plan.scope(), refused)
    }

    pub fn cordons_each(&self) -> bool {
        self.machine.cordon_each
    }

    /// How many pods of the workloads on each node were Ready before the drain, by UID, if awaited.
    pub fn ready_before(&self) -> BTreeMap<Str, BTreeMap<Str, i32>> {
        let mut all: BTreeMap<Str, BTreeMap<Str, i32>> = BTreeMap::new();
        let pods = self.view.pods.values().flatten();
        for pod in pods.filter(|_| self.machine.wait_ready) {
            let controller = pod.metadata.controller();
            let workload = controller.and_then(|c| self.view.store.workloads.workload(&c.uid));
            if let Some(workload) = workload.filter(|one| keeps_replicas(one.kind)) {
                let uid = &workload.metadata.uid;
                let earlier = self.machine.earlier.ready_before.get(uid).copied();
                let now = workload.status.ready_replicas.unwrap_or(0);
                let on_node = all.entry(pod.spec.node_name.clone()).or_default();
                on_node.insert(uid.clone(), earlier.unwrap_or(now));
            }
        }
        all
    }

    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Locks, cordons, evicts, waits; at the end gives the locks back.
    ///
    /// If the future is dropped, the drain stops at once where it is: its requests are cancelled, and
    /// nothing is uncordoned or given back. A drain of the same identity can go on from there.
    /// Fails if the locks cannot be taken or the report cannot be given. What happens after the locks is reported
    /// to the reporter, and the status says so.
    pub async fn run(
        self,
        identity: DrainIdentity,
        interrupts: &mut dyn Interrupts,
        reporter: &mut dyn Reporter,
    ) -> anyhow::Result<DrainStatus> {
        let (executor, watches) = Executor::new(self, identity, reporter);
        // Large, and a program may run many.
        Box::pin(executor.run(watches, interrupts)).await
    }
}
