//! Tests of the engine as a program runs it that goes on after another.

use std::fmt::Display;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use nodelife_cluster::{ClientOptions, Cluster};
use nodelife_core::node_marks::LOCK_LEASE;
use nodelife_drain::{
    Drain, DrainIdentity, DrainRequest, DrainSettings, DrainStatus, Level, NodeSelection, Prepared,
    Reporter, UndoSettings, prepare, select_nodes, undo_drain,
};
use nodelife_tests::{Identity, until};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::lock::lock_on;
use super::support::{TestEnvironment, blocked_pod, environment_with_node, wait_for_cordon};

/// Keeps all sentences.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap().iter().any(|told| told == text)
    }
}

impl Reporter for Told {
    fn tell(&mut self, _: Level, text: &dyn Display) {
        self.0.lock().unwrap().push(text.to_string());
    }

    fn error(&mut self, error: &anyhow::Error) {
        self.0.lock().unwrap().push(format!("{error:#}"));
    }
}

fn identity(name: &str, node: &str) -> DrainIdentity {
    DrainIdentity {
        lease: format!("{name}-{node}").into(),
        lock_lease: LOCK_LEASE,
        holder: name.to_owned(),
        cordoned_by: name.to_owned(),
        instance: "test".to_owned(),
        since: Some(Timestamp::UNIX_EPOCH),
    }
}

async fn connect(env: &TestEnvironment) -> Cluster {
    let options = ClientOptions {
        kubeconfig: Some(env.plane.kubeconfig_file(&Identity::Admin).unwrap()),
        ..ClientOptions::default()
    };
    Cluster::connect(&options).await.unwrap()
}

fn selection(node: &str) -> NodeSelection {
    NodeSelection::named([node.into()])
}

async fn ready(cluster: &Cluster, node: &str) -> Box<Drain> {
    let request = DrainRequest {
        nodes: selection(node),
        settings: DrainSettings {
            undo_on_failure: true,
            force: true,
            ..DrainSettings::default()
        },
        ..DrainRequest::default()
    };
    match prepare(cluster, &request, &mut Told::default()).await {
        Ok(Prepared::Ready(drain)) => drain,
        other => panic!("{:?}", other.map(|other| other.status())),
    }
}

/// Drains that run side by side.
#[derive(Default)]
struct Running(JoinSet<DrainStatus>);

impl Running {
    fn start(&mut self, drain: Box<Drain>, name: &str) -> (Told, UnboundedSender<()>) {
        let (stop, mut interrupts) = unbounded_channel();
        let told = Told::default();
        let (identity, mut reporter) = (identity(name, &drain.plan().nodes[0]), told.clone());
        self.0.spawn(async move {
            let ended = drain.run(identity, &mut interrupts, &mut reporter).await;
            ended.unwrap()
        });
        (told, stop)
    }
}

#[tokio::test]
async fn a_drain_that_is_only_planned_changes_nothing() {
    let (env, node) = environment_with_node("planned").await;
    let pod = blocked_pod(&env, &node).await;
    let drain = ready(&connect(&env).await, &node).await;
    assert_eq!(&*drain.plan().nodes[0], node.as_str());
    drop(drain);
    assert!(!env.is_cordoned(&node).await);
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[pod]).await;
}

#[tokio::test]
async fn a_drain_goes_on_where_another_process_left_it() {
    let (env, node) = environment_with_node("goes-on").await;
    let pod = blocked_pod(&env, &node).await;
    let cluster = connect(&env).await;
    let mut first = Running::default();
    let (_told, _stop) = first.start(ready(&cluster, &node).await, "maintenance");
    wait_for_cordon(&env, &node).await;
    first.0.shutdown().await;
    assert!(env.is_cordoned(&node).await, "uncordoned by nobody");
    let lock = lock_on(&env, &node).await.expect("no lock");

    let mut second = Running::default();
    let (_told, _stop) = second.start(ready(&cluster, &node).await, "another");
    assert_eq!(
        second.0.join_next().await.unwrap().unwrap(),
        DrainStatus::Refused
    );

    let (told, stop) = second.start(ready(&cluster, &node).await, "maintenance");
    let cordoned = format!("node/{node}: cordoned");
    until("the cordon is its own", async || {
        Ok(told.has(&cordoned).then_some(()))
    })
    .await;
    assert_eq!(lock_on(&env, &node).await, Some(lock), "another run's");
    stop.send(()).unwrap();
    assert_eq!(
        second.0.join_next().await.unwrap().unwrap(),
        DrainStatus::Interrupted
    );
    assert!(!env.is_cordoned(&node).await);
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[pod]).await;
}

#[tokio::test]
async fn what_a_dead_process_took_is_given_back() {
    let (env, node) = environment_with_node("given-back").await;
    let pod = blocked_pod(&env, &node).await;
    let cluster = connect(&env).await;
    let mut running = Running::default();
    let (_told, _stop) = running.start(ready(&cluster, &node).await, "maintenance");
    wait_for_cordon(&env, &node).await;
    running.0.shutdown().await;

    let nodes = select_nodes(&cluster, &selection(&node))
        .await
        .unwrap()
        .nodes;
    let undo = async |name: &str| {
        let settings = UndoSettings {
            identity: identity(name, &node),
            own_only: true,
            dry_run: false,
            break_lock: false,
        };
        undo_drain(&cluster, &nodes, &settings, &mut Told::default()).await
    };
    assert_eq!(undo("another").await.unwrap(), DrainStatus::Refused);
    assert!(env.is_cordoned(&node).await);
    assert_eq!(undo("maintenance").await.unwrap(), DrainStatus::Done);
    assert!(!env.is_cordoned(&node).await);
    assert_eq!(lock_on(&env, &node).await, None);
    env.check(&[pod]).await;
}
