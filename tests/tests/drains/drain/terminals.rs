//! Terminals of four widths, which change meanwhile, under every command that draws on one: nothing
//! of what it draws is left, and no line is wider than the terminal.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::fixture::{NodeFixture, PodFixture};
use nodelife_tests::picture::terminal::{Next, Terminal};
use nodelife_tests::proxy::{Fault, FaultRule};
use nodelife_tests::{ControlPlane, Parts, PlaneLease, until};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::rescue::dead;
use super::support::{TestEnvironment, blocked_pod, environment_with_node, open};
use crate::maintenance::support::Scene;

const WIDTHS: [u16; 4] = [250, 120, 80, 40];
/// As many as no command here writes.
const LINES: u16 = 100;
/// How often the width changes while a command runs.
const RESIZES: usize = 9;

/// What is drawn, and is to be gone at the end.
const DRAWN: [&str; 3] = ["reading ", " pods gone, ", "  blocked  "];

fn std(command: tokio::process::Command) -> Command {
    let mut command = command.into_std();
    command.env("LANG", "C.UTF-8");
    command
}

fn drawn(terminal: &Terminal) -> Vec<String> {
    let contents = terminal.screen().contents();
    let left = contents.lines().filter(|line| is_drawn(line));
    left.map(str::to_owned).collect()
}

fn is_drawn(line: &str) -> bool {
    DRAWN.iter().any(|drawn| line.contains(drawn))
}

/// Runs the command at each width, and then with another width at each change of the screen.
/// `interrupt`: what stands on the screen when somebody presses Ctrl-C.
fn on_terminals(command: impl Fn() -> Command, what: &str, draws: bool, interrupt: Option<&str>) {
    let mut seen = false;
    for columns in WIDTHS {
        let mut terminal = Terminal::new(columns, LINES).unwrap();
        let mut interrupted = false;
        let next = |screen: &vt100::Screen| {
            let contents = screen.contents();
            seen |= contents.lines().any(is_drawn);
            if !interrupted && interrupt.is_some_and(|text| contents.contains(text)) {
                interrupted = true;
                return Next::Interrupt;
            }
            Next::Look
        };
        terminal.drive(command(), next).unwrap();
        let (left, mut torn) = (drawn(&terminal), terminal.torn());
        // A command to copy stays whole, and so does a word, as a digest.
        torn.retain(|line| !line.contains("kubectl ") && line.contains(' '));
        let shown = terminal.screen().contents();
        assert!(
            left.is_empty(),
            "{what} at {columns} left {left:#?}:\n{shown}"
        );
        assert!(torn.is_empty(), "{what} at {columns}: {torn:#?}:\n{shown}");
    }
    // Where the machine is slow, what is drawn and its end may come at once.
    assert!(seen || !draws, "{what} drew nothing");
    let mut terminal = Terminal::new(WIDTHS[0], LINES).unwrap();
    let mut widths = WIDTHS.into_iter().cycle().skip(1).take(RESIZES);
    let mut interrupted = false;
    let next = |screen: &vt100::Screen| {
        let contents = screen.contents();
        if !interrupted && interrupt.is_some_and(|text| contents.contains(text)) {
            interrupted = true;
            return Next::Interrupt;
        }
        widths.next().map_or(Next::Look, Next::Resize)
    };
    terminal.drive(command(), next).unwrap();
    let left = drawn(&terminal);
    let shown = terminal.screen().contents();
    assert!(left.is_empty(), "{what}, resized, left {left:#?}:\n{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reads_leaves_nothing_of_its_progress() {
    let (mut env, node) = environment_with_node("reads").await;
    blocked_pod(&env, &node).await;
    let proxy = env.go_through_proxy();
    // Each page is told on its own.
    proxy.fault(FaultRule::new(Fault::Delay(Duration::from_millis(50))));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot.json").display().to_string();
    let commands: [(&[&str], Option<&str>); 9] = [
        (&["audit", &node], None),
        (&["audit", &node, "--watch=1s"], Some("finding")),
        (&["nodes", &node], None),
        (&["drainable", &node], None),
        (&["explain", "zones"], None),
        (&["explain", "allocatable", &node], None),
        (&["explain", "failure", &node], None),
        (&["snapshot", "-o", &file], None),
        (&["drain", &node, "--force", "--dry-run"], None),
    ];
    for (words, interrupt) in commands {
        let run = || std(env.nodelife(words));
        let draws = !words[0].starts_with("drain");
        tokio::task::block_in_place(|| on_terminals(run, &words.join(" "), draws, interrupt));
    }
}

/// It draws nothing, but has a table, a question, and sentences.
#[tokio::test(flavor = "multi_thread")]
async fn what_rescues_fits_the_terminal() {
    let env = TestEnvironment::new(ControlPlane::shared_api().await, "rescues").await;
    let (node, _) = dead(&env).await;
    let off = "--machine-is-off";
    let commands: [(&[&str], Option<&str>); 3] = [
        (&["rescue", &node], None),
        (&["rescue", &node, off], Some("[y/N]")),
        (&["rescue", &node, off, "--yes"], Some("out-of-service")),
    ];
    for (words, interrupt) in commands {
        let run = || std(env.nodelife(words));
        tokio::task::block_in_place(|| on_terminals(run, &words.join(" "), false, interrupt));
    }
}

/// Drains and an eviction, each blocked until the terminal has had all widths.
#[tokio::test(flavor = "multi_thread")]
async fn what_drains_leaves_nothing_of_its_screen() {
    for drains in [1, 2, 0] {
        join_all(WIDTHS.map(|columns| drawn_at(drains, columns))).await;
    }
}

/// A drain of so many nodes, or an eviction, on a terminal that is this wide at first.
async fn drawn_at(drains: u8, columns: u16) {
    let (env, node) = environment_with_node("draws").await;
    blocked_pod(&env, &node).await;
    let name = "a-pod-with-a-name-that-is-longer-than-a-narrow-terminal-is-wide";
    let pod = PodFixture::new(name).app("web").running_on(&node);
    pod.create(&env.namespace).await.unwrap();
    let second = env.node("second");
    let other = NodeFixture::new(&second);
    other.create(env.namespace.client()).await.unwrap();
    let pod = PodFixture::new("other").app("web").running_on(&second);
    pod.create(&env.namespace).await.unwrap();
    let namespace = &env.namespace.name;
    let words = match drains {
        0 => vec!["evict", "web", name, "-n", namespace],
        1 => vec!["drain", &node, "--force"],
        _ => vec!["drain", &node, &second, "--force", "--concurrency=2"],
    };
    blocked_until_resized(&env, std(env.nodelife(&words)), columns).await;
}

async fn blocked_until_resized(env: &TestEnvironment, command: Command, columns: u16) {
    let resized = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&resized);
    let run = spawn_blocking(move || {
        let mut terminal = Terminal::new(columns, LINES).unwrap();
        let mut widths = WIDTHS.into_iter().cycle().skip(1).take(RESIZES);
        let mut worst = (0, String::new());
        let mut looks = 0;
        let status = terminal.drive(command, |screen| {
            let contents = screen.contents();
            let heads = contents
                .lines()
                .filter(|line| line.contains(DRAWN[1]))
                .count();
            if heads > worst.0 {
                worst = (heads, contents);
            }
            looks += 1;
            // Two frames at each width: what the first leaves, the second does not mend.
            if heads == 0 || looks % 2 > 0 {
                return Next::Look;
            }
            count.fetch_add(1, Ordering::Relaxed);
            widths.next().map_or(Next::Look, Next::Resize)
        });
        let status = status.unwrap();
        (terminal, status, worst)
    });
    until("all widths", async || {
        Ok((resized.load(Ordering::Relaxed) > RESIZES || run.is_finished()).then_some(()))
    })
    .await;
    let mut counts = open();
    counts.allowed = 3;
    write_status(&env.namespace, "web", counts).await.unwrap();
    let (terminal, status, (heads, contents)) = run.await.unwrap();
    let shown = terminal.screen().contents();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert_eq!(heads, 1, "from {columns} columns on:\n{contents}");
    let left = drawn(&terminal);
    assert!(
        left.is_empty(),
        "from {columns} columns on: {left:#?}:\n{shown}"
    );
}

/// They draw nothing, but wrap their sentences.
#[tokio::test(flavor = "multi_thread")]
async fn what_tells_of_maintenances_fits_the_terminal() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let scene = Scene::install(&plane).await;
    NodeFixture::new("worker-1")
        .create(&scene.admin)
        .await
        .unwrap();
    let _controller = scene.start("one");
    let window = json!({"start": "2999-01-01T00:00:00Z", "duration": "4h"});
    let spec = json!({"nodes": ["worker-1"], "window": window});
    scene.create("upgrade", &spec).await;
    scene
        .wait_for("upgrade", "Progressing", "WaitsForWindow")
        .await;
    for (verb, name, interrupt) in [
        ("list", None, None),
        ("describe", Some("upgrade"), None),
        ("watch", Some("upgrade"), Some("upgrade: ")),
    ] {
        let words = ["nodelife", "maintenance", verb].into_iter().chain(name);
        let run = || std(scene.kubectl.command(words.clone()));
        tokio::task::block_in_place(|| on_terminals(run, verb, false, interrupt));
    }
}
