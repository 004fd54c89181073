//! What people see of a drain: the terminal, and the events on the node.

use std::io::Read as _;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use nix::pty::{Winsize, openpty};
use nodelife_tests::fixture::budget::write_status;
use nodelife_tests::{PATIENCE, wait_until};

use super::bench::{Bench, CORDON, EVICT, READ, bench_with_node};
use super::defects::{blocked_pod, end, open, start};
use super::said::Said;

/// The events of the drains of a node: type, reason and note.
pub(super) async fn events_on(bench: &Bench, node: &str) -> Vec<(String, String, String)> {
    let events: Api<Event> = Api::namespaced(bench.namespace.client().clone(), "default");
    let about = ListParams::default().fields(&format!("regarding.name={node}"));
    let mut events = events.list(&about).await.unwrap().items;
    events.retain(|event| event.reporting_controller.as_deref() == Some("nodelife.dev/drain"));
    // Not by time: the clock that they bear is read off the server's answers.
    events.sort_by(|a, b| a.reason.cmp(&b.reason));
    events
        .into_iter()
        .map(|event| {
            (
                event.type_.unwrap_or_default(),
                event.reason.unwrap_or_default(),
                event.note.unwrap_or_default(),
            )
        })
        .collect()
}

#[tokio::test]
async fn the_node_bears_events_of_its_drain() {
    let (bench, node) = bench_with_node("events").await;
    let pod = blocked_pod(&bench, &node).await;
    let mut drain = start(&bench, &[&node, "--force"]);
    let mut said = Said::by(&mut drain);
    // Number 1: what the budget is short of, and where that is.
    let ns = &bench.namespace.name;
    let lacks = format!(
        "budget {ns}/web lacks 2 of its pods: web-2 waits for a node; web-3 waits for a node"
    );
    said.until(&[&lacks]).await;
    wait_until("the event of the block", PATIENCE, async || {
        let events = events_on(&bench, &node).await;
        Ok(events
            .iter()
            .any(|(_, reason, _)| reason == "DrainBlocked")
            .then_some(()))
    })
    .await
    .unwrap();
    write_status(&bench.namespace, "web", open()).await.unwrap();
    let ((status, _), ()) = tokio::join!(end(&bench, drain), said.rest());
    let stderr = said.text;
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        !stderr.contains('\x1b'),
        "a pipe is no terminal: {stderr:?}"
    );
    let events = events_on(&bench, &node).await;
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
    bench.check(&[pod]).await;
}

#[tokio::test]
async fn a_drain_that_may_not_write_events_says_so_and_goes_on() {
    let (mut bench, node) = bench_with_node("no-events").await;
    let pod = nodelife_tests::fixture::PodFixture::new("web")
        .running_on(&node)
        .create(&bench.namespace)
        .await
        .unwrap();
    bench.act_with(&[READ, EVICT, CORDON]).await;
    let output = bench.drain(&[&node, "--force"]).await;
    assert_eq!(output.status, Some(0), "{}", output.stderr);
    assert!(
        output
            .stderr
            .contains("no events were written on the nodes")
            && output
                .stderr
                .contains("kubectl auth can-i create events.events.k8s.io -n default"),
        "{}",
        output.stderr
    );
    assert!(events_on(&bench, &node).await.is_empty());
    bench.check(&[pod]).await;
}

/// One line for each pod, drawn over in place, and nothing of it left at the end.
#[tokio::test]
async fn a_terminal_shows_the_pod_that_waits_and_its_budget() {
    let (bench, node) = bench_with_node("terminal").await;
    let pod = blocked_pod(&bench, &node).await;
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(Some(&size), None).unwrap();
    let mut command = bench.command(&[&node, "--force"]);
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
    let ns = &bench.namespace.name;
    wait_until("the line of the pod", PATIENCE, async || {
        let shown = shown.lock().unwrap();
        Ok((shown.contains("0 of 1 pods gone") && shown.contains("  blocked  ")).then_some(()))
    })
    .await
    .unwrap();
    write_status(&bench.namespace, "web", open()).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, drain.wait_with_output()).await;
    let status = ended.expect("the drain did not end").unwrap().status.code();
    bench.check_end(&[&node], status).await;
    reader.join().unwrap();
    let shown = shown.lock().unwrap().clone();
    assert_eq!(status, Some(0), "{shown}");
    let (_, last) = shown
        .rsplit_once("\x1b[0J")
        .expect("it was never drawn over");
    assert!(!last.contains("pods gone"), "{shown:?}");
    assert!(
        shown.contains(&format!("node/{node}: drained")),
        "{shown:?}"
    );
    assert!(
        shown.contains(&format!("{ns}/web: gone after")),
        "{shown:?}"
    );
    bench.check(&[pod]).await;
}
