//! Compares Allocatable and refusals with real kubelets.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use nodelife_audit::kubelet_start::{self, Cgroups, Target};
use nodelife_core::allocatable::{self, Allocatable, KubeletConfiguration};
use nodelife_core::quantity::Quantity;
use nodelife_tests::real_nodes::{Agent, NodeOptions, RealNode, RealNodes};
use nodelife_tests::supervise::tail;
use nodelife_tests::{cgroup, until};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::support::allocatable_equals;
use crate::oracle::{self, kubelet_start::case};
use nodelife_tests::seed;

/// How many configurations of each kind are tried; a kubelet takes a second or two for each.
fn cases(default: usize) -> usize {
    let named = std::env::var("NODELIFE_REAL_CASES").ok();
    named.map_or(default, |count| count.parse().unwrap())
}

#[tokio::test]
async fn allocatable_is_what_a_real_kubelet_publishes() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let bench = Bench::start(cluster).await;
    let accepted = seed::draw(1000, &configuration())
        .into_iter()
        .filter(|case| case.has_one_numa_node() && bench.refusals(case).is_empty());
    let mut tried = 0;
    for case in accepted.take(cases(6)) {
        bench.publishes(&case).await;
        tried += 1;
    }
    assert_eq!(tried, cases(6));
}

#[tokio::test]
async fn refused_configurations_keep_a_kubelet_from_starting() {
    let Some(cluster) = RealNodes::shared().await else {
        return;
    };
    let bench = Bench::start(cluster).await;
    let target = bench.target;
    let files = case::configuration(target).prop_map(|file| Case {
        file,
        drop_ins: Vec::new(),
    });
    let strategy = prop_oneof![files, configuration()];
    let refused = seed::draw(1000, &strategy)
        .into_iter()
        .filter(|case| !bench.refusals(case).is_empty());
    let mut tried = 0;
    for case in refused.take(cases(6)) {
        bench.refuses(&case).await;
        tried += 1;
    }
    assert_eq!(tried, cases(6));
}

/// What a kubelet's configuration has beside the test's own.
#[derive(Debug, Clone)]
struct Case {
    file: Value,
    drop_ins: Vec<Value>,
}

impl Case {
    /// A Node does not say how many NUMA nodes its machine has; one is there always.
    fn has_one_numa_node(&self) -> bool {
        let documents = std::iter::once(&self.file).chain(&self.drop_ins);
        documents
            .flat_map(|document| document["reservedMemory"].as_array().into_iter().flatten())
            .all(|reservation| reservation["numaNode"] == 0)
    }
}

/// Reservations of each kind, thresholds, CPU and topology managers, and drop-ins.
fn configuration() -> impl Strategy<Value = Case> {
    let policies = (
        prop::option::weighted(0.3, select(vec!["none", "static"])),
        prop::option::weighted(0.2, select(vec!["none", "best-effort", "restricted"])),
    );
    let managers = policies.prop_map(|(cpu, topology)| {
        let mut fields = json!({});
        if let Some(policy) = cpu {
            fields["cpuManagerPolicy"] = json!(policy);
        }
        if let Some(policy) = topology {
            fields["topologyManagerPolicy"] = json!(policy);
        }
        fields
    });
    let drop_in = oracle::allocatable::configuration();
    (
        oracle::allocatable::configuration(),
        managers,
        prop::collection::vec(drop_in, 0..3),
    )
        .prop_map(|(mut file, managers, drop_ins)| {
            let fields = managers.as_object().unwrap().clone();
            file.as_object_mut().unwrap().extend(fields);
            Case { file, drop_ins }
        })
}

/// A node whose kubelet is started with one configuration after the other.
struct Bench<'a> {
    cluster: &'a RealNodes,
    node: RealNode,
    nodes: Api<Node>,
    target: Target,
    capacity: allocatable::Amounts,
    cores: i64,
}

impl Bench<'_> {
    async fn start(cluster: &RealNodes) -> Bench<'_> {
        let node = cluster
            .add(NodeOptions::default().huge_pages(64))
            .await
            .unwrap();
        for name in ["system", "kube"] {
            cgroup::create(&format!("{}/{name}", node.cgroup)).unwrap();
        }
        let nodes: Api<Node> = Api::all(cluster.plane.admin().await.unwrap());
        let status = nodes.get(&node.name).await.unwrap().status.unwrap();
        let version = status.node_info.unwrap().kubelet_version;
        let capacity = status.capacity.unwrap();
        let pages = "/sys/kernel/mm/hugepages/hugepages-2048kB";
        if Path::new(pages).exists() {
            assert_eq!(capacity["hugepages-2Mi"].0, "128Mi");
        }
        let cores = capacity["cpu"].0.parse().unwrap();
        let capacity = serde_json::to_value(capacity).unwrap();
        Bench {
            cluster,
            node,
            nodes,
            target: version.parse().unwrap(),
            capacity: allocatable::amounts(&serde_json::from_value(capacity).unwrap()),
            cores,
        }
    }

    /// The files of a case: the file that the node began with, changed, and its drop-ins.
    fn files(&self, case: &Case) -> (Value, Vec<Value>) {
        let place = |document: &Value| {
            let mut document = document.clone();
            for (field, name) in [
                ("systemReservedCgroup", "system"),
                ("kubeReservedCgroup", "kube"),
            ] {
                if document.get(field).is_some() {
                    document[field] = json!(format!("/{}/{name}", self.node.cgroup));
                }
            }
            document
        };
        let mut file = self.node.kubelet.clone();
        for (name, value) in place(&case.file).as_object().unwrap() {
            file[name] = value.clone();
        }
        (file, case.drop_ins.iter().map(place).collect())
    }

    /// Allocatable as nodelife computes it from the files.
    fn computed(&self, case: &Case) -> Result<Allocatable, String> {
        let (file, drop_ins) = self.files(case);
        let configuration = KubeletConfiguration::from_files(Some(file), drop_ins);
        let configuration = configuration.map_err(|error| error.to_string())?;
        let mut capacity = self.capacity.clone();
        let pods = configuration.pod_limit(self.cores).to_string();
        capacity.insert("pods".into(), Quantity::parse(&pods).unwrap());
        Ok(allocatable::compute(&capacity, &configuration))
    }

    /// Why nodelife says that the kubelet does not start.
    fn refusals(&self, case: &Case) -> Vec<String> {
        let mut refusals = match self.computed(case) {
            Ok(computed) => computed.refusals,
            Err(error) => vec![error],
        };
        let (file, drop_ins) = self.files(case);
        if drop_ins.is_empty() {
            let cgroups = if cgroup::is_v2() {
                Cgroups::V2
            } else {
                Cgroups::V1
            };
            let start = kubelet_start::judge(file.as_object().unwrap(), self.target, cgroups);
            refusals.extend(start.refusals.iter().map(|refusal| format!("{refusal:?}")));
        }
        refusals
    }

    async fn restart(&self, case: &Case) {
        self.node.stop(Agent::Kubelet).await.unwrap();
        let (file, drop_ins) = self.files(case);
        self.node.configure(&file, &drop_ins).unwrap();
        // What stands there afterwards is of the new kubelet.
        let erased = json!({"status": {"capacity": null, "allocatable": null}});
        let erased = Patch::Merge(erased);
        let parameters = PatchParams::default();
        let patched = self
            .nodes
            .patch_status(&self.node.name, &parameters, &erased);
        patched.await.unwrap();
        self.node.start(Agent::Kubelet).await.unwrap();
    }

    /// The kubelet starts and publishes what nodelife computes, from the files and from configz.
    async fn publishes(&self, case: &Case) {
        self.restart(case).await;
        let published = until("Allocatable", async || {
            let status = self.nodes.get(&self.node.name).await?.status;
            let published = status.and_then(|status| status.allocatable);
            let ended = !self.node.is_running(Agent::Kubelet).await?;
            Ok((published.is_some() || ended).then_some(published))
        })
        .await
        .unwrap_or_else(|| panic!("{case:#?}\n{}", self.log()));
        // The API server writes what it stores in another way: 24401120000 as 24401120k.
        let published: BTreeMap<String, Quantity> = published
            .into_iter()
            .map(|(name, amount)| (name, Quantity::parse(&amount.0).unwrap()))
            .collect();
        let computed = self.computed(case).unwrap().resources;
        let computed: BTreeMap<String, Quantity> = computed
            .into_iter()
            .map(|(name, line)| (name.to_string(), line.allocatable))
            .collect();
        assert_eq!(computed, published, "{case:#?}");
        allocatable_equals(self.cluster, &self.node).await;
    }

    /// The kubelet ends by itself.
    async fn refuses(&self, case: &Case) {
        self.restart(case).await;
        let refusals = self.refusals(case);
        let ended = self.node.ended(Agent::Kubelet).await;
        let status = ended
            .unwrap_or_else(|error| panic!("{refusals:?}\n{case:#?}\n{error:#}\n{}", self.log()));
        assert_ne!(status, 0, "{refusals:?}\n{case:#?}\n{}", self.log());
    }

    fn log(&self) -> String {
        tail(&self.node.log(Agent::Kubelet))
    }
}
