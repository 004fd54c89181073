//! `maintenance`: what the commands say of objects that a server on loopback has.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};

use super::nodelife;
use super::pty::all_on_terminal;

const FOLDER: &str = "/apis/nodelife.dev/v1alpha1/nodemaintenances";

/// Serves these objects by name to somebody who may get and patch them, and not list them: the address.
fn serve(objects: Vec<Value>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = Vec::new();
            for line in reader.by_ref().lines().map_while(Result::ok) {
                if line.is_empty() {
                    break;
                }
                head.push(line.to_lowercase());
            }
            let length = head.iter().find_map(|l| l.strip_prefix("content-length: "));
            let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            reader.read_exact(&mut body).unwrap();
            let target = head[0].split(' ').nth(1).unwrap();
            let path = target.split('?').next().unwrap();
            let status = |code: u16, message: &str| {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": message, "code": code});
                (code, status)
            };
            let mut named = objects.iter();
            let named = named
                .find(|o| path == format!("{FOLDER}/{}", o["metadata"]["name"].as_str().unwrap()));
            let (code, answer) = match (path, named) {
                ("/version", _) => (
                    200,
                    json!({"major": "1", "minor": "37", "gitVersion": "v1.37.0"}),
                ),
                (_, Some(_)) if head[0].starts_with("patch") => status(422, "testing value failed"),
                (_, Some(object)) => (200, object.clone()),
                (FOLDER, None) => status(403, "cannot list"),
                _ => status(404, "not found"),
            };
            let answer = answer.to_string();
            let length = answer.len();
            // The client may be gone.
            let _ = write!(
                stream,
                "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
            );
        }
    });
    format!("http://{address}")
}

fn digest(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

/// A maintenance that waits for the approval of a plan.
fn waiting(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": "u"},
        "spec": {"nodes": ["a"], "approval": "Required"},
        "status": {"plan": {
            "digest": digest("a"), "pods": 3, "nodes": ["a"],
            "workloads": ["shop/Deployment/web emptyDir"],
        }},
    })
}

fn stderr(words: &[&str]) -> String {
    let output = nodelife(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_command_that_approves_is_one_line_of_a_terminal() {
    let server = serve(vec![waiting("upgrade")]);
    let words = ["maintenance", "describe", "upgrade", "--server", &server];
    let (shown, status) = all_on_terminal(&words, 80);
    assert_eq!(status, 0, "{shown}");
    let digest = digest("a");
    let command = format!("kubectl nodelife maintenance approve upgrade --digest {digest}");
    let last = format!("next: {command} --server {server}");
    assert_eq!(shown.lines().last(), Some(last.as_str()), "{shown}");
    assert!(shown.contains("Approved: no\n"), "{shown}");
    assert!(shown.contains("shop/Deployment/web"), "{shown}");
}

#[test]
fn what_cannot_be_approved_is_said_with_its_reason() {
    let with = |name: &str, at: &str, value: Value| {
        let mut object = waiting(name);
        *object.pointer_mut(at).unwrap() = value;
        object
    };
    let (a, b) = (digest("a"), digest("b"));
    let approved = json!({"nodes": ["a"], "approval": "Required", "approvedPlan": &a});
    let blocked = json!({"conditions": [{
        "type": "Blocked", "status": "True", "reason": "NodeNotFound", "message": "waits for nodes",
        "lastTransitionTime": "2026-01-31T22:00:00Z",
    }]});
    let server = serve(vec![
        waiting("waits"),
        with("free", "/spec", json!({"nodes": ["a"]})),
        with("approved", "/spec", approved),
        with("later", "/spec", json!({"later": 1})),
        with("new", "/status", json!({"observedGeneration": -1})),
        with("blocked", "/status", blocked),
        with(
            "ended",
            "/status",
            json!({"finishedAt": "2026-01-31T22:00:00Z"}),
        ),
    ]);
    for (name, given, why) in [
        (
            "none",
            &a,
            "nodemaintenances.nodelife.dev \"none\" not found".to_owned(),
        ),
        (
            "free",
            &a,
            "nodemaintenance/free needs no approval".to_owned(),
        ),
        (
            "approved",
            &a,
            format!("nodemaintenance/approved is already approved: {a}"),
        ),
        (
            "waits",
            &b,
            format!("the plan of nodemaintenance/waits is {a}, not {b}"),
        ),
        (
            "later",
            &a,
            "cannot read nodemaintenance/later: spec.later".to_owned(),
        ),
        ("new", &a, "nodemaintenance/new has no plan yet".to_owned()),
        ("blocked", &a, "has no plan yet: waits for nodes".to_owned()),
        ("ended", &a, "nodemaintenance/ended has ended".to_owned()),
        // The server says that it is another plan by now, and then shows the same one.
        (
            "waits",
            &a,
            "failed to approve the plan of nodemaintenance/waits: ".to_owned(),
        ),
    ] {
        let words = [
            "maintenance",
            "approve",
            name,
            "--digest",
            given,
            "--server",
            &server,
        ];
        let said = stderr(&words);
        assert!(said.contains(&why), "{name}: {said}");
    }
}
