use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::fixtures::{budget, owner, pod, workload};
use crate::{
    Action, Consent, DrainPlan, InventoryContext, MissingFlag, PlanOptions, PodPolicy, PodVerdict,
    inspect, inventory,
};
use nodelife_core::disruption::Budgets;
use nodelife_core::object::{Budget, EmptyDir, Volume, WorkloadKind};
use nodelife_core::operator::OperatorObjects;
use nodelife_core::workload::Workloads;

/// The inputs of a plan: pods on the drained nodes `a` and `b` and on `c`, and settings.
#[derive(Clone, Debug)]
struct Scene {
    pods: Vec<Pod>,
    budgets: Vec<Budget>,
    policy: PodPolicy,
    eviction: EvictionSettings,
    nodes: Vec<Str>,
    made: u32,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self {
            pods: Vec::new(),
            budgets: Vec::new(),
            policy: PodPolicy {
                consent: Consent {
                    force: true,
                    delete_emptydir_data: true,
                    ..Consent::default()
                },
                ..PodPolicy::default()
            },
            eviction: EvictionSettings::default(),
            nodes: vec!["a".into(), "b".into()],
            made: 0,
        };
        for (app, nodes) in [("web", "abc"), ("api", "ab"), ("db", "bc"), ("log", "c")] {
            for node in nodes.chars() {
                scene.start(app, &node.to_string());
            }
        }
        let mut bare = pod("bare", "a");
        bare.metadata.owner_references.clear();
        scene.pods.push(bare);
        scene
    }

    /// Starts a pod of Deployment `app`, as its ReplicaSet does.
    fn start(&mut self, app: &str, node: &str) {
        self.made += 1;
        let made = self.made;
        let mut pod = pod(&format!("{app}-{made}"), node);
        pod.metadata.labels = [("app", app), ("pod-template-hash", "5d4f")]
            .map(|(key, value)| (key.into(), value.into()))
            .into_iter()
            .collect::<BTreeMap<_, _>>()
            .into();
        let set = format!("{app}-5d4f");
        pod.metadata.owner_references = vec![owner("apps/v1", "ReplicaSet", &set)].into();
        self.pods.push(pod);
    }

    fn workloads() -> Workloads {
        let mut workloads = Workloads::default();
        let sets = ["web", "api", "db", "log", "new"]
            .map(|app| workload(WorkloadKind::ReplicaSet, &format!("{app}-5d4f"), 3));
        workloads.add_listed([WorkloadKind::ReplicaSet], sets);
        workloads
    }

    fn plan(&self) -> DrainPlan {
        let budgets = Budgets::of(self.budgets.iter().cloned());
        let context = InventoryContext {
            budgets: &budgets,
            workloads: &Self::workloads(),
            operators: &OperatorObjects::default(),
            essential: &std::collections::BTreeMap::new(),
            pods: &self.pods.iter().collect::<Vec<_>>(),
            controlled: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let drained = |pod: &&Pod| self.nodes.contains(&pod.spec.node_name);
        let pods = self.pods.iter().filter(drained);
        let items = inventory(pods, &self.policy, context);
        let options = PlanOptions {
            eviction: self.eviction.clone(),
            by_priority: false,
            concurrency: 1,
            exclusion: SignedDuration::ZERO,
            now: Timestamp::UNIX_EPOCH,
        };
        DrainPlan::new(self.nodes.clone(), &items, &budgets, None, &options, None).with_digest()
    }

    /// A change that an approval does not see.
    fn change_what_does_not_matter(&mut self, random: &mut impl FnMut(usize) -> usize) {
        let which = random(self.pods.len());
        let kind = random(9);
        let made = self.made;
        let pod = &mut self.pods[which];
        let meta = &mut pod.metadata;
        match kind {
            0 => meta.resource_version = Str::from(format!("{}", 2 + made)),
            1 => {
                let labels = &mut meta.labels;
                labels.insert("team".into(), Str::from(made.to_string()));
            }
            2 => {
                let annotations = &mut meta.annotations;
                annotations.insert("seen".into(), Str::from(made.to_string()));
            }
            3 => pod.status.conditions.clear(),
            4 => {
                // Its controller replaces it on the same node, by a rollout.
                if meta.owner_references.is_empty() {
                    return;
                }
                self.made += 1;
                meta.name = Str::from(format!("again-{made}"));
                meta.uid = Str::from(format!("u-again-{made}"));
            }
            5 => self.pods.rotate_left(which),
            6 => self.nodes.reverse(),
            7 => {
                // Another pod of a workload that leaves anyhow, or one elsewhere.
                let (app, node) =
                    [("web", "b"), ("api", "a"), ("log", "c"), ("new", "c")][random(4)];
                self.start(app, node);
            }
            _ => {
                let budget = budget(&format!("pdb-{made}"), 1, 3, 2);
                self.budgets = vec![budget];
            }
        }
    }

    /// A change by which the drain would do more than was approved.
    fn change_what_matters(&mut self, random: &mut impl FnMut(usize) -> usize) {
        let on_a = |pod: &&mut Pod| pod.spec.node_name == "a";
        match random(8) {
            0 => self.start("new", "a"),
            1 => self.start("log", "b"),
            2 => {
                let mut bare = pod("bare", "a");
                bare.metadata.owner_references.clear();
                bare.metadata.uid = "u-other".into();
                self.pods.retain(|pod| pod.metadata.name != "bare");
                self.pods.push(bare);
            }
            3 => {
                let pod = self.pods.iter_mut().find(on_a).unwrap();
                pod.spec.volumes.push(Volume {
                    empty_dir: Some(EmptyDir::default()),
                    ..Volume::default()
                });
            }
            4 => {
                let pod = self.pods.iter_mut().find(on_a).unwrap();
                let annotations = &mut pod.metadata.annotations;
                annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
            }
            5 => self.nodes.push("c".into()),
            6 => self.eviction.grace_period_seconds = Some(1),
            _ => self.eviction.disable_eviction = true,
        }
    }
}

fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |end| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let high = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % end
    }
}

#[test]
fn changes_that_do_not_matter_keep_the_digest() {
    for seed in 0..500 {
        let mut random = random(seed);
        let mut scene = Scene::new();
        let approved = scene.plan();
        for _ in 0..=random(20) {
            scene.change_what_does_not_matter(&mut random);
        }
        let plan = scene.plan();
        let beyond = plan.scope().beyond(&approved.scope());
        assert_eq!(beyond, Vec::<String>::new(), "seed {seed}");
        assert_eq!(plan.digest, approved.digest, "seed {seed}");
    }
}

#[test]
fn a_change_that_matters_is_named_and_changes_the_digest() {
    for seed in 0..500 {
        let mut random = random(seed);
        let mut scene = Scene::new();
        let approved = scene.plan();
        for _ in 0..=random(20) {
            scene.change_what_does_not_matter(&mut random);
        }
        scene.change_what_matters(&mut random);
        let plan = scene.plan();
        assert_ne!(
            plan.scope().beyond(&approved.scope()),
            [""; 0],
            "seed {seed}"
        );
        assert_ne!(plan.digest, approved.digest, "seed {seed}");
    }
}

#[test]
fn under_an_approval_no_pod_beyond_it_is_removed() {
    for seed in 0..500 {
        let mut random = random(seed);
        let mut scene = Scene::new();
        let approved = Arc::new(scene.plan().scope());
        for _ in 0..=random(20) {
            scene.change_what_does_not_matter(&mut random);
        }
        let covered = scene.plan();
        scene.policy.consent.approved = Some(approved.clone());
        assert_eq!(scene.plan(), covered, "seed {seed}");
        let (eviction, nodes) = (scene.eviction.clone(), scene.nodes.clone());
        scene.change_what_matters(&mut random);
        // The settings are those of the approval.
        (scene.eviction, scene.nodes) = (eviction, nodes);
        let plan = scene.plan();
        assert_eq!(plan.scope().beyond(&approved), [""; 0], "seed {seed}");
        let refused = plan.with(Action::Refuse);
        assert!(refused.into_iter().all(|pod| !pod.removed));
    }
}

#[test]
fn a_plan_that_removes_less_is_covered() {
    let mut scene = Scene::new();
    let approved = scene.plan();
    scene.pods.retain(|pod| pod.metadata.name != "bare");
    scene.nodes.pop();
    let plan = scene.plan();
    assert_eq!(plan.scope().beyond(&approved.scope()), [""; 0]);
    assert_ne!(plan.digest, approved.digest);
}

#[test]
fn the_lines_name_what_is_new() {
    let mut scene = Scene::new();
    let approved = scene.plan();
    scene.start("new", "a");
    scene.nodes.push("c".into());
    scene.eviction.grace_period_seconds = Some(5);
    scene.pods.retain(|pod| pod.metadata.name != "bare");
    let mut bare = pod("bare", "a");
    bare.metadata.owner_references.clear();
    bare.metadata.uid = "u-other".into();
    scene.pods.push(bare);
    assert_eq!(
        scene.plan().scope().beyond(&approved.scope()),
        [
            "node/c is not drained by the approved plan",
            "gracePeriodSeconds is 5; in the approved plan: not set",
            "default/Deployment/log is not removed by the approved plan",
            "default/Deployment/new is not removed by the approved plan",
            "default/Pod/bare is not removed by the approved plan",
        ]
    );
}

#[test]
fn entries_make_the_scope_again() {
    let scene = Scene::new();
    let scope = scene.plan().scope();
    let entries: Vec<String> = scope.entries().collect();
    assert_eq!(
        entries,
        [
            "default/Deployment/api",
            "default/Deployment/db",
            "default/Deployment/web",
            "default/Pod/bare@u-bare noController",
        ]
    );
    let again = PlanScope::new(scene.nodes.clone(), scene.eviction.clone())
        .with_entries(entries.iter().map(String::as_str));
    assert_eq!(again, scope);
    assert_eq!(again.digest(), scope.digest());
}

#[test]
fn a_saved_plan_has_the_same_scope_unless_it_was_changed() {
    let plan = Scene::new().plan();
    let mut document = serde_json::to_value(&plan).unwrap();
    let read = |document: &serde_json::Value| {
        let saved: SavedPlan = serde_json::from_value(document.clone()).unwrap();
        saved.scope()
    };
    assert_eq!(read(&document), Ok(plan.scope()));
    document["nodes"] = serde_json::json!(["a", "b", "c"]);
    assert!(read(&document).unwrap_err().contains("it was changed"));
    document["kind"] = "DrainReport".into();
    assert!(read(&document).unwrap_err().contains("not a DrainPlan"));
}

#[test]
fn workloads_are_named_as_kubectl_names_them() {
    let mut member = pod("pg-1", "a");
    let of = |reference| vec![reference].into();
    member.metadata.owner_references = of(owner("postgresql.cnpg.io/v1", "Cluster", "pg"));
    assert_eq!(workload_of(&member), "Cluster.postgresql.cnpg.io/pg");
    member.metadata.owner_references = of(owner("apps/v1", "StatefulSet", "db"));
    assert_eq!(workload_of(&member), "StatefulSet/db");
    member.metadata.owner_references = of(owner("apps/v1", "ReplicaSet", "web-77"));
    assert_eq!(workload_of(&member), "ReplicaSet/web-77");
    member
        .metadata
        .labels
        .insert("pod-template-hash".into(), "77".into());
    assert_eq!(workload_of(&member), "Deployment/web");
}

#[test]
fn a_pod_that_came_later_is_refused_with_the_reason() {
    let mut scene = Scene::new();
    scene.policy.consent.approved = Some(Arc::new(scene.plan().scope()));
    scene.start("new", "a");
    let context = InventoryContext {
        budgets: &Budgets::default(),
        workloads: &Scene::workloads(),
        operators: &OperatorObjects::default(),
        essential: &std::collections::BTreeMap::new(),
        pods: &[],
        controlled: None,
        now: Timestamp::UNIX_EPOCH,
    };
    let late = inspect(scene.pods.last().unwrap(), &scene.policy, context);
    assert_eq!(
        late.verdict,
        PodVerdict::Refuse(vec![MissingFlag::NotPlanned], None)
    );
}

/// Whoever makes a pod writes its owner: as a line of the digest's text, it once stood for a workload of
/// another team.
#[test]
fn an_owners_name_stands_for_nothing_else() {
    // `first`: the number in the UID of the first pod.
    let scope = |first: u64, pods: &[(&str, &str, &str)]| {
        let mut scope = PlanScope::new(["n".into()], EvictionSettings::default());
        for (number, (namespace, kind, name)) in (first..).zip(pods) {
            let mut one = pod("p", "n");
            one.metadata.owner_references = vec![owner("v1", kind, name)].into();
            let uid = format!("u{number}");
            scope.add((namespace, &workload_of(&one), &uid), []);
        }
        scope
    };
    let hostile = scope(0, &[("default", "A", "b\nremove secret/Deployment/vault")]);
    let real = scope(
        0,
        &[("default", "A", "b"), ("secret", "Deployment", "vault")],
    );
    assert_ne!(hostile.digest(), real.digest());
    assert_eq!(hostile.entries().collect::<Vec<_>>(), ["default/Pod/p@u0"]);

    let pieces = [
        "a", "b", "web", "x1", "\n", "remove ", " ", "emptyDir", ",", "/", "@u0", "Pod", "\"],[\"",
        "\u{202e}", "%",
    ];
    let mut known: BTreeMap<String, PlanScope> = BTreeMap::new();
    for seed in 0..2000 {
        let mut random = random(seed);
        let mut text = || {
            let count = 1 + random(4);
            (0..count)
                .map(|_| pieces[random(pieces.len())])
                .collect::<String>()
        };
        let [kind, name, other, last] = std::array::from_fn(|_| text());
        let scope = scope(2 * seed, &[("d", &kind, &name), ("e", &other, &last)]);
        for entry in scope.entries() {
            let is_plain = |c: char| c.is_ascii_graphic();
            assert!(entry.chars().all(is_plain), "seed {seed}: {entry:?}");
        }
        let same = known.entry(scope.digest()).or_insert_with(|| scope.clone());
        assert_eq!(*same, scope, "seed {seed}");
    }
    assert!(known.len() >= 1000, "{}", known.len());
}
