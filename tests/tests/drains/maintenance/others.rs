//! What others do to the nodes, the workload and the rights of maintenances at random moments: each object ends
//! as its spec says, tells what it waits for, and never waits for another's trouble.
//!
//! `NODELIFE_CASES=100` disturbs a hundred times, `NODELIFE_SEED` selects others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::{Identity, TIMEOUT, TestNamespace, seed, wait_until};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::kills::evicted_once;
use super::objects::Objects;
use super::replica::{Replica, audited_plane};
use super::support::Scene;
use crate::drain::support::history::History;

/// How many disturbances one control plane gets; others get theirs at the same time.
const PER_LANE: usize = 50;
/// In a round that many maintenances are disturbed that often, together.
const OBJECTS: usize = 5;
const PER_ROUND: usize = 10;
const PODS: u32 = 6;

/// The denial of the policy of [`Act::DeniesNode`].
const FROZEN: &str = "frozen by its owner";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Uncordons,
    /// Another machine gets the node's name.
    Replaces,
    /// Nobody may write the node for a while.
    DeniesNode,
    /// The controller may not evict for a while.
    TakesRight,
    Scales,
    /// Another maintenance of two nodes, with a percentage.
    Percentage,
    /// One of the nodes comes later.
    Missing,
}

impl Act {
    /// Whether a node may stay undrained by it.
    fn may_keep(self) -> bool {
        matches!(self, Self::Uncordons | Self::Replaces | Self::DeniesNode)
    }
}

#[derive(Clone, Debug)]
struct Disturbance {
    act: Act,
    object: usize,
    /// After how many milliseconds.
    after: u16,
}

fn rounds(count: usize) -> Vec<Vec<Disturbance>> {
    let act = prop_oneof![
        Just(Act::Uncordons),
        Just(Act::Replaces),
        Just(Act::DeniesNode),
        Just(Act::TakesRight),
        Just(Act::Scales),
        Just(Act::Percentage),
        Just(Act::Missing),
    ];
    // The first object is never disturbed itself.
    let disturbance = (act, 1..OBJECTS, 0..8000_u16);
    let disturbance =
        disturbance.prop_map(|(act, object, after)| Disturbance { act, object, after });
    let round = proptest::collection::vec(disturbance, PER_ROUND);
    seed::draw(count.div_ceil(PER_ROUND), &round)
}

#[tokio::test]
async fn others_disturb_only_what_they_touch() {
    let rounds = rounds(seed::number("NODELIFE_CASES", PER_ROUND, 10));
    join_all(rounds.chunks(PER_LANE / PER_ROUND).map(lane)).await;
    println!("{} rounds of {PER_ROUND} disturbances", rounds.len());
}

fn node_names(object: usize) -> [String; 2] {
    ["a", "b"].map(|node| format!("m{object}-{node}"))
}

async fn lane(rounds: &[Vec<Disturbance>]) {
    let plane = audited_plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "others").await.unwrap();
    let history = History::of(&namespace);
    let names: Vec<String> = (0..OBJECTS).flat_map(node_names).collect();
    for name in names.iter().map(String::as_str).chain(["p1", "p2"]) {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let web = WorkloadFixture::deployment("web", PODS);
    web.create_ready(&namespace, PODS as usize).await.unwrap();
    let budget = BudgetFixture::max_unavailable("web", "web", json!(1));
    let healthy = i32::try_from(PODS).unwrap();
    budget.create_counted(&namespace, healthy).await.unwrap();
    grant(&scene).await;
    let user = Identity::User {
        name: "replica-one".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    };
    let replica = Replica::start_as(&plane, "replica-one", &user, ("nodelife-controller", &[]));
    for (number, round) in rounds.iter().enumerate() {
        let is_over = AtomicBool::new(false);
        let work = async {
            let all = (0..OBJECTS).map(|object| carry_out(&scene, number, object, round));
            join_all(all).await;
            is_over.store(true, Ordering::Relaxed);
        };
        let others = round.iter().map(async |disturbance| {
            let after = Duration::from_millis(disturbance.after.into());
            tokio::time::sleep(after).await;
            disturb(&scene, &namespace, number, disturbance).await;
        });
        tokio::join!(work, join_all(others));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        scene.nothing_is_left(&names).await;
        println!("round {number} holds");
    }
    replica.terminate().await;
    let events = plane.audit_events().unwrap();
    history.check(&namespace, &evicted_once(&events)).await;
}

/// A maintenance to its end, and back.
async fn carry_out(scene: &Scene<'_>, round: usize, object: usize, all: &[Disturbance]) {
    let objects = Objects::new(scene.admin.clone());
    let name = format!("m{object}-{round}");
    let own: Vec<Act> = all
        .iter()
        .filter(|one| one.object == object)
        .map(|one| one.act)
        .collect();
    let mut nodes = node_names(object).to_vec();
    if own.contains(&Act::Missing) {
        nodes.push(late(object, round));
    }
    objects
        .create(&name, json!({"nodes": nodes, "drain": {"concurrency": 1}}))
        .await;
    let mut waits: BTreeSet<(String, String)> = BTreeSet::new();
    let what = format!("the end of {name}");
    let ended = wait_until(&what, TIMEOUT * 3, async || {
        let status = objects.status(&name).await?;
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let blocked = conditions.find(|one| one["type"] == "Blocked" && one["status"] == "True");
        let text = |field: &str| blocked.and_then(|one| Some(one[field].as_str()?.to_owned()));
        waits.extend(text("reason").zip(text("message")));
        anyhow::ensure!(status["finishedAt"].is_string(), "{own:?}: {status:#}");
        Ok(Some(status))
    });
    let ended = ended.await.unwrap();
    let is_right_taken = all.iter().any(|one| one.act == Act::TakesRight);
    for (reason, message) in &waits {
        let told = format!("{name}, {own:?}: {reason}: {message}");
        let others = (0..OBJECTS).filter(|other| *other != object);
        for other in others.flat_map(node_names) {
            assert!(!message.contains(&other), "another's node: {told}");
        }
        let is_explained = match reason.as_str() {
            // All share one budget.
            "PodsBlocked" => true,
            "NodeNotFound" => own.contains(&Act::Missing) || own.contains(&Act::Replaces),
            _ => own.iter().any(|act| act.may_keep()) || is_right_taken,
        };
        assert!(is_explained, "{told}");
    }
    if ended["exitStatus"] != 0 {
        let told = format!("{name}, {own:?}: {ended:#}");
        let mut conditions = ended["conditions"].as_array().into_iter().flatten();
        let drained = conditions.find(|one| one["type"] == "Drained");
        let text = drained.unwrap()["message"].as_str().unwrap_or_default();
        assert!(!text.contains(": drained"), "a wrong cause: {told}");
        assert!(own.iter().any(|act| act.may_keep()), "{told}");
        let nodes = ended["nodes"].as_array().unwrap();
        for node in nodes.iter().filter(|node| node["state"] != "Drained") {
            let why = node["message"].as_str().unwrap_or_default();
            let causes = ["uncordon", "re-created", "deleted", FROZEN];
            assert!(causes.iter().any(|cause| why.contains(cause)), "{told}");
        }
    }
    println!("{name}: {own:?}: {}, {waits:?}", ended["exitStatus"]);
    objects.cancel(&name).await;
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    let _ = nodes
        .delete(&late(object, round), &DeleteParams::default())
        .await;
}

/// The node of [`Act::Missing`].
fn late(object: usize, round: usize) -> String {
    format!("m{object}-late-{round}")
}

async fn disturb(
    scene: &Scene<'_>,
    namespace: &TestNamespace,
    round: usize,
    disturbance: &Disturbance,
) {
    let object = disturbance.object;
    let [first, second] = node_names(object);
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    match disturbance.act {
        Act::Uncordons => scene.cordon(&first, false).await,
        Act::Replaces => {
            let _ = nodes.delete(&first, &DeleteParams::default()).await;
            let again = wait_until("the node again", TIMEOUT, async || {
                let made = NodeFixture::kwok(&first).create(&scene.admin).await;
                Ok(made.ok())
            });
            again.await.unwrap();
        }
        Act::DeniesNode => {
            let name = format!("frozen-{round}-{object}-{}", disturbance.after);
            for one in frozen(&name, &second) {
                scene.kubectl.apply(&one.to_string()).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
            for kind in [
                "validatingadmissionpolicybinding",
                "validatingadmissionpolicy",
            ] {
                let gone = scene.kubectl.run(["delete", kind, name.as_str()]).await;
                gone.unwrap().success().unwrap();
            }
        }
        Act::TakesRight => {
            let binding = [
                "delete",
                "clusterrolebinding",
                "others-evict",
                "--ignore-not-found",
            ];
            scene.kubectl.run(binding).await.unwrap().success().unwrap();
            tokio::time::sleep(Duration::from_secs(3)).await;
            grant(scene).await;
        }
        Act::Scales => {
            let deployments: Api<Deployment> = namespace.api();
            let replicas = PODS + u32::from(disturbance.after % 4);
            let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            let parameters = PatchParams::default();
            let scaled = deployments.patch("web", &parameters, &scale).await;
            scaled.unwrap();
        }
        Act::Percentage => {
            let objects = Objects::new(scene.admin.clone());
            let name = format!("other-{round}-{object}-{}", disturbance.after);
            let spec = json!({"nodes": ["p1", "p2"], "maxUnavailable": "50%"});
            objects.create(&name, spec).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            objects.cancel(&name).await;
        }
        Act::Missing => {
            // It may be there by another disturbance.
            let fixture = NodeFixture::kwok(&late(object, round));
            let _ = fixture.create(&scene.admin).await;
        }
    }
}

/// A policy under which nobody cordons this node.
fn frozen(name: &str, node: &str) -> [Value; 2] {
    let kind = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                        "resources": ["nodes"], "resourceNames": [node]}]);
    let cordons = "has(object.spec.unschedulable) && !has(oldObject.spec.unschedulable)";
    let policy = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": format!("!({cordons})"), "message": FROZEN}],
    });
    let binding = json!({"policyName": name, "validationActions": ["Deny"]});
    [
        kind("ValidatingAdmissionPolicy", policy),
        kind("ValidatingAdmissionPolicyBinding", binding),
    ]
}

/// All rights for the controller; that to evict by a binding of its own.
async fn grant(scene: &Scene<'_>) {
    let core = [
        "nodes",
        "nodes/status",
        "pods",
        "services",
        "namespaces",
        "events",
        "replicationcontrollers",
        "persistentvolumes",
        "persistentvolumeclaims",
    ];
    let groups = [
        "apps",
        "batch",
        "policy",
        "coordination.k8s.io",
        "events.k8s.io",
        "nodelife.dev",
        "storage.k8s.io",
        "apiextensions.k8s.io",
        "discovery.k8s.io",
        "authorization.k8s.io",
        "admissionregistration.k8s.io",
        "authentication.k8s.io",
        "autoscaling",
    ];
    let all = json!([
        {"apiGroups": [""], "resources": core, "verbs": ["*"]},
        {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]},
    ]);
    let evicts = json!([{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]);
    for (name, rules) in [("others", all), ("others-evict", evicts)] {
        let group = "rbac.authorization.k8s.io";
        let api = format!("{group}/v1");
        let role = json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let binding = json!({
            "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "replica-one"}],
        });
        // Others do the same at this moment.
        for one in [role, binding] {
            let text = one.to_string();
            let applied = wait_until("the right", TIMEOUT, async || {
                scene.kubectl.apply(&text).await.map(Some)
            });
            applied.await.unwrap();
        }
    }
}
