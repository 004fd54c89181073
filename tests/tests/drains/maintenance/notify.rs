//! What channels are told of maintenances.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use http::StatusCode;
use http::header::{HeaderName, LOCATION};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use nodelife_tests::connect_proxy::ConnectProxy;
use nodelife_tests::fixture::NodeFixture;
use nodelife_tests::proxy::acceptor;
use nodelife_tests::supervise::{Spec, Supervised};
use nodelife_tests::{TIMEOUT, TestNamespace, seed, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::support::Scene;
use super::waits::at;
use super::{plane, web};

/// A part of each URL that nobody may be told.
const SECRET: &str = "xoxb-5ecret";

type Got = Arc<Mutex<Vec<(String, Value)>>>;

/// Receivers on loopback, one for each path, and the directory of a controller with their URLs.
struct Receivers {
    got: Got,
    folder: TempDir,
    _server: JoinSet<()>,
}

/// The first time that it is asked, `hangs` never answers, `busy` has a fault, and `moves` is elsewhere.
async fn receive(
    State(got): State<Got>,
    Path(channel): Path<String>,
    body: String,
) -> (StatusCode, [(HeaderName, String); 1]) {
    let document = serde_json::from_str(&body).unwrap();
    let is_first = {
        let mut got = got.lock().unwrap();
        got.push((channel.clone(), document));
        got.iter().filter(|(one, _)| *one == channel).count() == 1
    };
    let status = match channel.as_str() {
        "hangs" if is_first => pending().await,
        "busy" if is_first => StatusCode::INTERNAL_SERVER_ERROR,
        "moves" if is_first => StatusCode::TEMPORARY_REDIRECT,
        _ => StatusCode::NO_CONTENT,
    };
    (status, [(LOCATION, format!("/elsewhere/{SECRET}"))])
}

impl Receivers {
    async fn start(channels: &[&str]) -> Self {
        let got = Got::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let path = format!("/{{channel}}/{SECRET}");
        let router = Router::new().route(&path, post(receive));
        let router = router.with_state(Arc::clone(&got));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let folder = TempDir::new().unwrap();
        for channel in channels {
            let url = format!("http://{address}/{channel}/{SECRET}\n");
            std::fs::write(folder.path().join(channel), url).unwrap();
        }
        Self {
            got,
            folder,
            _server: server,
        }
    }

    fn flags(&self) -> [String; 2] {
        let folder = self.folder.path().display();
        [
            format!("--notify-dir={folder}"),
            "--notify-blocked-after=1s".to_owned(),
        ]
    }

    /// A replica that tells them, and logs all that it does.
    fn start_replica(&self, scene: &Scene<'_>, name: &str) -> Supervised {
        self.replica(scene, name).start().unwrap()
    }

    fn replica(&self, scene: &Scene<'_>, name: &str) -> Spec {
        let flags = self.flags();
        let flags = flags.each_ref().map(String::as_str);
        scene.spec_with(name, &flags).env("RUST_LOG", "trace")
    }

    /// What a channel was told of a maintenance, and how often.
    fn told(&self, channel: &str, maintenance: &str) -> BTreeMap<String, usize> {
        let mut told = BTreeMap::new();
        for (to, document) in &*self.got.lock().unwrap() {
            if to == channel && document["maintenance"] == maintenance {
                let event = document["event"].as_str().unwrap().to_owned();
                *told.entry(event).or_default() += 1;
            }
        }
        told
    }
}

/// Waits until the status says that a channel was told this, and gives the error.
async fn noted(scene: &Scene<'_>, name: &str, channel: &str, event: &str) -> Value {
    wait_until(
        &format!("{event} of {name} told to {channel}"),
        TIMEOUT,
        async || {
            let status = scene.status(name).await?;
            let all = status["notified"].as_array().cloned().unwrap_or_default();
            let mut all = all.into_iter();
            let found = all.find(|one| one["channel"] == channel && one["event"] == event);
            anyhow::ensure!(found.is_some(), "{status}");
            Ok(found.map(|one| one["error"].clone()))
        },
    )
    .await
    .unwrap()
}

fn once(events: &[&str]) -> BTreeMap<String, usize> {
    events
        .iter()
        .map(|event| ((*event).to_owned(), 1))
        .collect()
}

fn says_no_secret(replica: &Supervised) {
    let log = std::fs::read_to_string(replica.log()).unwrap();
    assert!(log.contains("TRACE") && !log.contains(SECRET), "{log}");
}

/// `NODELIFE_CASES=50` changes the leader fifty times.
#[tokio::test]
async fn a_channel_is_told_each_thing_once_over_changes_of_the_leader() {
    let others: Vec<_> = (1..=seed::number("NODELIFE_CASES", 4, 4))
        .map(|number| format!("x{number}"))
        .collect();
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "notify").await.unwrap();
    web(&scene, &namespace).await;
    for name in &others {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let selector = json!({"matchLabels": {"app": "web"}});
    let held = json!({"maxUnavailable": 0, "selector": selector});
    scene.budget(&namespace, "web", held).await;
    let receivers = Receivers::start(&["default", "team-a"]).await;
    let mut leader = receivers.start_replica(&scene, "one");
    let drain = json!({"onImpossible": "wait"});
    let spec = json!({"nodes": ["a", "b"], "drain": drain, "notify": ["team-a"]});
    scene.create("told", &spec).await;
    // It waits, and nothing but the time changes.
    let nowhere = json!({"nodes": ["nowhere"], "notify": ["team-a"]});
    scene.create("waits", &nowhere).await;
    for (name, event) in [("told", "begun"), ("told", "blocked"), ("waits", "blocked")] {
        assert_eq!(noted(&scene, name, "team-a", event).await, Value::Null);
    }
    let late = json!({"nodes": ["c"], "deadline": at(-1), "notify": ["team-a", "default"]});
    scene.create("late", &late).await;
    for channel in ["team-a", "default"] {
        noted(&scene, "late", channel, "failed").await;
    }
    // Another maintenance ends: whoever leads now has seen all of them.
    for (round, node) in others.iter().enumerate() {
        if round == others.len() / 2 {
            let free = json!({"maxUnavailable": 1, "selector": selector});
            scene.budget(&namespace, "web", free).await;
            assert_eq!(noted(&scene, "told", "team-a", "done").await, Value::Null);
        }
        let next = receivers.start_replica(&scene, node);
        says_no_secret(&leader);
        if round % 2 == 0 {
            leader.kill().await.unwrap();
        } else {
            leader.terminate(TIMEOUT).await.unwrap();
        }
        leader = next;
        scene.create(node, &json!({"nodes": [node]})).await;
        assert_eq!(noted(&scene, node, "default", "done").await, Value::Null);
        assert_eq!(receivers.told("default", node), once(&["begun", "done"]));
        if round < others.len() / 2 {
            scene.wait_for("told", "Blocked", "PodsBlocked").await;
        }
    }
    for channel in ["team-a", "default"] {
        assert_eq!(receivers.told(channel, "late"), once(&["failed"]));
    }
    assert_eq!(
        receivers.told("team-a", "told"),
        once(&["begun", "blocked", "done"])
    );
    assert_eq!(receivers.told("team-a", "waits"), once(&["blocked"]));
    assert!(receivers.told("default", "told").is_empty());
    let got = receivers.got.lock().unwrap().clone();
    let of = |event: &str| {
        let mut got = got.iter().map(|(_, document)| document);
        got.find(|one| one["maintenance"] == "told" && one["event"] == event)
            .unwrap()
            .clone()
    };
    let blocked = of("blocked");
    let message = blocked["message"].as_str().unwrap();
    assert!(
        message.contains("PodsBlocked: ") && message.contains("budget"),
        "{message}"
    );
    assert_eq!(
        of("done")["message"],
        "NodeMaintenance told is done: 2/2 nodes drained"
    );
    assert_eq!(blocked["nodes"], json!(["a", "b"]));
    for name in others
        .iter()
        .map(String::as_str)
        .chain(["told", "late", "waits"])
    {
        scene.cancel(name).await;
    }
    says_no_secret(&leader);
    leader.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_fails_delays_no_drain_and_is_asked_again() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    let namespace = TestNamespace::create(&plane, "receivers").await.unwrap();
    web(&scene, &namespace).await;
    let channels = ["hangs", "busy", "moves"];
    let receivers = Receivers::start(&channels).await;
    let one = receivers.start_replica(&scene, "one");
    let notify = [channels.as_slice(), &["unknown"]].concat();
    scene
        .create("told", &json!({"nodes": ["a", "b"], "notify": notify}))
        .await;
    assert_eq!(scene.wait_for_end("told").await, 0);
    for event in ["begun", "done"] {
        let error = noted(&scene, "told", "unknown", event).await;
        assert_eq!(error, "the Secret nodelife-notify has no such key");
        for channel in ["busy", "moves"] {
            assert_eq!(noted(&scene, "told", channel, event).await, Value::Null);
        }
    }
    // It ended while a receiver had not answered; another leader tells that one.
    let two = receivers.start_replica(&scene, "two");
    says_no_secret(&one);
    one.kill().await.unwrap();
    for event in ["begun", "done"] {
        assert_eq!(noted(&scene, "told", "hangs", event).await, Value::Null);
    }
    for channel in channels {
        let told = receivers.told(channel, "told");
        assert_eq!(told.values().sum::<usize>(), 3, "{channel}: {told:?}");
    }
    assert!(receivers.told("elsewhere", "told").is_empty());
    // A receiver can drop a repetition.
    let got = receivers.got.lock().unwrap().clone();
    let ids: BTreeSet<_> = got.iter().map(|(_, one)| one["id"].to_string()).collect();
    assert_eq!(ids.len(), 2, "{got:?}");
    let described = ["maintenance", "describe", "told"];
    let described = scene.nodelife(&described).await.stdout;
    let why = "unknown was not told of done: the Secret nodelife-notify has no such key";
    assert!(
        described.contains(&format!("Warning: {why}\n")),
        "{described}"
    );
    let events: Api<Event> = Api::all(scene.admin.clone());
    let events = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter();
    let events = events.filter(|event| event.reason.as_deref() == Some("ChannelNotNotified"));
    let notes: Vec<_> = events.filter_map(|event| event.note).collect();
    assert_eq!(
        notes,
        ["unknown: the Secret nodelife-notify has no such key"]
    );
    scene.cancel("told").await;
    says_no_secret(&two);
    two.terminate(TIMEOUT).await.unwrap();
}

/// Nobody trusts the authority of the test.
#[tokio::test]
async fn a_channel_is_verified_through_a_proxy() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    NodeFixture::kwok("x").create(&scene.admin).await.unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let receivers = Receivers::start(&[]).await;
    let url = format!("https://localhost:{port}/{SECRET}");
    std::fs::write(receivers.folder.path().join("default"), url).unwrap();
    let proxy = ConnectProxy::start().await.unwrap();
    let one = receivers
        .replica(&scene, "one")
        .env("HTTPS_PROXY", proxy.url());
    let one = one.env("NO_PROXY", "127.0.0.1").start().unwrap();
    scene.create("x", &json!({"nodes": ["x"]})).await;
    let (stream, _) = listener.accept().await.unwrap();
    let pair = plane.authority().server(&["localhost"], &[]).unwrap();
    let refused = acceptor(&pair).unwrap().accept(stream).await;
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("UnknownCA"), "{refused}");
    assert!(proxy.opened() > 0);
    assert_eq!(scene.wait_for_end("x").await, 0);
    scene.cancel("x").await;
    says_no_secret(&one);
    one.terminate(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn nobody_is_told_without_a_channel() {
    let plane = plane().await;
    let scene = Scene::install(&plane).await;
    for name in ["x", "y", "z"] {
        NodeFixture::kwok(name).create(&scene.admin).await.unwrap();
    }
    let receivers = Receivers::start(&["default"]).await;
    let one = receivers.replica(&scene, "one").env("RUST_LOG", "info");
    let one = one.start().unwrap();
    // It goes at once when it has ended.
    let short = json!({"nodes": ["z"], "ttlSecondsAfterFinished": 0});
    scene.create("z", &short).await;
    wait_until("the end of z to be told", TIMEOUT, async || {
        Ok((receivers.told("default", "z") == once(&["begun", "done"])).then_some(()))
    })
    .await
    .unwrap();
    let silent = json!({"nodes": ["x"], "notify": []});
    scene.create("x", &silent).await;
    assert_eq!(scene.wait_for_end("x").await, 0);
    std::fs::remove_file(receivers.folder.path().join("default")).unwrap();
    scene.create("y", &json!({"nodes": ["y"]})).await;
    assert_eq!(scene.wait_for_end("y").await, 0);
    for name in ["x", "y"] {
        scene.cancel(name).await;
        assert!(receivers.told("default", name).is_empty());
    }
    let log = std::fs::read_to_string(one.log()).unwrap();
    assert!(!log.contains("channel"), "{log}");
    one.terminate(TIMEOUT).await.unwrap();
}
