//! Kills of the leader, restarts of the API server, and partitions between the two, at random points
//! of maintenances: a replica goes on, evicts no pod twice, breaks no budget and leaves nothing behind.
//!
//! `NODELIFE_KILLS=100` has a hundred of them, `NODELIFE_SEED` selects others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use nodelife_tests::fixture::{BudgetFixture, NodeFixture, WorkloadFixture};
use nodelife_tests::proxy::{Fault, FaultRule, Gate};
use nodelife_tests::{AuditEvent, Part, TIMEOUT, TestNamespace};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::objects::Objects;
use super::replica::{Replica, audited_plane};
use super::support::Scene;
use crate::drain::support::history::History;
use nodelife_tests::seed;

/// How many one control plane gets; others get theirs at the same time.
const PER_LANE: usize = 25;

/// Within this time a drain goes on (docs/controller.md).
const GOES_ON_WITHIN: SignedDuration = SignedDuration::from_secs(20);

const NODES: [[&str; 2]; 2] = [["a", "b"], ["c", "d"]];
const PODS: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    KillsLeader,
    RestartsApiServer,
    PartitionsLeader,
}

/// What strikes, and when.
#[derive(Clone, Debug)]
struct Strike {
    kind: Kind,
    /// After which write of the maintenance, in thousandths of the writes of an undisturbed one.
    after: usize,
    /// And how long after that.
    later: Duration,
    /// How long a partition lasts: shorter than a term may go on without the API server, or longer.
    lasts: Duration,
    concurrency: u16,
}

fn strikes(count: usize) -> Vec<Strike> {
    let milliseconds = |most: u64| (0..most).prop_map(Duration::from_millis);
    let strike = (
        0..1000_usize,
        milliseconds(300),
        milliseconds(25_000),
        1..=2_u16,
    );
    let drawn = seed::draw(count, &strike).into_iter().enumerate();
    let kinds = [
        Kind::KillsLeader,
        Kind::PartitionsLeader,
        Kind::RestartsApiServer,
    ];
    let strikes = drawn.map(|(number, (after, later, lasts, concurrency))| Strike {
        kind: kinds[number % kinds.len()],
        after,
        later,
        lasts,
        concurrency,
    });
    strikes.collect()
}

/// What a strike did.
struct Struck {
    strike: Strike,
    /// The replica that led.
    leader: &'static str,
    at: Timestamp,
    /// From when on requests of that replica, or of all, could come through again.
    healed: Timestamp,
    /// When the object was gone.
    over: Timestamp,
}

impl Struck {
    /// How long nothing was written to drain or to give back; none if nothing was left to do.
    fn gap(&self, events: &[AuditEvent]) -> Option<SignedDuration> {
        let goes_on = |event: &&AuditEvent| {
            let received = event.received.unwrap();
            let comes_through = match self.strike.kind {
                // What it had sent before may still come in.
                Kind::PartitionsLeader => event.username() != self.leader || received > self.healed,
                Kind::KillsLeader | Kind::RestartsApiServer => true,
            };
            comes_through && self.at < received && received < self.over && is_work(event)
        };
        let first = events.iter().find(goes_on)?.received.unwrap();
        // While there is no API server nobody can go on.
        let since = match self.strike.kind {
            Kind::RestartsApiServer => self.healed,
            Kind::KillsLeader | Kind::PartitionsLeader => self.at,
        };
        Some(first.duration_since(since).max(SignedDuration::ZERO))
    }
}

/// Whether the API server did something for a replica that has to do with a maintenance.
fn is_work(event: &AuditEvent) -> bool {
    let resource = event.object_ref.as_ref().map(|object| &*object.resource);
    let worked = matches!(resource, Some("nodes" | "pods" | "nodemaintenances"));
    let writes = !matches!(&*event.verb, "get" | "list" | "watch");
    worked && writes && is_of_replica(event) && event.code() / 100 == 2
}

fn is_of_replica(event: &AuditEvent) -> bool {
    event.username().starts_with("replica-")
}

#[tokio::test]
async fn another_goes_on_wherever_the_leader_or_the_api_server_ends() {
    // One of each kind, and each takes about 20 s.
    let strikes = strikes(seed::number("NODELIFE_KILLS", 3, 6));
    let lanes = strikes.chunks(PER_LANE).map(lane);
    let mut gaps: BTreeMap<Kind, Vec<Option<SignedDuration>>> = BTreeMap::new();
    for (kind, gap) in join_all(lanes).await.into_iter().flatten() {
        gaps.entry(kind).or_default().push(gap);
    }
    for (kind, gaps) in gaps {
        let mut known: Vec<f32> = gaps
            .iter()
            .flatten()
            .map(SignedDuration::as_secs_f32)
            .collect();
        known.sort_by(f32::total_cmp);
        let at = |share: usize| {
            known.get((known.len() * share / 100).min(known.len().saturating_sub(1)))
        };
        println!(
            "{kind:?}: {} of {} were to go on, after {:.1?} s (half of them), {:.1?} s (9 of 10), \
             {:.1?} s (the last)",
            known.len(),
            gaps.len(),
            at(50),
            at(90),
            at(100),
        );
    }
}

/// Maintenances of two nodes and back, each with a strike, on a control plane of their own.
async fn lane(strikes: &[Strike]) -> Vec<(Kind, Option<SignedDuration>)> {
    let plane = audited_plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "kills").await.unwrap();
    let history = History::of(&namespace);
    workload(&scene, &namespace).await;
    let before = traces(&scene, NODES.as_flattened()).await;
    let objects = Objects::new(scene.admin.clone());
    let mut replicas = ["replica-one", "replica-two"].map(|name| Replica::start(&plane, name));
    let links = replicas.each_ref().map(|replica| {
        let link = Gate::opened();
        let rule = FaultRule::new(Fault::Link(link.clone()));
        replica.proxy.fault(rule);
        link
    });

    carry_out(&objects, "calm", NODES[0], 1).await;
    let calm: usize = replicas.iter().map(Replica::writes).sum();
    let mut all = Vec::new();
    for (number, strike) in strikes.iter().enumerate() {
        let name = format!("struck-{number}");
        let nodes = NODES[(number + 1) % 2];
        let begun: usize = replicas.iter().map(Replica::writes).sum();
        let due = begun + 1 + calm * strike.after / 1000;
        let is_over = AtomicBool::new(false);
        let work = async {
            carry_out(&objects, &name, nodes, strike.concurrency).await;
            is_over.store(true, Ordering::Relaxed);
            Timestamp::now()
        };
        let hit = async {
            let wait = async {
                let writes = || replicas.iter().map(Replica::writes).sum::<usize>();
                while writes() < due && !is_over.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(TIMEOUT, wait).await.unwrap();
            tokio::time::sleep(strike.later).await;
            let leader = leader(&scene).await;
            let index = replicas.iter().position(|replica| replica.name == leader);
            let index = index.unwrap();
            let mut at = Timestamp::now();
            match strike.kind {
                Kind::KillsLeader => {
                    replicas[index].kill().await;
                    at = Timestamp::now();
                }
                Kind::RestartsApiServer => {
                    plane.kill(Part::ApiServer).await.unwrap();
                    plane.start(Part::ApiServer).await.unwrap();
                }
                Kind::PartitionsLeader => {
                    links[index].close();
                    tokio::time::sleep(strike.lasts).await;
                    links[index].open();
                }
            }
            (replicas[index].name, at, Timestamp::now())
        };
        let (over, (leader, at, healed)) = tokio::join!(work, hit);
        assert_eq!(
            traces(&scene, NODES.as_flattened()).await,
            before,
            "left by {strike:?}"
        );
        all.push(Struck {
            strike: strike.clone(),
            leader,
            at,
            healed,
            over,
        });
    }
    for replica in replicas {
        replica.terminate().await;
    }
    assert_eq!(traces(&scene, NODES.as_flattened()).await, before);
    let events = plane.audit_events().unwrap();
    let evicted = evicted_once(&events);
    assert!(evicted.len() >= strikes.len() * PODS as usize);
    history.check(&namespace, &evicted).await;
    only_leaders_write(&events);
    let gaps = all.iter().map(|struck| {
        let gap = struck.gap(&events);
        println!("{:?}: {gap:?}", struck.strike);
        assert!(gap <= Some(GOES_ON_WITHIN), "{gap:?}: {:?}", struck.strike);
        (struck.strike.kind, gap)
    });
    gaps.collect()
}

/// Nodes, and all pods of a Deployment with a budget of one on the first two.
async fn workload(scene: &Scene<'_>, namespace: &TestNamespace) {
    for name in NODES.as_flattened() {
        let node = NodeFixture::kwok(name).create(&scene.admin);
        node.await.unwrap();
    }
    for name in NODES[1] {
        scene.cordon(name, true).await;
    }
    let web = WorkloadFixture::deployment("web", PODS);
    web.create_ready(namespace, PODS as usize).await.unwrap();
    let budget = BudgetFixture::max_unavailable("web", "web", json!(1));
    let healthy = i32::try_from(PODS).unwrap();
    budget.create_counted(namespace, healthy).await.unwrap();
    for name in NODES[1] {
        scene.cordon(name, false).await;
    }
}

/// A whole maintenance: its drain, and the end of the object.
async fn carry_out(objects: &Objects, name: &str, nodes: [&str; 2], concurrency: u16) {
    let drain = json!({"concurrency": concurrency, "nodeConditions": true});
    let spec = json!({"nodes": nodes, "drain": drain});
    objects.create(name, spec).await;
    let status = objects.finished(name).await;
    assert_eq!(status["exitStatus"], 0, "{status:#}");
    assert_eq!(status["progress"], "2/2", "{status:#}");
    objects.cancel(name).await;
}

/// The replica that holds the Lease.
pub(super) async fn leader(scene: &Scene<'_>) -> String {
    let leases: Api<Lease> = Api::namespaced(scene.admin.clone(), "default");
    let lease = leases.get("nodelife-controller").await.unwrap();
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap();
    holder.split('_').next().unwrap_or_default().to_owned()
}

/// All of the nodes that a drain may write.
pub(super) async fn traces(scene: &Scene<'_>, names: &[&str]) -> Vec<Value> {
    let mut all = Vec::new();
    for name in names {
        let nodes: Api<Node> = Api::all(scene.admin.clone());
        let node = nodes.get(name).await.unwrap();
        let conditions = node.status.and_then(|status| status.conditions);
        let kinds = conditions.into_iter().flatten().map(|one| one.type_);
        let mut spec = node.spec.unwrap_or_default();
        // The controller-manager takes these off in its own time, of a new node as well.
        let of_kubernetes =
            ["unschedulable", "not-ready"].map(|one| format!("node.kubernetes.io/{one}"));
        let taints = spec.taints.iter_mut();
        taints.for_each(|all| all.retain(|one| !of_kubernetes.contains(&one.key)));
        spec.taints = spec.taints.filter(|taints| !taints.is_empty());
        let (mut labels, annotations) = (node.metadata.labels, node.metadata.annotations);
        // So does it put these on.
        let labels_kept = |key: &String| !key.starts_with("beta.kubernetes.io/");
        if let Some(labels) = &mut labels {
            labels.retain(|key, _| labels_kept(key));
        }
        all.push(json!({
            "name": name, "spec": spec, "labels": labels, "annotations": annotations,
            "conditions": kinds.collect::<Vec<_>>(),
        }));
    }
    all
}

/// The pods that were evicted, by UID, and none of them twice.
pub(super) fn evicted_once(events: &[AuditEvent]) -> BTreeSet<String> {
    let mut evicted = BTreeSet::new();
    for event in events {
        let deletes = event.is("delete", "pods") && is_of_replica(event);
        assert!(!deletes, "a pod was deleted: {event:?}");
        if !event.is("create", "pods/eviction") || event.code() / 100 != 2 {
            continue;
        }
        let body = event.request_object.as_ref().unwrap();
        let uid = body["deleteOptions"]["preconditions"]["uid"].as_str();
        let uid = uid.unwrap().to_owned();
        assert!(evicted.insert(uid), "evicted twice: {event:?}");
    }
    evicted
}

/// What a replica changes, it changes while it holds the Lease, which its holder alone can write.
pub(super) fn only_leaders_write(events: &[AuditEvent]) {
    let mut holder = None;
    for event in events.iter().filter(|event| is_of_replica(event)) {
        let resource = event.object_ref.as_ref().map(|object| &*object.resource);
        let writes = !matches!(&*event.verb, "get" | "list" | "watch");
        if resource == Some("leases") && writes && event.code() / 100 == 2 {
            holder = Some(event.username());
        }
        if is_work(event) {
            assert_eq!(Some(event.username()), holder, "{event:?}");
        }
    }
}
