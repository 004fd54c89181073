//! Tests of the output: terminal and node events.

use std::io::Read as _;
use std::sync::{Arc, Mutex};

use nix::pty::{Winsize, openpty};
use nodelife_tests::fixture::PodFixture;
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::{TIMEOUT, until};

use super::support::{
    CORDON, EVICT, READ, Stderr, apart_with_node, blocked_pod, conforms, end,
    environment_with_node, events_on, open, start,
};

#[tokio::test]
pub(crate) async fn the_node_has_events_of_its_drain() {
    let (env, node) = environment_with_node("events").await;
    let pod = blocked_pod(&env, &node).await;
    let mut drain = start(&env, &[&node, "--force"]);
    let mut stderr = Stderr::of(&env, &mut drain);
    // Number 1: what the budget is short of, and where that is.
    let ns = &env.namespace.name;
    let lacks = format!(
        "budget {ns}/web: 2 unhealthy pods: web-2 is not scheduled; web-3 is not scheduled"
    );
    stderr.wait_for(&[&lacks]).await;
    until("the event of the block", async || {
        let events = events_on(&env, &node).await;
        Ok(events
            .iter()
            .any(|(_, reason, _)| reason == "DrainBlocked")
            .then_some(()))
    })
    .await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&env, drain), stderr.read_to_end());
    let stderr = stderr.text;
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        !stderr.contains('\x1b'),
        "a pipe is no terminal: {stderr:?}"
    );
    let events = events_on(&env, &node).await;
    let reasons: Vec<_> = events
        .iter()
        .map(|(kind, reason, _)| (kind.as_str(), reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            ("Warning", "DrainBlocked"),
            ("Normal", "DrainStarted"),
            ("Normal", "Drained")
        ],
        "{events:#?}"
    );
    assert!(
        events[0]
            .2
            .contains(&format!("{ns}/web: blocked by budget {ns}/web")),
        "{events:#?}"
    );
    env.check(&[pod]).await;
}

#[tokio::test]
pub(crate) async fn a_drain_without_permission_to_write_events_warns() {
    let (mut env, node) = apart_with_node("no-events").await;
    let pod = env.running("web", &node).await;
    env.act_with(&[READ, EVICT, CORDON]).await;
    let output = env.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("failed to record events on the nodes")
            && output
                .stderr
                .contains("kubectl auth can-i create events.events.k8s.io -n default"),
        "{}",
        output.stderr
    );
    assert!(events_on(&env, &node).await.is_empty());
    env.check(&[pod]).await;
}

/// One line for each pod, drawn over in place, and nothing of it left at the end.
#[tokio::test]
async fn a_terminal_shows_the_waiting_pod_and_its_budget() {
    let (env, node) = environment_with_node("terminal").await;
    let pod = blocked_pod(&env, &node).await;
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(Some(&size), None).unwrap();
    let mut command = env.command(&[&node, "--force"]);
    command
        .env("TERM", "xterm")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(terminal.slave);
    let drain = command.spawn().unwrap();
    // The command holds the other end as well: with it gone, reading ends with the drain.
    drop(command);
    let shown = Arc::new(Mutex::new(String::new()));
    let reader = {
        let shown = Arc::clone(&shown);
        let mut screen = std::fs::File::from(terminal.master);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
                shown.lock().unwrap().push_str(&text);
            }
        })
    };
    let ns = &env.namespace.name;
    until("the line of the pod", async || {
        let shown = shown.lock().unwrap();
        Ok((shown.contains("0 of 1 pods gone") && shown.contains("  blocked  ")).then_some(()))
    })
    .await;
    write_status(&env.namespace, "web", open()).await.unwrap();
    let ended = tokio::time::timeout(TIMEOUT, drain.wait_with_output()).await;
    let status = ended.expect("the drain did not end").unwrap().status.code();
    env.check_end(&[&node], status).await;
    reader.join().unwrap();
    let shown = shown.lock().unwrap().clone();
    assert_eq!(status, Some(0), "{shown}");
    let (_, last) = shown
        .rsplit_once("\x1b[2K")
        .expect("it was never drawn over");
    assert!(!last.contains("pods gone"), "{shown:?}");
    // tmux keeps in its history what is erased like this from the top of the screen on.
    assert!(!shown.contains("A\x1b[0J"), "{shown:?}");
    assert!(
        shown.contains(&format!("node/{node}: drained")),
        "{shown:?}"
    );
    assert!(
        shown.contains(&format!("{ns}/web: gone after")),
        "{shown:?}"
    );
    env.check(&[pod]).await;
}

/// Number 9: a script finds one document on stdout, however the drain ends.
#[tokio::test]
async fn every_end_prints_one_document() {
    let (mut env, node) = environment_with_node("document").await;
    let pod = PodFixture::new("web").running_on(&node);
    let pod = pod.create(&env.namespace).await.unwrap();
    let gone = env.node("gone");
    let json = ["-o", "json"];
    for (words, status, kind) in [
        (vec![gone.as_str()], 1, "DrainReport"),
        (vec![&node], 4, "DrainPlan"),
        (vec![&node, "--force", "--dry-run"], 0, "DrainPlan"),
        (vec![&node, "--force", "--timeout=1ms"], 1, "DrainReport"),
    ] {
        let output = env.drain(&[&words[..], &json].concat()).await;
        assert_eq!(output.status, Some(status), "{words:?}: {}", output.stderr);
        let document = serde_json::from_str(&output.stdout).unwrap();
        conforms(&document, kind);
        assert_eq!(document["kind"], kind);
    }
    // A right that is missing before the cordon, and one that is missing for it.
    env.act_with(&[READ]).await;
    for more in [EVICT, CORDON] {
        let words = [&[node.as_str(), "--force"][..], &json].concat();
        let output = env.drain(&words).await;
        assert_eq!(output.status, Some(7), "{}", output.stderr);
        let document = serde_json::from_str(&output.stdout).unwrap();
        conforms(&document, "DrainReport");
        assert_eq!(document["nodes"][0]["drained"], false, "{document:#}");
        env.act_with(&[more]).await;
    }
    let output = env.drain(&[&node, "--force", "-o", "json"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    env.check(&[pod]).await;
}
