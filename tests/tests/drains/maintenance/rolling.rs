//! Rolling maintenances under all that holds between nodes, while leaders end, are cut off, and the API
//! server is silent: the limit holds at every moment, no node goes before its gate, its soak, its window or
//! its approval, no pod is evicted twice, and nothing is left.
//!
//! `NODELIFE_CASES=200` strikes two hundred times, `NODELIFE_SEED` selects others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Gate};
use nodelife_tests::{TIMEOUT, TestNamespace, seed, wait_until};
use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;

use super::kills::{evicted_once, leader, only_leaders_write, traces};
use super::objects::Objects;
use super::replica::{Replica, audited_plane};
use super::support::Scene;
use crate::drain::support::history::History;

/// How often one control plane is struck; others are at the same time.
const PER_LANE: usize = 50;

/// Each maintenance of a round has one of them.
const GROUPS: [[&str; 3]; 3] = [["a1", "a2", "a3"], ["b1", "b2", "b3"], ["c1", "c2", "c3"]];
const PODS: u32 = 6;

/// How many nodes are out at most, where a round has a limit.
const LIMIT: usize = 2;

const UNAPPROVED: &str = "approved plan";

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting or not")]
struct Case {
    /// Seconds.
    soak: u8,
    is_gated: bool,
    wait_ready: bool,
    wait_volumes: bool,
    /// Seconds until its window opens.
    window: Option<u8>,
    needs_approval: bool,
    /// Its gate never holds, so that it ends after the first node.
    fails: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Terminates,
    Kills,
    /// No replica reaches the API server.
    Silences,
    /// The leader does not reach it, for so many seconds.
    Partitions(u8),
}

#[derive(Clone, Debug)]
struct Round {
    is_limited: bool,
    cases: [Case; 3],
    /// After how many milliseconds.
    strikes: Vec<(u16, Kind)>,
}

fn rounds(strikes: usize) -> Vec<Round> {
    let yes = any::<bool>;
    let case = (
        0..6_u8,
        yes(),
        yes(),
        yes(),
        proptest::option::of(1..6_u8),
        yes(),
        0..4_u8,
    );
    let case = case.prop_map(
        |(soak, is_gated, wait_ready, wait_volumes, window, needs_approval, fails)| Case {
            soak,
            is_gated: is_gated || fails == 0,
            wait_ready,
            wait_volumes,
            window,
            needs_approval,
            fails: fails == 0,
        },
    );
    let kind = prop_oneof![
        Just(Kind::Terminates),
        Just(Kind::Kills),
        Just(Kind::Silences),
        (1..25_u8).prop_map(Kind::Partitions),
    ];
    let cases = [case.clone(), case.clone(), case];
    let round = (
        yes(),
        cases,
        proptest::collection::vec((0..6000_u16, kind), 2),
    );
    let round = round.prop_map(|(is_limited, cases, strikes)| Round {
        is_limited,
        cases,
        strikes,
    });
    seed::draw(strikes.div_ceil(2), &round)
}

/// Every change of `spec.unschedulable`, by the version that the node got with it: etcd counts all writes
/// together.
#[derive(Default)]
struct Cordons {
    changes: BTreeMap<u64, (String, bool, Timestamp)>,
    /// Up to which version it is complete.
    seen: u64,
}

async fn record(nodes: Api<Node>, cordons: Arc<Mutex<Cordons>>) {
    let listed = nodes.list(&ListParams::default()).await.unwrap();
    let mut from = listed.metadata.resource_version.unwrap_or_default();
    let mut is_out: BTreeMap<String, bool> = BTreeMap::new();
    loop {
        let stream = nodes.watch(&WatchParams::default(), &from).await.unwrap();
        let mut stream = stream.boxed();
        while let Ok(Some(event)) = stream.try_next().await {
            let (WatchEvent::Added(node) | WatchEvent::Modified(node)) = event else {
                continue;
            };
            let out = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
            from = node.resource_version().unwrap();
            let version = from.parse().unwrap();
            let mut cordons = cordons.lock().unwrap_or_else(PoisonError::into_inner);
            cordons.seen = version;
            if is_out.insert(node.name_any(), out).unwrap_or_default() != out {
                cordons
                    .changes
                    .insert(version, (node.name_any(), out, Timestamp::now()));
            }
        }
    }
}

#[tokio::test]
async fn what_holds_between_nodes_holds_wherever_a_leader_ends() {
    let rounds = rounds(seed::number("NODELIFE_CASES", 4, 8));
    let lanes = rounds.chunks(PER_LANE / 2).map(lane);
    let strikes: usize = join_all(lanes).await.into_iter().sum();
    println!(
        "{strikes} strikes in {} rounds of three maintenances",
        rounds.len()
    );
}

/// The rounds, on a control plane of their own; how often it was struck.
async fn lane(rounds: &[Round]) -> usize {
    let plane = audited_plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "rolling").await.unwrap();
    let history = History::of(&namespace);
    let names = GROUPS.as_flattened();
    for name in names {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    // Where all nine are out at once, a replacement has nowhere else to go.
    let last = json!({"spec": {"taints": [{"key": "last", "effect": "PreferNoSchedule"}]}});
    let room = NodeFixture::kwok("room").patch(last);
    room.create(&scene.admin).await.unwrap();
    let web = WorkloadFixture::deployment("web", PODS);
    web.create_ready(&namespace, PODS as usize).await.unwrap();
    let budget = BudgetFixture::max_unavailable("web", "web", json!(1));
    let healthy = i32::try_from(PODS).unwrap();
    budget.create_counted(&namespace, healthy).await.unwrap();
    let nodes: Api<Node> = Api::all(scene.admin.clone());
    for name in names {
        set_upgraded(&nodes, name, "False").await;
    }
    let before = traces(&scene, names).await;
    let cordons = Arc::new(Mutex::new(Cordons::default()));
    let mut recorder = JoinSet::new();
    recorder.spawn(record(nodes.clone(), Arc::clone(&cordons)));
    let mut replicas = ["replica-one", "replica-two"].map(|name| Replica::start(&plane, name));
    let links = replicas.each_ref().map(|replica| {
        let link = Gate::opened();
        replica
            .proxy
            .fault(FaultRule::new(Fault::Link(link.clone())));
        link
    });
    let mut strikes = 0;
    for (number, round) in rounds.iter().enumerate() {
        let mut first = u64::MAX;
        for name in names {
            first = set_upgraded(&nodes, name, "False").await;
        }
        let is_over = AtomicBool::new(false);
        let work = async {
            let all = round.cases.iter().zip(GROUPS).map(|(case, group)| {
                let limit = round.is_limited.then_some(LIMIT);
                carry_out(
                    &scene,
                    format!("{}-{number}", &group[0][..1]),
                    case,
                    group,
                    limit,
                )
            });
            let all = join_all(all).await;
            is_over.store(true, Ordering::Relaxed);
            all
        };
        let hit = async {
            for (later, kind) in &round.strikes {
                tokio::time::sleep(Duration::from_millis((*later).into())).await;
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                strike(&scene, &mut replicas, &links, *kind).await;
                strikes += 1;
            }
        };
        let (done, ()) = tokio::join!(work, hit);
        assert_eq!(
            traces(&scene, names).await,
            before,
            "left by round {number}: {round:?}"
        );
        let last = set_upgraded(&nodes, names[0], "False").await;
        wait_until("the record to be complete", TIMEOUT, async || {
            let cordons = cordons.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((cordons.seen >= last).then_some(()))
        })
        .await
        .unwrap();
        let mut cordons = cordons.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = std::mem::take(&mut cordons.changes);
        assert!(
            changes.keys().all(|version| *version > first),
            "{changes:?}"
        );
        check(round, &done, &changes);
        println!("round {number} holds, after {strikes} strikes");
    }
    for replica in replicas {
        replica.terminate().await;
    }
    let events = plane.audit_events().unwrap();
    history.check(&namespace, &evicted_once(&events)).await;
    only_leaders_write(&events);
    strikes
}

async fn strike(scene: &Scene<'_>, replicas: &mut [Replica; 2], links: &[Gate; 2], kind: Kind) {
    let index = wait_until("a leader", TIMEOUT, async || {
        let leader = leader(scene).await;
        Ok(replicas.iter().position(|replica| replica.name == leader))
    })
    .await
    .unwrap();
    match kind {
        Kind::Terminates => replicas[index].restart().await,
        Kind::Kills => replicas[index].kill().await,
        Kind::Silences => {
            links.iter().for_each(Gate::close);
            tokio::time::sleep(Duration::from_secs(15)).await;
            links.iter().for_each(Gate::open);
        }
        Kind::Partitions(seconds) => {
            links[index].close();
            tokio::time::sleep(Duration::from_secs(seconds.into())).await;
            links[index].open();
        }
    }
}

/// What was allowed in a maintenance, and when: versions are those of the write that allowed it.
#[derive(Debug, Default)]
struct Done {
    opens: Option<Timestamp>,
    approved: Option<u64>,
    /// By the node: when its drain ended, and when its gate was passed.
    nodes: BTreeMap<&'static str, (Option<Timestamp>, Option<u64>)>,
}

/// A maintenance to its end, with everybody that it waits for.
async fn carry_out(
    scene: &Scene<'_>,
    name: String,
    case: &Case,
    nodes: [&'static str; 3],
    limit: Option<usize>,
) -> Done {
    let objects = Objects::new(scene.admin.clone());
    let api: Api<Node> = Api::all(scene.admin.clone());
    let opens = case.window.map(|seconds| {
        let at = Timestamp::now() + SignedDuration::from_secs(seconds.into());
        Timestamp::from_second(at.as_second()).unwrap()
    });
    let timeout = if case.fails { "2s" } else { "10m" };
    let gate = json!({"nodeCondition": {"type": "Upgraded", "status": "True"}, "timeout": timeout});
    let mut spec = json!({
        "nodes": nodes,
        "soak": format!("{}s", case.soak),
        "gate": case.is_gated.then_some(gate),
        "window": opens.map(|at| json!({"start": at.to_string()})),
        "approval": if case.needs_approval { "Required" } else { "None" },
        "maxUnavailable": limit.map(|limit| limit.to_string()),
        "drain": {
            "concurrency": 1, "undoOnFailure": true,
            "waitReady": case.wait_ready, "waitVolumes": case.wait_volumes,
        },
    });
    spec.as_object_mut()
        .unwrap()
        .retain(|_, value| !value.is_null());
    objects.create(&name, spec).await;
    let mut done = Done {
        opens,
        ..Done::default()
    };
    let what = format!("the end of {name}");
    let ended = wait_until(&what, TIMEOUT * 3, async || {
        let object = objects.get(&name).await;
        let (spec, status) = (&object["spec"], &object["status"]);
        let digest = &status["plan"]["digest"];
        if case.needs_approval && digest.is_string() && spec["approvedPlan"] != *digest {
            let approval = json!({"approvedPlan": digest});
            let version = objects.patch(&name, &approval).await;
            done.approved.get_or_insert(version);
        }
        for node in nodes {
            let mut all = status["nodes"].as_array().into_iter().flatten();
            let Some(now) = all.find(|one| one["name"] == node) else {
                continue;
            };
            let ended = now["doneAt"].as_str().map(|at| at.parse().unwrap());
            if ended.is_none() || done.nodes.contains_key(node) {
                continue;
            }
            let passed = if case.is_gated && !case.fails {
                Some(set_upgraded(&api, node, "True").await)
            } else {
                None
            };
            // It comes back from its upgrade, and takes no place any more.
            if limit.is_some() && !case.fails {
                scene.cordon(node, false).await;
            }
            done.nodes.insert(node, (ended, passed));
        }
        anyhow::ensure!(status["finishedAt"].is_string(), "{object:#}");
        Ok(Some(status.clone()))
    });
    let ended = ended.await.unwrap();
    // Pods that come to a node from elsewhere are not in a plan that was approved without any.
    let is_approved = !case.needs_approval || !ended.to_string().contains(UNAPPROVED);
    if is_approved {
        let status = i32::from(case.fails);
        assert_eq!(ended["exitStatus"], status, "{name}: {case:?}: {ended:#}");
    }
    objects.cancel(&name).await;
    done
}

/// Sets the condition that the gate asks for; the version that the node got.
async fn set_upgraded(nodes: &Api<Node>, name: &str, status: &str) -> u64 {
    let since = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let patch = Patch::Strategic(json!({"status": {"conditions": [{
        "type": "Upgraded", "status": status, "reason": "Test", "lastTransitionTime": since.to_string(),
    }]}}));
    let parameters = PatchParams::default();
    let patched = nodes.patch_status(name, &parameters, &patch).await;
    patched
        .unwrap()
        .resource_version()
        .unwrap()
        .parse()
        .unwrap()
}

fn check(round: &Round, done: &[Done], changes: &BTreeMap<u64, (String, bool, Timestamp)>) {
    let mut out: Vec<&str> = Vec::new();
    for (node, is_out, _) in changes.values() {
        out.retain(|other| other != node);
        out.extend(is_out.then_some(node.as_str()));
        let most = if round.is_limited { LIMIT } else { usize::MAX };
        assert!(
            out.len() <= most,
            "{out:?} are out: {changes:#?}: {round:?}"
        );
    }
    for ((case, nodes), done) in round.cases.iter().zip(GROUPS).zip(done) {
        let mut begun: Vec<(&str, Timestamp)> = Vec::new();
        let went = changes
            .iter()
            .filter(|(_, (node, is_out, _))| *is_out && nodes.contains(&node.as_str()));
        for (version, (node, _, at)) in went {
            let wrong = format!("{node} at {at} ({version}) of {done:#?}: {changes:#?}: {case:?}");
            assert!(done.opens <= Some(*at), "before its window: {wrong}");
            let may = !case.needs_approval || done.approved.is_some_and(|at| at < *version);
            assert!(may, "before its approval: {wrong}");
            // One whose plan changed is given back, and cordoned again when that plan is approved.
            let before = begun.iter().rfind(|(other, _)| other != node).copied();
            let earlier = before.and_then(|(node, _)| done.nodes.get(node));
            // One that budgets hold up for a minute makes way: it ends later, and its gate is asked then;
            // or not at all, where the gate of the next one fails.
            let makes_way = before.is_some_and(|(_, begun)| {
                let is_open = earlier.is_none_or(|(ended, _)| *ended > Some(*at));
                is_open && *at >= begun + SignedDuration::from_mins(1)
            });
            if makes_way {
                assert!(
                    !case.fails || earlier.is_none(),
                    "beside a gate that failed: {wrong}"
                );
            } else if let Some((ended, passed)) = earlier {
                let soak = SignedDuration::from_secs(case.soak.into());
                // The status has whole seconds.
                let least = ended.unwrap() + soak - SignedDuration::from_secs(1);
                assert!(least <= *at, "within the soak: {wrong}");
                assert!(*passed <= Some(*version), "before the gate: {wrong}");
                assert!(!case.fails, "past a gate that failed: {wrong}");
            } else {
                assert_eq!(before, None, "beside the one before: {wrong}");
            }
            begun.push((node, *at));
        }
    }
}
