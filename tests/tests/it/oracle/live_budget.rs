//! Compares the arithmetic of disruption budgets with the statuses of a real
//! kube-controller-manager. (`oracle::budget` compares more cases, with the controller's code
//! alone.) `NODELIFE_LIVE_BUDGETS=1000` makes so many sets of budget, controllers and pods.

use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use nodelife_cluster::list::ListFilter;
use nodelife_cluster::{ClientOptions, Cluster, listing};
use nodelife_core::disruption::Counts;
use nodelife_core::object::{Budget, Pod, WorkloadKind};
use nodelife_core::workload::Workloads;
use nodelife_tests::control_plane::Part;
use nodelife_tests::{ControlPlane, Identity, TIMEOUT, TestNamespace, wait_until};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::agreement::never_allows;
use nodelife_tests::seed;

/// How many of them share a namespace.
const TOGETHER: usize = 20;

/// A budget and the pods that it selects.
#[derive(Debug, Clone)]
struct Set {
    groups: Vec<Group>,
    /// `minAvailable`, or `maxUnavailable`.
    least: bool,
    amount: Value,
    /// How many pods are Ready.
    ready: usize,
}

/// A controller, or none, and how many pods it keeps.
#[derive(Debug, Clone, Copy)]
struct Group {
    owner: Owner,
    pods: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Deployment,
    ReplicaSet,
    StatefulSet,
    ReplicationController,
    Job,
    None,
}

impl Owner {
    fn api(self) -> (&'static str, &'static str) {
        match self {
            Self::Deployment => ("apps/v1", "Deployment"),
            Self::ReplicaSet => ("apps/v1", "ReplicaSet"),
            Self::StatefulSet => ("apps/v1", "StatefulSet"),
            Self::ReplicationController => ("v1", "ReplicationController"),
            Self::Job => ("batch/v1", "Job"),
            Self::None => ("v1", "Pod"),
        }
    }
}

fn set() -> impl Strategy<Value = Set> {
    let owner = prop_oneof![
        4 => Just(Owner::Deployment),
        2 => Just(Owner::ReplicaSet),
        2 => Just(Owner::StatefulSet),
        1 => Just(Owner::ReplicationController),
        1 => Just(Owner::Job),
        1 => Just(Owner::None),
    ];
    let group = (owner, 0..5_usize).prop_map(|(owner, pods)| Group { owner, pods });
    let share = prop::sample::select(vec![
        "0%", "1%", "10%", "25%", "34%", "50%", "75%", "99%", "100%",
    ]);
    let amount = prop_oneof![
        (0..6_i32).prop_map(|n| json!(n)),
        share.prop_map(|s| json!(s))
    ];
    (
        prop::collection::vec(group, 1..3),
        any::<bool>(),
        amount,
        0..9_usize,
    )
        .prop_map(|(groups, least, amount, ready)| Set {
            groups,
            least,
            amount,
            ready,
        })
}

impl Set {
    fn pods(&self) -> usize {
        self.groups.iter().map(|group| group.pods).sum()
    }

    fn objects(&self, app: &str) -> Vec<Value> {
        let mut objects = Vec::new();
        for (i, group) in self.groups.iter().enumerate() {
            let (api_version, kind) = group.owner.api();
            let name = format!("{app}-{i}");
            let labels = json!({"app": app, "group": name});
            let containers = json!([{"name": "main", "image": "registry.test/none"}]);
            let template = |more: Value| {
                let mut spec = json!({"containers": containers});
                spec.as_object_mut()
                    .unwrap()
                    .extend(more.as_object().unwrap().clone());
                json!({"metadata": {"labels": labels}, "spec": spec})
            };
            let object = |spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
            let own = json!({"matchLabels": {"group": name}});
            match group.owner {
                Owner::None => objects.extend((0..group.pods).map(|n| {
                    json!({
                        "apiVersion": api_version, "kind": kind,
                        "metadata": {"name": format!("{name}-{n}"), "labels": labels},
                        "spec": {"containers": containers},
                    })
                })),
                Owner::Job => objects.push(object(json!({
                    "parallelism": group.pods,
                    "template": template(json!({"restartPolicy": "Never"})),
                }))),
                Owner::ReplicationController => objects.push(object(json!({
                    "replicas": group.pods, "selector": {"group": name},
                    "template": template(json!({})),
                }))),
                Owner::StatefulSet => objects.push(object(json!({
                    "replicas": group.pods, "selector": own, "serviceName": name,
                    "podManagementPolicy": "Parallel", "template": template(json!({})),
                }))),
                Owner::Deployment | Owner::ReplicaSet => objects.push(object(json!({
                    "replicas": group.pods, "selector": own, "template": template(json!({})),
                }))),
            }
        }
        objects
    }

    fn budget(&self, app: &str) -> Value {
        let field = if self.least {
            "minAvailable"
        } else {
            "maxUnavailable"
        };
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"selector": {"matchLabels": {"app": app}}, field: self.amount},
        })
    }
}

async fn create(namespace: &TestNamespace, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().unwrap_or_default();
    let (group, version) = types
        .api_version
        .split_once('/')
        .unwrap_or(("", &types.api_version));
    let gvk = kube::core::GroupVersionKind::gvk(group, version, &types.kind);
    let resource = ApiResource::from_gvk(&gvk);
    let api: Api<DynamicObject> =
        Api::namespaced_with(namespace.client().clone(), &namespace.name, &resource);
    // The API server may be too busy at times.
    wait_until("the object", TIMEOUT, async || {
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code != 409 => Err(*status)?,
            _ => Ok(Some(())),
        }
    })
    .await
}

fn app(i: usize) -> String {
    format!("set-{i}")
}

/// Makes the sets in a namespace of their own, and waits until every status is what we count.
async fn compare(plane: &ControlPlane, sets: &[Set]) -> anyhow::Result<Coverage> {
    let patience = TIMEOUT * 4;
    let namespace = TestNamespace::create(plane, "budgets").await?;
    for (i, set) in sets.iter().enumerate() {
        let objects = set.objects(&app(i)).into_iter();
        try_join_all(objects.map(|object| create(&namespace, object))).await?;
    }
    let pods: Api<KubePod> = namespace.api();
    for (i, set) in sets.iter().enumerate() {
        let own = ListParams::default().labels(&format!("app={}", app(i)));
        let there = wait_until("the pods", patience, async || {
            let there = pods.list(&own).await?.items;
            Ok((there.len() == set.pods()).then_some(there))
        })
        .await?;
        let ready =
            Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        let params = PatchParams::default();
        let names = there
            .iter()
            .filter_map(|pod| pod.metadata.name.as_deref())
            .take(set.ready);
        let written = names.map(|name| {
            wait_until("its status", TIMEOUT, async || {
                Ok(Some(pods.patch_status(name, &params, &ready).await?))
            })
        });
        futures::future::try_join_all(written.collect::<Vec<_>>()).await?;
        create(&namespace, set.budget(&app(i))).await?;
    }
    let cluster = Cluster::connect(&ClientOptions {
        kubeconfig: vec![plane.kubeconfig_file(&Identity::Admin)?],
        ..ClientOptions::default()
    })
    .await?;
    // The statuses follow the pods: what is not equal yet may be so a moment later.
    let coverage = wait_until("every status as we count it", patience, async || {
        look(&cluster, &namespace.name, sets).await.map(Some)
    })
    .await?;
    namespace.delete().await?;
    Ok(coverage)
}

/// What came of the budgets.
#[derive(Debug, Default)]
struct Coverage {
    allowing: usize,
    blocking: usize,
    failed: usize,
}

async fn look(cluster: &Cluster, namespace: &str, sets: &[Set]) -> anyhow::Result<Coverage> {
    let here = ListFilter {
        namespace: Some(namespace.to_owned()),
        ..ListFilter::default()
    };
    let mut owners = Workloads::default();
    let mut workloads = Vec::new();
    for kind in WorkloadKind::ALL {
        let listing = listing::WORKLOADS
            .iter()
            .find(|known| known.kind == kind.as_str());
        let listed = cluster.list(listing.unwrap(), &here, |_| {}).await?;
        workloads.extend(listed.items.iter().cloned());
        owners.add_listed([kind], listed.items);
    }
    let pods = cluster.list(&listing::PODS, &here, |_| {}).await?.items;
    let budgets = cluster.list(&listing::BUDGETS, &here, |_| {}).await?.items;
    anyhow::ensure!(budgets.len() == sets.len(), "{} budgets", budgets.len());
    let mut coverage = Coverage::default();
    for budget in budgets {
        let name = budget.metadata.name.clone();
        let set = sets
            .iter()
            .enumerate()
            .find(|(i, _)| app(*i) == name.as_str());
        let set = set.map(|(_, set)| set);
        one(&budget, &pods, &owners, &mut coverage)
            .and_then(|()| never_allows(&budget, &pods, &workloads, Timestamp::now()))
            .map_err(|difference| anyhow::anyhow!("{name}: {difference}: {set:?}"))?;
    }
    Ok(coverage)
}

fn one(
    budget: &Budget,
    pods: &[Pod],
    owners: &Workloads,
    coverage: &mut Coverage,
) -> Result<(), String> {
    let selected: Vec<&Pod> = pods.iter().filter(|pod| budget.selects(pod)).collect();
    let status = &budget.status;
    let failed = status
        .conditions
        .iter()
        .any(|condition| condition.reason == "SyncFailed");
    match budget.count(&selected, owners, Timestamp::now()) {
        Ok(ours) => {
            let theirs = Counts {
                expected: status.expected_pods,
                desired: status.desired_healthy,
                healthy: status.current_healthy,
                allowed: status.disruptions_allowed,
            };
            if ours != theirs || failed {
                return Err(format!(
                    "ours is {ours:?}, theirs {theirs:?}, failed {failed}"
                ));
            }
            *if ours.allowed > 0 {
                &mut coverage.allowing
            } else {
                &mut coverage.blocking
            } += 1;
        }
        Err(error) => {
            if !failed || status.disruptions_allowed != 0 {
                return Err(format!("ours fails with {error}, theirs is {status:?}"));
            }
            coverage.failed += 1;
        }
    }
    Ok(())
}

#[tokio::test]
async fn our_counts_equal_the_controller_managers_statuses() {
    let count = seed::number("NODELIFE_LIVE_BUDGETS", 20, 60);
    let plane = ControlPlane::options()
        .with(Part::ControllerManager)
        // By itself it asks 20 times a second.
        .controller_manager_flag("--kube-api-qps=1000")
        .controller_manager_flag("--kube-api-burst=1000")
        .start()
        .await
        .unwrap();
    let sets = seed::draw(count, &set());
    let mut coverage = Coverage::default();
    for batch in sets.chunks(TOGETHER * 3) {
        let compared = batch.chunks(TOGETHER).map(|sets| compare(&plane, sets));
        for part in try_join_all(compared).await.unwrap() {
            coverage.allowing += part.allowing;
            coverage.blocking += part.blocking;
            coverage.failed += part.failed;
        }
    }
    println!("{count} budgets: {coverage:?}");
    assert!(
        [coverage.allowing, coverage.blocking, coverage.failed]
            .iter()
            .all(|n| *n * 50 > count),
        "{coverage:?}"
    );
}
