//! Compares where pods fit, as a plan sees it, with the filters of the scheduler's own plugins.

use std::collections::BTreeMap;

use nodelife_core::object::{Node, PersistentVolume, Pod};
use nodelife_core::scheduling::{Placement, Reason};
use nodelife_core::text::Str;
use nodelife_tests::{oracle, seed};
use proptest::prelude::any;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ASKING: usize = 30;
/// What pods ask for, and the plugin that refuses nodes for it.
const PLUGINS: [&str; 8] = [
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
];

#[test]
fn pods_fit_where_the_scheduler_takes_them() {
    let wanted = seed::cases(30_000);
    // Between three and four nodes stay in a cluster, on average.
    let worlds: Vec<World> = seed::draw(wanted / (3 * ASKING), &any::<u64>())
        .into_iter()
        .map(World::new)
        .collect();
    let mut coverage: BTreeMap<String, usize> = BTreeMap::new();
    for some in worlds.chunks(100) {
        let compared: Vec<_> = some.iter().map(World::ours).collect();
        let cases: Vec<&Value> = compared.iter().map(|(case, _)| case).collect();
        let theirs: Vec<Vec<Vec<String>>> = oracle::ask("schedule", &cases).unwrap();
        for (world, ((case, ours), theirs)) in some.iter().zip(compared.iter().zip(&theirs)) {
            world.compare(case, ours, theirs, &mut coverage);
        }
    }
    let pairs: usize = coverage.values().sum();
    println!("{pairs} pairs of pods and nodes: {coverage:?}");
    let enough = |plugin: &&str| coverage.get(*plugin).is_some_and(|n| *n > pairs / 1_000);
    assert!(PLUGINS.iter().chain(&[""]).all(enough), "{coverage:?}");
}

/// A cluster, of which some nodes are drained, and pods that ask for a node of it.
struct World {
    nodes: Vec<Value>,
    drained: usize,
    pods: Vec<Value>,
    asking: Vec<Value>,
}

/// The plugins that should refuse each node, by its name; for each pod that asks.
type Answers = Vec<BTreeMap<String, &'static str>>;

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(fastrand::Rng::with_seed(seed));
        let count = 3 + dice.below(4);
        let nodes = (0..count).map(|i| node(&mut dice, i)).collect();
        let pods = (0..count * 3).map(|i| {
            let on = dice.below(count);
            let mut pod = pod(&mut dice, &format!("there-{i}"));
            pod["spec"]["nodeName"] = json!(format!("n{on}"));
            if dice.one_in(15) {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            pod
        });
        Self {
            nodes,
            pods: pods.collect(),
            drained: dice.below(3),
            asking: (0..ASKING)
                .map(|i| pod(&mut dice, &format!("new-{i}")))
                .collect(),
        }
    }

    /// The case for the oracle and our answers, once the pods of the drained nodes have moved.
    fn ours(&self) -> (Value, Answers) {
        let nodes: Vec<Node> = read(&self.nodes);
        let (pods, asking): (Vec<Pod>, Vec<Pod>) = (read(&self.pods), read(&self.asking));
        let (volumes, claims) = volumes();
        let known: Vec<PersistentVolume> = read(&volumes);
        let drained: Vec<Str> = (0..self.drained).map(|i| format!("n{i}").into()).collect();
        let mut placement = Placement::new(&nodes, &pods, &known, &drained);
        let mut moved = Vec::new();
        for (pod, there) in self.pods.iter().zip(&pods) {
            let mut pod = pod.clone();
            if drained.contains(&there.spec.node_name) {
                let Ok(node) = placement.place(there) else {
                    continue;
                };
                pod["spec"]["nodeName"] = json!(node.metadata.name);
            }
            moved.push(pod);
        }
        let mut cordoned = self.nodes.clone();
        for node in &mut cordoned[..self.drained] {
            node["spec"]["unschedulable"] = json!(true);
            let taints = node["spec"]["taints"].as_array_mut().unwrap();
            taints.push(taint("node.kubernetes.io/unschedulable", "NoSchedule"));
        }
        let answers = asking.iter().map(|pod| {
            let each = placement.refusals(pod);
            each.map(|(node, reason)| (node.metadata.name.to_string(), plugin(reason.as_ref())))
                .collect()
        });
        let answers = answers.collect();
        let namespaces = ["shop", "bank"]
            .map(|name| json!({"metadata": {"name": name, "labels": {"team": name}}}));
        let case = json!({
            "nodes": cordoned, "pods": moved, "asking": self.asking, "volumes": volumes,
            "claims": claims, "namespaces": namespaces,
        });
        (case, answers)
    }

    fn compare(
        &self,
        case: &Value,
        ours: &Answers,
        theirs: &[Vec<String>],
        coverage: &mut BTreeMap<String, usize>,
    ) {
        for ((ours, theirs), pod) in ours.iter().zip(theirs).zip(&self.asking) {
            let terms = &pod["spec"]["affinity"];
            // Nobody knows then; a refusal has to be right.
            let by_labels = terms.to_string().contains("namespaceSelector\":{\"match");
            for (theirs, node) in theirs.iter().zip(&self.nodes).skip(self.drained) {
                let name = node["metadata"]["name"].as_str().unwrap();
                let ours = ours[name];
                // Affinity to a name shuts out all other nodes before a filter looks at them.
                let agree = ours == theirs
                    || (theirs == "NodeAffinity" && !ours.is_empty())
                    || (by_labels && theirs == "InterPodAffinity" && ours.is_empty());
                assert!(
                    agree,
                    "node {name}: {ours:?}, and the scheduler {theirs:?}\npod: {pod}\n{case}"
                );
                *coverage.entry(theirs.clone()).or_default() += 1;
            }
        }
    }
}

fn read<T: DeserializeOwned>(all: &[Value]) -> Vec<T> {
    let all = all.iter().cloned();
    all.map(|one| serde_json::from_value(one).unwrap())
        .collect()
}

fn plugin(reason: Option<&Reason>) -> &'static str {
    let Some(reason) = reason else { return "" };
    match reason {
        Reason::Cordoned => "NodeUnschedulable",
        Reason::NotReady | Reason::Taint(_) => "TaintToleration",
        Reason::Affinity => "NodeAffinity",
        Reason::Port(_) => "NodePorts",
        Reason::Full | Reason::Short(_) => "NodeResourcesFit",
        Reason::Volume(_) => "VolumeBinding",
        Reason::Spread => "PodTopologySpread",
        Reason::Far | Reason::Neighbour => "InterPodAffinity",
    }
}

struct Dice(fastrand::Rng);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0.usize(..count)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

fn node(dice: &mut Dice, i: usize) -> Value {
    let name = format!("n{i}");
    let mut labels = json!({HOST: name, "cores": (1 + dice.below(8)).to_string()});
    if !dice.one_in(8) {
        labels[ZONE] = json!(dice.pick(&["a", "b", "c"]));
    }
    if dice.one_in(2) {
        labels["disk"] = json!(dice.pick(&["ssd", "hdd"]));
    }
    let mut taints = Vec::new();
    if dice.one_in(6) {
        taints.push(taint(
            dice.pick(&["gpu", "team"]),
            dice.pick(&["NoSchedule", "NoExecute"]),
        ));
    }
    if dice.one_in(8) {
        taints.push(taint("soft", "PreferNoSchedule"));
    }
    let ready = dice.pick(&[
        "True", "True", "True", "True", "True", "True", "False", "Unknown",
    ]);
    let lost = match ready {
        "False" => Some("node.kubernetes.io/not-ready"),
        "Unknown" => Some("node.kubernetes.io/unreachable"),
        _ => None,
    };
    if let Some(key) = lost {
        taints.extend(["NoSchedule", "NoExecute"].map(|effect| taint(key, effect)));
    }
    let cordoned = dice.one_in(8);
    if cordoned {
        taints.push(taint("node.kubernetes.io/unschedulable", "NoSchedule"));
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": {
            "allocatable": {
                "cpu": dice.pick(&["2", "3500m", "8"]), "memory": dice.pick(&["4Gi", "16G"]),
                "pods": dice.pick(&["4", "8", "110"]), "example.com/gpu": dice.pick(&["0", "2"]),
            },
            "conditions": [{"type": "Ready", "status": ready}],
        },
    })
}

fn requests(dice: &mut Dice) -> Value {
    let mut requests = json!({"cpu": dice.pick(&["0", "100m", "300m", "1"])});
    if dice.one_in(3) {
        requests["memory"] = json!(dice.pick(&["64Mi", "1Gi", "3G"]));
    }
    if dice.one_in(12) {
        requests["example.com/gpu"] = json!("1");
    }
    json!({"requests": requests})
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let mut ports = vec![json!({"containerPort": 80, "protocol": "TCP"})];
    if dice.one_in(5) {
        let mut port = json!({"containerPort": 80, "hostPort": 8080 + dice.below(2)});
        port["protocol"] = json!(dice.pick(&["TCP", "TCP", "UDP"]));
        if dice.one_in(2) {
            port["hostIP"] = json!(dice.pick(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]));
        }
        ports.push(port);
    }
    json!({"name": name, "image": "example.com/app:1", "resources": requests(dice), "ports": ports})
}

fn selector(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => json!({}),
        1 => json!({"matchExpressions": [{
            "key": "app", "operator": dice.pick(&["In", "NotIn"]), "values": ["web", "cache"],
        }]}),
        2 => json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        _ => json!({"matchLabels": {"app": dice.pick(&["web", "db", "cache"])}}),
    }
}

fn key(dice: &mut Dice) -> &'static str {
    dice.pick(&[HOST, HOST, ZONE, ZONE, "disk"])
}

/// A term of affinity between pods; `asks`: it may select namespaces by their labels.
fn term(dice: &mut Dice, asks: bool) -> Value {
    let mut term = json!({"topologyKey": key(dice), "labelSelector": selector(dice)});
    match dice.below(12) {
        0 => term["namespaces"] = json!([dice.pick(&["shop", "bank"])]),
        1 => term["namespaceSelector"] = json!({}),
        2 if asks => {
            term["namespaceSelector"] = json!({"matchLabels": {"team": dice.pick(&["shop", "x"])}});
        }
        3 => term["labelSelector"] = Value::Null,
        _ => (),
    }
    term
}

fn node_terms(dice: &mut Dice) -> Value {
    let term = match dice.below(6) {
        0 => json!({"matchFields": [{
            "key": "metadata.name", "operator": dice.pick(&["In", "NotIn"]), "values": ["n2"],
        }]}),
        1 => json!({"matchExpressions": [{
            "key": "cores", "operator": dice.pick(&["Gt", "Lt"]), "values": ["4"],
        }]}),
        2 => json!({"matchExpressions": [{
            "key": "disk", "operator": dice.pick(&["Exists", "DoesNotExist"]),
        }]}),
        3 => json!({}),
        _ => json!({"matchExpressions": [{
            "key": ZONE, "operator": dice.pick(&["In", "NotIn"]), "values": ["a", "b"],
        }]}),
    };
    let mut terms = vec![term];
    if dice.one_in(4) {
        terms.push(
            json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}),
        );
    }
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
}

fn constraint(dice: &mut Dice) -> Value {
    let mut constraint = json!({
        "maxSkew": 1 + dice.below(2), "topologyKey": key(dice), "labelSelector": selector(dice),
        "whenUnsatisfiable": dice.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
    });
    if dice.one_in(4) && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
        constraint["minDomains"] = json!(1 + dice.below(4));
    }
    if dice.one_in(4) {
        constraint["nodeAffinityPolicy"] = json!(dice.pick(&["Honor", "Ignore"]));
    }
    if dice.one_in(4) {
        constraint["nodeTaintsPolicy"] = json!(dice.pick(&["Honor", "Ignore"]));
    }
    if dice.one_in(4) {
        constraint["matchLabelKeys"] = json!(["pod-template-hash"]);
    }
    constraint
}

fn toleration(dice: &mut Dice) -> Value {
    match dice.below(6) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
        2 => json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}),
        3 => json!({"key": "gpu", "operator": "Equal", "value": "yes"}),
        4 => json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
        _ => json!({"key": "team", "operator": "Equal"}),
    }
}

fn pod(dice: &mut Dice, name: &str) -> Value {
    let asks = name.starts_with("new");
    let mut spec = json!({"containers": [container(dice, "app")]});
    if dice.one_in(5) {
        let mut init = container(dice, "before");
        if dice.one_in(2) {
            init["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!([init, container(dice, "after")]);
    }
    if dice.one_in(10) {
        spec["overhead"] = json!({"cpu": "250m"});
    }
    if dice.one_in(10) {
        spec["resources"] = json!({"requests": {"cpu": "1500m"}});
    }
    if dice.one_in(8) {
        spec["nodeSelector"] = json!({"disk": "ssd"});
    }
    if dice.one_in(3) {
        spec["tolerations"] = json!([toleration(dice), toleration(dice)]);
    }
    let required =
        |terms: Vec<Value>| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let mut affinity = json!({});
    if dice.one_in(6) {
        affinity["nodeAffinity"] = node_terms(dice);
    }
    if dice.one_in(6) {
        let second = dice.one_in(3).then(|| term(dice, asks));
        let terms = [term(dice, asks)].into_iter().chain(second);
        affinity["podAffinity"] = required(terms.collect());
    }
    if dice.one_in(6) {
        affinity["podAntiAffinity"] = required(vec![term(dice, asks)]);
    }
    spec["affinity"] = affinity;
    if dice.one_in(4) {
        let second = dice.one_in(3).then(|| constraint(dice));
        let all = [constraint(dice)].into_iter().chain(second);
        spec["topologySpreadConstraints"] = json!(all.collect::<Vec<_>>());
    }
    if dice.one_in(8) {
        let claim = dice.pick(&["zonal", "local", "anywhere"]);
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": dice.pick(&["shop", "shop", "bank"]), "uid": name,
            "labels": {
                "app": dice.pick(&["web", "db", "cache"]),
                "pod-template-hash": dice.pick(&["1", "2"]),
            },
        },
        "spec": spec,
        "status": {"phase": "Running"},
    })
}

/// The volumes of all cases, and the claims that are bound to them.
fn volumes() -> (Vec<Value>, Vec<Value>) {
    let mut both = (Vec::new(), Vec::new());
    for namespace in ["shop", "bank"] {
        for (claim, bound) in [
            ("zonal", Some((ZONE, "a"))),
            ("local", Some((HOST, "n2"))),
            ("anywhere", None),
        ] {
            let name = format!("{namespace}-{claim}");
            let mut spec = json!({
                "accessModes": ["ReadWriteMany"],
                "claimRef": {"namespace": namespace, "name": claim, "uid": name},
            });
            if let Some((key, value)) = bound {
                spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{
                    "matchExpressions": [{"key": key, "operator": "In", "values": [value]}],
                }]}});
            }
            both.0
                .push(json!({"metadata": {"name": name}, "spec": spec}));
            both.1.push(json!({
                "metadata": {
                    "name": claim, "namespace": namespace, "uid": name,
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {"volumeName": name, "accessModes": ["ReadWriteMany"]},
            }));
        }
    }
    both
}
