//! Scenarios: the pods on the nodes, their budgets, and the speed of the nodes.

use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use nodelife_tests::fixture::workload::wait_ready;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::{TIMEOUT, TestNamespace, wait_until};
use serde_json::json;
use tokio::time::interval;

/// How fast kwok's pods are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pace {
    pub(crate) ready_ms: u32,
    pub(crate) gone_ms: u32,
}

impl Pace {
    /// Seconds that pods have to stop: no fewer than they take.
    fn grace(self) -> u32 {
        self.gone_ms.div_ceil(1000)
    }

    /// The part of it that they take.
    pub(crate) fn part_of_grace(self) -> f64 {
        f64::from(self.gone_ms) / 1000.0 / f64::from(self.grace())
    }
}

const SLOW: Pace = Pace {
    ready_ms: 1500,
    gone_ms: 500,
};
const FAST: Pace = Pace {
    ready_ms: 300,
    gone_ms: 500,
};
const LONG: Pace = Pace {
    ready_ms: 1500,
    gone_ms: 5000,
};

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) pace: Pace,
    /// How many rounds count for one: where many evictions follow each other it is chance which
    /// of them meet the disruption controller's write, and wait for 500 ms.
    pub(crate) rounds: usize,
    /// `maxUnavailable` of each Deployment.
    pub(crate) budget: Option<&'static str>,
    deployments: usize,
    /// Of each Deployment.
    replicas: usize,
    /// Of each Deployment on each node that is drained.
    here: usize,
    /// How many nodes are drained.
    pub(crate) nodes: usize,
}

pub(crate) const SCENARIOS: [Scenario; 7] = [
    Scenario {
        name: "one-by-one",
        what: "5 of 30 replicas, maxUnavailable 1",
        pace: SLOW,
        rounds: 1,
        budget: Some("1"),
        deployments: 1,
        replicas: 30,
        here: 5,
        nodes: 1,
    },
    Scenario {
        name: "one-by-one-fast",
        what: "5 of 30 replicas, maxUnavailable 1",
        pace: FAST,
        rounds: 1,
        budget: Some("1"),
        deployments: 1,
        replicas: 30,
        here: 5,
        nodes: 1,
    },
    Scenario {
        name: "quarter",
        what: "15 of 30 replicas, maxUnavailable 25 %",
        pace: SLOW,
        rounds: 3,
        budget: Some("25%"),
        deployments: 1,
        replicas: 30,
        here: 15,
        nodes: 1,
    },
    Scenario {
        name: "many-budgets",
        what: "3 of 6 replicas of each of 10 Deployments, maxUnavailable 1",
        pace: SLOW,
        rounds: 1,
        budget: Some("1"),
        deployments: 10,
        replicas: 6,
        here: 3,
        nodes: 1,
    },
    Scenario {
        name: "many-budgets-fast",
        what: "3 of 6 replicas of each of 10 Deployments, maxUnavailable 1",
        pace: FAST,
        rounds: 1,
        budget: Some("1"),
        deployments: 10,
        replicas: 6,
        here: 3,
        nodes: 1,
    },
    Scenario {
        name: "two-nodes",
        what: "5 of 30 replicas on each of two nodes, maxUnavailable 1",
        pace: SLOW,
        rounds: 1,
        budget: Some("1"),
        deployments: 1,
        replicas: 30,
        here: 5,
        nodes: 2,
    },
    Scenario {
        name: "no-budget",
        what: "all of 60 replicas on the node",
        pace: LONG,
        rounds: 1,
        budget: None,
        deployments: 1,
        replicas: 60,
        here: 60,
        nodes: 1,
    },
];

/// The name of a Deployment, its budget and the label of its pods.
fn app(i: usize) -> String {
    format!("web-{i}")
}

/// Between two pods that are set up. Times in the API are whole seconds: those of pods that all began
/// at one moment of a second are wrong by the same part of it, and a mean of them tells nothing.
/// Steps of the golden section leave no part of the second without a pod.
const OUT_OF_STEP: Duration = Duration::from_millis(382);

/// How many other nodes there are.
const OTHERS: usize = 5;

impl Scenario {
    pub(crate) fn pods(&self) -> usize {
        self.deployments * self.replicas
    }

    /// The pods that have to go.
    pub(crate) fn leaving(&self) -> usize {
        self.deployments * self.here * self.nodes
    }

    /// Makes nodes and pods; the names of the nodes to drain.
    pub(crate) async fn set_up(&self, namespace: &TestNamespace) -> Result<Vec<String>> {
        let client = namespace.client();
        let pool = &namespace.name;
        let node = |name: &str| NodeFixture::kwok(name).label("pool", pool);
        let nodes: Api<Node> = Api::all(client.clone());
        let mut drained = Vec::new();
        for i in 0..self.nodes {
            let name = format!("{pool}-drained-{i}");
            // No room for more than what is to be here, as long as the pods are set up.
            let room = json!({"pods": (self.deployments * self.here).to_string()});
            let narrow = node(&name).capacity(room.clone()).allocatable(room);
            narrow.create(client).await?;
            drained.push(name);
            let here = self.here * i..self.here * (i + 1);
            self.grow(namespace, here).await?;
        }
        for i in 0..OTHERS {
            node(&format!("{pool}-other-{i}")).create(client).await?;
        }
        let elsewhere = self.here * self.nodes..self.replicas;
        self.grow(namespace, elsewhere).await?;
        for d in 0..self.deployments {
            if let Some(most) = self.budget {
                let most = most
                    .parse::<i32>()
                    .map_or_else(|_| json!(most), |n| json!(n));
                let healthy = i32::try_from(self.replicas)?;
                BudgetFixture::max_unavailable(&app(d), &app(d), most)
                    .create_counted(namespace, healthy)
                    .await?;
            }
        }
        let wide = Patch::Merge(json!({"status": {
            "capacity": {"pods": "110"}, "allocatable": {"pods": "110"},
        }}));
        for name in &drained {
            let params = PatchParams::default();
            nodes.patch_status(name, &params, &wide).await?;
        }
        Ok(drained)
    }

    /// Adds these replicas to each Deployment, one by one, and waits for them.
    async fn grow(&self, namespace: &TestNamespace, replicas: Range<usize>) -> Result<()> {
        let mut step = interval(OUT_OF_STEP);
        for replica in replicas.clone() {
            for d in 0..self.deployments {
                step.tick().await;
                self.scale(namespace, &app(d), replica + 1).await?;
            }
        }
        for d in 0..self.deployments {
            wait_ready(namespace, &app(d), replicas.end).await?;
        }
        Ok(())
    }

    async fn scale(&self, namespace: &TestNamespace, app: &str, replicas: usize) -> Result<()> {
        let deployments: Api<Deployment> = namespace.api();
        if deployments.get_opt(app).await?.is_some() {
            let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            let params = PatchParams::default();
            deployments.patch(app, &params, &scale).await?;
            return Ok(());
        }
        WorkloadFixture::deployment(app, u32::try_from(replicas)?)
            .pod_spec(json!({
                "nodeSelector": {"pool": namespace.name},
                "terminationGracePeriodSeconds": self.pace.grace(),
            }))
            .create(namespace)
            .await
    }

    /// Takes all of it away again: what is left would cost the next run time.
    pub(crate) async fn clear(&self, namespace: TestNamespace) -> Result<()> {
        let all = (DeleteParams::background(), ListParams::default());
        let deployments: Api<Deployment> = namespace.api();
        deployments.delete_collection(&all.0, &all.1).await?;
        let pods: Api<k8s_openapi::api::core::v1::Pod> = namespace.api();
        wait_until("the pods gone", TIMEOUT, async || {
            let left = pods.list(&all.1).await?.items;
            Ok(left.is_empty().then_some(()))
        })
        .await?;
        let nodes: Api<Node> = Api::all(namespace.client().clone());
        let own = ListParams::default().labels(&format!("pool={}", namespace.name));
        nodes.delete_collection(&all.0, &own).await?;
        namespace.delete().await
    }
}
