//! Random changes between a plan and its approval, and between the approval and the first change to
//! the node: nothing outside of the approved plan is done, and what does not matter does not stop it.
//!
//! `NODELIFE_CHANGES=500` makes five hundred, two for each maintenance; `NODELIFE_SEED` selects others.
//! Left out without the first: one in a hundred of the changes that do not matter may stop it, and of a
//! few none could. The deletion of a Deployment does where a plan is made while its pods are still there
//! and their ReplicaSet is not: they are lost for good then, which was not approved (`controllerGone`).

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use http::Method;
use nodelife_core::object::Pod;
use nodelife_tests::proxy::{Fault, FaultRule, Gate};
use nodelife_tests::real_nodes::leave_out;
use nodelife_tests::{AuditEvent, ControlPlane, TIMEOUT, TestNamespace, wait_until};
use proptest::sample::select;
use serde_json::{Value, json};

use super::changes::{CHANGES, Change, Place};
use super::objects::Objects;
use super::replica::{Replica, audit_policy};
use super::support::Scene;
use crate::drain::support::history::History;
use nodelife_tests::seed;

/// How many maintenances there are at a time.
const SIDE_BY_SIDE: usize = 10;

/// What was approved, and what came of it.
struct Done {
    name: String,
    early: Change,
    late: Change,
    /// Each workload that may lose pods, and what with them.
    approved: BTreeMap<String, BTreeSet<String>>,
    /// How often a plan that had been approved had to be approved anew.
    stops: usize,
    status: Value,
}

impl Done {
    /// The changes that do not matter, and how many of them stopped it.
    fn stopped(&self) -> (usize, usize) {
        let early = !self.early.adds();
        let late = !self.late.adds();
        let stopped_early = early && self.stops > 0;
        let stopped_late = late && self.status["exitStatus"] != 0;
        let count = |one: bool, other: bool| usize::from(one) + usize::from(other);
        (count(early, late), count(stopped_early, stopped_late))
    }
}

#[tokio::test]
async fn nothing_outside_of_an_approved_plan_is_done() {
    let Ok(changes) = std::env::var("NODELIFE_CHANGES") else {
        leave_out("NODELIFE_CHANGES does not say how many changes are to be made");
        return;
    };
    let changes: usize = changes.parse().unwrap();
    let options = ControlPlane::options().with_everything();
    let plane = options.audit_policy(audit_policy()).start().await.unwrap();
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "approval").await.unwrap();
    let history = History::of(&namespace);
    let objects = Objects::new(scene.admin.clone());
    let replica = Replica::start(&plane, "replica-one");

    let pair = (select(CHANGES), select(CHANGES));
    let drawn = seed::draw(changes.div_ceil(2), &pair)
        .into_iter()
        .enumerate();
    let maintenances = drawn.map(|(number, (early, late))| {
        let own = Place {
            namespace: namespace.clone(),
            name: format!("t{number}"),
        };
        // What happens to a pod while its eviction is on its way is not seen.
        let is_judged = matches!(late, Change::PodProtected | Change::PodOrphaned);
        let late = if is_judged { Change::PodReplaced } else { late };
        maintain(own, &objects, &replica, early, late)
    });
    let done: Vec<Done> = stream::iter(maintenances)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await;
    replica.terminate().await;

    let pods = history.pods(&namespace).await;
    let evicted = covered(&plane.audit_events().unwrap(), &pods, &done);
    assert!(evicted.len() > done.len(), "{}", evicted.len());
    history.check(&namespace, &evicted).await;
    let counts = done.iter().map(Done::stopped);
    let (idle, stopped) = counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let anew = done.iter().filter(|one| one.stops > 0).count();
    println!(
        "{} changes; {stopped} of the {idle} that do not matter stopped it; {anew} plans were approved \
         anew; {} pods were evicted",
        done.len() * 2,
        evicted.len()
    );
    for one in done.iter().filter(|one| one.stopped().1 > 0) {
        println!(
            "{}: {:?}, {:?}: approved anew {} times: {:#}",
            one.name, one.early, one.late, one.stops, one.status
        );
    }
    assert!(stopped * 100 <= idle, "{stopped} of {idle}");
}

/// A maintenance of a node of its own: planned, changed, approved, changed, drained.
async fn maintain(
    place: Place,
    objects: &Objects,
    replica: &Replica,
    early: Change,
    late: Change,
) -> Done {
    let (name, node) = (&*place.name, place.node());
    Box::pin(place.fill()).await;
    let gate = Gate::closed();
    let first = FaultRule::new(Fault::Hold(gate.clone())).method(Method::PATCH);
    replica.proxy.fault(first.path(&format!("/nodes/{node}")));
    let drain = json!({"force": true, "deleteEmptydirData": true});
    let spec = json!({"nodes": [node], "approval": "Required", "drain": drain});
    objects.create(name, spec).await;
    let is_planned = |status: &Value| status["plan"]["digest"].is_string();
    let mut status = objects.wait(name, "the plan", is_planned).await;

    place.make(early, "early").await;
    let mut stops = 0;
    let approved = loop {
        let digest = status["plan"]["digest"].as_str().unwrap().to_owned();
        let approved = workloads(&status);
        let more = beyond(&place, &approved).await;
        objects.approve(name, &digest).await;
        let what = format!("the drain of {name}, or another plan");
        let another = wait_until(&what, TIMEOUT, async || {
            let now = objects.status(name).await?;
            if gate.is_reached() {
                return Ok(Some(None));
            }
            let is_other = now["plan"]["digest"] != *digest;
            Ok(is_other.then_some(Some(now)))
        });
        if let Some(another) = another.await.unwrap() {
            status = another;
            stops += 1;
            continue;
        }
        let still = beyond(&place, &approved).await;
        let unapproved: Vec<_> = more.intersection(&still).collect();
        assert!(
            unapproved.is_empty(),
            "{name}: {early:?}: {unapproved:?} of {approved:?}"
        );
        break approved;
    };

    place.make(late, "late").await;
    gate.open();
    let status = objects.finished(name).await;
    objects.cancel(name).await;
    place.clear().await;
    Done {
        name: place.name.clone(),
        early,
        late,
        approved,
        stops,
        status,
    }
}

/// The pods of the node that this plan does not cover and that would have to go, by UID.
async fn beyond(place: &Place, approved: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let pods = place.pods_on_node().await;
    let beyond = pods.into_iter().filter(|pod| {
        let (workload, lost) = removed(pod);
        let covers = |approved: &BTreeSet<String>| lost.is_subset(approved);
        !workload.contains("/DaemonSet/") && !approved.get(&workload).is_some_and(covers)
    });
    beyond.map(|pod| pod.metadata.uid.to_string()).collect()
}

fn workloads(status: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let entries = status["plan"]["workloads"].as_array().unwrap();
    let entries = entries.iter().map(|entry| {
        let entry = entry.as_str().unwrap();
        let (workload, lost) = entry.split_once(' ').unwrap_or((entry, ""));
        let lost = lost.split(',').filter(|loss| !loss.is_empty());
        (workload.to_owned(), lost.map(ToOwned::to_owned).collect())
    });
    entries.collect()
}

/// The pods that were evicted, by UID: each was on the node of a maintenance, and approved there with
/// all that was lost with it. Nothing was changed before the last approval.
fn covered(events: &[AuditEvent], pods: &BTreeMap<String, Pod>, done: &[Done]) -> BTreeSet<String> {
    let done: BTreeMap<&str, &Done> = done.iter().map(|one| (&*one.name, one)).collect();
    let approval = |name: &str| {
        events.iter().rposition(|event| {
            let approves = event.is("patch", "nodemaintenances") && event.name() == name;
            approves && !event.username().starts_with("replica-")
        })
    };
    let mut evicted = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        if !event.username().starts_with("replica-") || event.code() / 100 != 2 {
            continue;
        }
        assert!(!event.is("delete", "pods"), "{event:?}");
        let name = if event.is("create", "pods/eviction") {
            let body = event.request_object.as_ref().unwrap();
            let uid = body["deleteOptions"]["preconditions"]["uid"].as_str();
            let pod = &pods[uid.unwrap()];
            let name = pod.spec.node_name.strip_suffix("-a");
            let name = name.unwrap_or_else(|| panic!("not on a drained node: {pod:?}"));
            let (workload, lost) = removed(pod);
            let approved = done[name].approved.get(&workload);
            let covers = approved.is_some_and(|approved| lost.is_subset(approved));
            let (early, late) = (done[name].early, done[name].late);
            assert!(
                covers,
                "{workload} {lost:?} was not approved: {early:?}, {late:?}: {:?}",
                done[name].approved
            );
            evicted.insert(pod.metadata.uid.to_string());
            name
        } else if event.is("patch", "nodes") {
            let name = event.name().strip_suffix("-a");
            name.unwrap_or_else(|| panic!("another node was changed: {event:?}"))
        } else {
            continue;
        };
        assert!(Some(at) > approval(name), "before the approval: {event:?}");
    }
    evicted
}

/// The workload of a pod as a plan names it, and what is lost with it: computed here anew.
fn removed(pod: &Pod) -> (String, BTreeSet<String>) {
    let meta = &pod.metadata;
    let owner = meta.owner_references.iter().find(|owner| owner.controller);
    let mut lost = BTreeSet::new();
    let workload = match owner {
        Some(owner) if owner.kind == "ReplicaSet" => {
            format!("Deployment/{}", meta.labels["app"])
        }
        Some(owner) => format!("{}/{}", owner.kind, owner.name),
        None => {
            lost.insert("noController".to_owned());
            format!("Pod/{}@{}", meta.name, meta.uid)
        }
    };
    if pod
        .spec
        .volumes
        .iter()
        .any(|volume| volume.empty_dir.is_some())
    {
        lost.insert("emptyDir".to_owned());
    }
    if meta.annotations.contains_key("karpenter.sh/do-not-disrupt") {
        lost.insert("protected".to_owned());
    }
    (format!("{}/{workload}", meta.namespace), lost)
}
