//! `Change`: what may happen to the node of a plan, its pods and what is around them.

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, PodFixture, WorkloadFixture};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::{Value, json};

/// Makes [`Change`] and [`CHANGES`], all of it.
macro_rules! changes {
    ($($change:ident,)*) => {
        use Change::{$($change),*};

        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
        pub(super) enum Change {
            $($change,)*
        }

        pub(super) const CHANGES: &[Change] = &[$($change),*];
    };
}

changes! {
    PodReplaced,
    StatefulPodReplaced,
    ScaledUp,
    ScaledDown,
    RolledOut,
    BarePodGone,
    WorkloadGone,
    DaemonSetCame,
    PodAnnotated,
    PodLabelled,
    PodRestarted,
    BudgetRaised,
    BudgetGone,
    NodeLabelled,
    NodeAnnotated,
    Heartbeat,
    PodElsewhere,
    WorkloadElsewhere,
    // These add something: see `adds`.
    BarePodCame,
    BarePodReplaced,
    WorkloadCame,
    EmptyDirCame,
    PodProtected,
    PodOrphaned,
}

impl Change {
    /// Whether more is lost than before, so that an approval does not cover it.
    pub(super) fn adds(self) -> bool {
        self >= BarePodCame
    }
}

/// A node and its pods: two of a Deployment with a budget, one of a StatefulSet, one with an emptyDir
/// and one without a controller; and another node that takes their replacements.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) namespace: TestNamespace,
    /// Begins the names of all that is in it.
    pub(super) name: String,
}

impl Place {
    pub(super) fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    /// The node that is drained.
    pub(super) fn node(&self) -> String {
        self.named("a")
    }

    fn pool(&self) -> Value {
        json!({"nodeSelector": {"pool": self.name}})
    }

    fn only_here(&self) -> Value {
        json!({"nodeSelector": {"kubernetes.io/hostname": self.node()}})
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.namespace.client().clone())
    }

    fn pods(&self) -> Api<Pod> {
        self.namespace.api()
    }

    fn bare(&self) -> PodFixture {
        PodFixture::new(&self.named("bare")).bound_to(&self.node())
    }

    async fn create_node(&self, what: &str) {
        let node = NodeFixture::kwok(&self.named(what)).label("pool", &self.name);
        node.create(self.namespace.client()).await.unwrap();
    }

    pub(super) async fn fill(&self) {
        let namespace = &self.namespace;
        self.create_node("a").await;
        let web = WorkloadFixture::deployment(&self.named("web"), 2).pod_spec(self.pool());
        let cache = WorkloadFixture::deployment(&self.named("cache"), 1).pod_spec(self.pool());
        let cache = cache.pod_spec(json!({"volumes": [{"name": "data", "emptyDir": {}}]}));
        let db = WorkloadFixture::stateful_set(&self.named("db"), 1).pod_spec(self.pool());
        let (web, cache, db, bare) = tokio::join!(
            web.create_ready(namespace, 2),
            cache.create_ready(namespace, 1),
            db.create_ready(namespace, 1),
            self.bare().create(namespace),
        );
        for created in [web, cache, db] {
            created.unwrap();
        }
        bare.unwrap();
        let name = self.named("web");
        let budget = BudgetFixture::max_unavailable(&name, &name, json!(1));
        budget.create_counted(namespace, 2).await.unwrap();
        self.create_node("b").await;
    }

    /// Removes what would take up room beside others.
    pub(super) async fn clear(&self) {
        let now = DeleteParams::background();
        let deployments: Api<Deployment> = self.namespace.api();
        for what in [
            "web",
            "cache",
            "other-early",
            "other-late",
            "far-early",
            "far-late",
        ] {
            let _ = deployments.delete(&self.named(what), &now).await;
        }
        let sets: Api<StatefulSet> = self.namespace.api();
        let _ = sets.delete(&self.named("db"), &now).await;
        for what in ["a", "b"] {
            let _ = self.nodes().delete(&self.named(what), &now).await;
        }
    }

    /// The pods of the node that are not being deleted.
    pub(super) async fn pods_on_node(&self) -> Vec<nodelife_core::object::Pod> {
        let on_node = ListParams::default().fields(&format!("spec.nodeName={}", self.node()));
        let mut pods = self.pods().list(&on_node).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        serde_json::from_value(serde_json::to_value(pods).unwrap()).unwrap()
    }

    /// The pods of a workload.
    async fn pods_of(&self, what: &str) -> Vec<Pod> {
        let selector = ListParams::default().labels(&format!("app={}", self.named(what)));
        self.pods().list(&selector).await.unwrap().items
    }

    /// One pod of `web`; one on the node where there is one.
    async fn web_pod(&self) -> String {
        let node = self.node();
        wait_until(
            &format!("a pod of {}", self.named("web")),
            TIMEOUT,
            async || {
                let mut pods = self.pods_of("web").await;
                pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
                pods.sort_by_key(|pod| !is_on(pod, &node));
                Ok(pods.into_iter().find_map(|pod| pod.metadata.name))
            },
        )
        .await
        .unwrap()
    }

    async fn delete_pod(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        let deleted = self.pods().delete(name, &now).await;
        if let Err(error) = deleted {
            assert!(error.to_string().contains("not found"), "{error}");
        }
    }

    async fn change_pod(&self, name: &str, metadata: Value) {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let changed = self
            .pods()
            .patch(name, &PatchParams::default(), &patch)
            .await;
        // It may have gone just now.
        if let Err(error) = changed {
            assert!(error.to_string().contains("not found"), "{error}");
        }
    }

    async fn change_web(&self, spec: Value) {
        let deployments: Api<Deployment> = self.namespace.api();
        let patch = Patch::Merge(json!({"spec": spec}));
        let name = self.named("web");
        let params = PatchParams::default();
        deployments.patch(&name, &params, &patch).await.unwrap();
    }

    async fn change_node(&self, metadata: Value) {
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let (nodes, name) = (self.nodes(), self.node());
        let params = PatchParams::default();
        nodes.patch(&name, &params, &patch).await.unwrap();
    }

    /// Waits until one pod of a workload is on the node, and is as it should be.
    async fn wait_here(&self, what: &str, holds: impl Fn(&Pod) -> bool) {
        let node = self.node();
        wait_until(
            &format!("{} on {node}", self.named(what)),
            TIMEOUT,
            async || {
                let pods = self.pods_of(what).await;
                let found = pods.iter().any(|pod| is_on(pod, &node) && holds(pod));
                Ok(found.then_some(()))
            },
        )
        .await
        .unwrap();
    }

    async fn beat(&self) {
        let now = jiff::Timestamp::now();
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": format!("{now:.0}"),
        });
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let (nodes, name) = (self.nodes(), self.node());
        let params = PatchParams::default();
        nodes.patch_status(&name, &params, &patch).await.unwrap();
    }

    /// Gives the pod of `db` an emptyDir, on the node.
    async fn roll_db(&self) {
        let mut spec = self.only_here();
        spec["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": spec}}}));
        let sets: Api<StatefulSet> = self.namespace.api();
        let name = self.named("db");
        let params = PatchParams::default();
        sets.patch(&name, &params, &patch).await.unwrap();
        let has_volume = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            let mut volumes = spec
                .into_iter()
                .flat_map(|spec| spec.volumes.iter().flatten());
            volumes.any(|volume| volume.empty_dir.is_some())
        };
        self.wait_here("db", has_volume).await;
    }

    /// Takes a pod of `web` from its ReplicaSet.
    async fn orphan(&self) {
        let orphan = self.web_pod().await;
        let without = json!({"labels": {"pod-template-hash": null}});
        self.change_pod(&orphan, without).await;
        wait_until(&format!("{orphan} released"), TIMEOUT, async || {
            let pod = self.pods().get_opt(&orphan).await?;
            let owners = pod.and_then(|pod| pod.metadata.owner_references);
            Ok(owners.is_none_or(|owners| owners.is_empty()).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Makes a change; one that adds something is complete then. `when` keeps names apart.
    pub(super) async fn make(&self, change: Change, when: &str) {
        let namespace = &self.namespace;
        let named = |what: &str| self.named(&format!("{what}-{when}"));
        match change {
            PodReplaced => self.delete_pod(&self.web_pod().await).await,
            StatefulPodReplaced => self.delete_pod(&self.named("db-0")).await,
            ScaledUp => self.change_web(json!({"replicas": 4})).await,
            ScaledDown => self.change_web(json!({"replicas": 1})).await,
            RolledOut => {
                let metadata = json!({"annotations": {"rolled": when}});
                let template = json!({"template": {"metadata": metadata}});
                self.change_web(template).await;
            }
            BarePodGone => self.delete_pod(&self.named("bare")).await,
            WorkloadGone => {
                let deployments: Api<Deployment> = namespace.api();
                let name = self.named("cache");
                let _ = deployments.delete(&name, &DeleteParams::background()).await;
            }
            DaemonSetCame => {
                let agent = WorkloadFixture::daemon_set(&named("agent"));
                agent.pod_spec(self.pool()).create(namespace).await.unwrap();
            }
            PodAnnotated => {
                let note = json!({"annotations": {"note": when}});
                self.change_pod(&self.web_pod().await, note).await;
            }
            PodLabelled => {
                let note = json!({"labels": {"note": when}});
                self.change_pod(&self.named("bare"), note).await;
            }
            PodRestarted => {
                let container = json!({"name": "main", "restartCount": 1});
                let status = json!({"status": {"containerStatuses": [container]}});
                let (pods, name) = (self.pods(), self.named("bare"));
                let patch = Patch::Strategic(status);
                // It may not be there any more.
                let _ = pods
                    .patch_status(&name, &PatchParams::default(), &patch)
                    .await;
            }
            BudgetRaised | BudgetGone => {
                let budgets: Api<PodDisruptionBudget> = namespace.api();
                let name = self.named("web");
                if change == BudgetRaised {
                    let patch = Patch::Merge(json!({"spec": {"maxUnavailable": 2}}));
                    let _ = budgets.patch(&name, &PatchParams::default(), &patch).await;
                } else {
                    let _ = budgets.delete(&name, &DeleteParams::default()).await;
                }
            }
            NodeLabelled => self.change_node(json!({"labels": {"note": when}})).await,
            NodeAnnotated => {
                let note = json!({"annotations": {"note": when}});
                self.change_node(note).await;
            }
            Heartbeat => self.beat().await,
            PodElsewhere => {
                let pod = PodFixture::new(&named("elsewhere")).bound_to(&self.named("b"));
                pod.create(namespace).await.unwrap();
            }
            WorkloadElsewhere => {
                let host = json!({"nodeSelector": {"kubernetes.io/hostname": self.named("b")}});
                let far = WorkloadFixture::deployment(&named("far"), 1).pod_spec(host);
                far.create(namespace).await.unwrap();
            }
            BarePodCame => {
                let pod = PodFixture::new(&named("stranger")).bound_to(&self.node());
                pod.create(namespace).await.unwrap();
            }
            BarePodReplaced => {
                let name = self.named("bare");
                self.delete_pod(&name).await;
                wait_until(&format!("another {name}"), TIMEOUT, async || {
                    self.bare().create(namespace).await.map(Some)
                })
                .await
                .unwrap();
            }
            WorkloadCame => {
                let other = WorkloadFixture::deployment(&named("other"), 1);
                let other = other.pod_spec(self.only_here());
                other.create_ready(namespace, 1).await.unwrap();
            }
            EmptyDirCame => self.roll_db().await,
            PodProtected => {
                let protected = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}});
                self.change_pod(&self.named("bare"), protected).await;
            }
            PodOrphaned => self.orphan().await,
        }
    }
}

fn is_on(pod: &Pod, node: &str) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_some_and(|spec| spec.node_name.as_deref() == Some(node))
        && pod.metadata.deletion_timestamp.is_none()
}
