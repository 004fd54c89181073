//! A scene: objects of an operator, a pod of it on node `a`, and what the plan says of that pod.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::discovery::ApiResource;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::proxy::Proxy;
use nodelife_tests::{ControlPlane, TestNamespace};
use serde_json::{Value, json};

use super::super::support::TestEnvironment;
use super::create;
use super::stub::{self, World};

pub(super) struct Scene {
    pub(super) name: &'static str,
    /// In these, `$ns` stands for the namespace, `$a` to `$c` for nodes, and `$uid:NAME` for the
    /// UID of an object before.
    pub(super) objects: Vec<Value>,
    /// The nodes that are cordoned.
    pub(super) cordoned: &'static [&'static str],
    /// What is drained.
    pub(super) drained: &'static [&'static str],
    /// Whether Strimzi's drain cleaner denies evictions.
    pub(super) denies: bool,
    pub(super) expect: Expect,
}

/// What the plan says of the pod of the operator on node `a`, and how the drain ends.
pub(super) enum Expect {
    /// It is evicted, this is said of it, and the operator lets it go.
    Lifts(&'static str),
    /// It is evicted, this is said of it, and the operator does not let it go by itself.
    Stays(&'static str),
    /// The drain refuses with this, and the operator would never let it go.
    Never(&'static str),
    /// It is evicted like any other.
    Goes,
}

/// How often an operator looks that does not let a pod go.
const STEPS: usize = 30;

impl Scene {
    pub(super) fn new(name: &'static str, objects: Vec<Value>, expect: Expect) -> Self {
        Self {
            name,
            objects,
            cordoned: &[],
            drained: &["a"],
            denies: false,
            expect,
        }
    }

    pub(super) fn cordoned(mut self, nodes: &'static [&'static str]) -> Self {
        self.cordoned = nodes;
        self
    }

    pub(super) fn denied(mut self) -> Self {
        self.denies = true;
        self
    }

    pub(super) fn drained(mut self, nodes: &'static [&'static str]) -> Self {
        self.drained = nodes;
        self
    }

    /// Plays the scene, and gives back what is wrong about the plan or about the drain.
    pub(super) async fn check(self, plane: &'static ControlPlane, proxy: &Proxy) -> Option<String> {
        let env = TestEnvironment::through(plane, proxy, "scene").await;
        let ns = &env.namespace;
        create_nodes(ns, self.cordoned).await;
        let guarded = set_up(ns, &self.objects).await;
        let nodes = self.drained.iter();
        let nodes: Vec<String> = nodes.map(|node| format!("{}-{node}", ns.name)).collect();
        let drain = async |flags: &[&str]| {
            let mut words = vec!["--concurrency=2", "--delete-emptydir-data"];
            words.extend(flags);
            words.extend(nodes.iter().map(String::as_str));
            env.drain(&words).await
        };
        let planned = drain(&["--dry-run=client", "-o", "json"]).await;
        let plan: Value = serde_json::from_str(&planned.stdout).unwrap_or_default();
        let mut pods = plan["pods"].as_array().into_iter().flatten();
        let pod = pods.find(|pod| pod["name"] == guarded);
        let pod = pod.cloned().unwrap_or_default();
        let warnings = pod["warnings"].as_array().into_iter().flatten();
        let warnings: Vec<&str> = warnings.filter_map(Value::as_str).collect();
        let (action, reason) = (&pod["action"], pod["reason"].as_str().unwrap_or_default());
        let text = |text: &str| fill(text, &ns.name, &BTreeMap::new());
        let right = match self.expect {
            Expect::Lifts(wanted) | Expect::Stays(wanted) => {
                action == "evict" && warnings.contains(&text(wanted).as_str())
            }
            Expect::Never(wanted) => action == "impossible" && reason == text(wanted),
            Expect::Goes => action == "evict" && warnings.is_empty(),
        };
        if !right {
            return Some(format!("{}: {pod:#}\n{}", self.name, planned.stderr));
        }
        // Only the operator says now whether that was true.
        let world = World { ns, proxy };
        self.deny_evictions(&world);
        let drain = drain(&["--on-impossible=wait", "--timeout=10m"]);
        let stays = matches!(self.expect, Expect::Stays(_) | Expect::Never(_));
        let ended = tokio::select! {
            ended = drain => ended,
            () = self.operate(&world, stays) => {
                let stayed = env.pods().get(&guarded).await;
                let pod = stayed.map(|pod| pod.metadata.deletion_timestamp);
                return (!matches!(pod, Ok(None))).then(|| format!("{}: {pod:?}", self.name));
            }
        };
        let wrong = stays || ended.status != Some(0);
        wrong.then(|| format!("{}: {:?}: {}", self.name, ended.status, ended.stderr))
    }

    /// What the webhooks of operators do.
    fn deny_evictions(&self, world: &World<'_>) {
        let goes = matches!(self.expect, Expect::Goes);
        match self.objects[0]["kind"].as_str() {
            Some("VirtualMachineInstance") if !goes => {
                stub::kubevirt::deny(world, matches!(self.expect, Expect::Lifts(_)));
            }
            Some("Kafka") if self.denies => stub::strimzi::deny(world),
            _ => {}
        }
    }

    /// The operator, the disruption controller and the kubelets at work: without end, or for
    /// [`STEPS`] after the cordon.
    async fn operate(&self, world: &World<'_>, ends: bool) {
        let mut ticks = tokio::time::interval(Duration::from_millis(300));
        let mut steps = 0;
        while steps < STEPS {
            ticks.tick().await;
            if ends && world.is_cordoned(&format!("{}-a", world.ns.name)).await {
                steps += 1;
            }
            match self.objects[0]["kind"].as_str().unwrap() {
                "Cluster" => stub::cnpg::step(world).await,
                "Kafka" => stub::strimzi::step(world, self.denies).await,
                "VirtualMachineInstance" => stub::kubevirt::step(world).await,
                "CephCluster" => stub::rook::step(world).await,
                _ => stub::longhorn::step(world).await,
            }
            world.start_pods().await;
            world.count_budgets().await;
        }
    }
}

/// Creates the nodes of a namespace.
pub(super) async fn create_nodes(ns: &TestNamespace, cordoned: &[&str]) {
    for node in ["a", "b", "c"] {
        let fixture = NodeFixture::new(&format!("{}-{node}", ns.name));
        let unschedulable = cordoned.contains(&node);
        let fixture = fixture.patch(json!({"spec": {"unschedulable": unschedulable}}));
        fixture.create(ns.client()).await.unwrap();
    }
}

/// Creates the objects; the name of the first pod.
pub(super) async fn set_up(ns: &TestNamespace, objects: &[Value]) -> String {
    let mut uids = BTreeMap::new();
    let mut guarded = None;
    for object in objects {
        let object = fill(&object.to_string(), &ns.name, &uids);
        let object: Value = serde_json::from_str(&object).unwrap();
        let kind = object["kind"].as_str().unwrap();
        let types = kube::core::GroupVersionKind::try_from(kube::api::TypeMeta {
            api_version: object["apiVersion"].as_str().unwrap().to_owned(),
            kind: kind.to_owned(),
        });
        let resource = ApiResource::from_gvk(&types.unwrap());
        let api: Api<DynamicObject> =
            Api::namespaced_with(ns.client().clone(), &ns.name, &resource);
        let created = create(&api, &object).await;
        let name = created.metadata.name.unwrap();
        uids.insert(name.clone(), created.metadata.uid.unwrap());
        if kind == "Pod" {
            guarded.get_or_insert_with(|| name.clone());
        }
        if object["status"].is_object() && kind != "VirtualMachineInstance" {
            let status = Patch::Merge(json!({"status": object["status"]}));
            let params = PatchParams::default();
            api.patch_status(&name, &params, &status).await.unwrap();
        }
    }
    guarded.unwrap()
}

fn fill(text: &str, ns: &str, uids: &BTreeMap<String, String>) -> String {
    let mut text = text.replace("$ns", ns);
    for node in ["a", "b", "c"] {
        text = text.replace(&format!("${node}$"), &format!("{ns}-{node}"));
    }
    for (name, uid) in uids {
        text = text.replace(&format!("$uid:{name}$"), uid);
    }
    text
}

/// The controller of a pod.
pub(super) fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    let uid = format!("$uid:{name}$");
    json!([{
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
    }])
}

/// A pod that runs on a node; `ready`: and is Ready.
pub(super) fn pod(name: &str, node: &str, labels: &Value, owners: &Value, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
        "spec": {
            "nodeName": format!("${node}$"), "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "example.com/main"}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    })
}

/// A budget that allows nothing now.
pub(super) fn exhausted(name: &str, labels: &Value, mut spec: Value, healthy: i32) -> Value {
    spec["selector"] = json!({"matchLabels": labels});
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": spec,
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": healthy,
            "desiredHealthy": healthy, "expectedPods": healthy,
            "conditions": [{
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}
