//! Tests of snapshots that are read from an API server.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use nodelife_cluster::{ClientOptions, Cluster, Configz, snapshot};
use nodelife_core::snapshot::Source;

const VERSION: &str = r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.2"}"#;

const PODS: &str = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
    "items": [
        {"metadata": {"name": "good", "namespace": "a"}, "spec": {"nodeName": "n1"}},
        {"metadata": {"name": "bad", "namespace": "a"}, "spec": {"nodeName": 1}}
    ]}"#;

/// The URL of a server that answers each connection once.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let body = if request.contains("/pods") {
                PODS
            } else {
                VERSION
            };
            let length = body.len();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let _gone = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn pods_that_cannot_be_decoded_are_not_passed_over_in_silence() {
    let options = ClientOptions {
        server: Some(server()),
        ..ClientOptions::default()
    };
    let cluster = Cluster::connect(&options).await.unwrap();
    let sources = BTreeSet::from([Source::Pods, Source::AllPods]);
    let snapshot = snapshot::collect(&cluster, &sources, Configz::Proxy, |_note| {})
        .await
        .unwrap();
    assert_eq!(snapshot.pods.len(), 1);
    assert_eq!(snapshot.missing.get(&Source::Pods), None);
    let why = snapshot.why_missing(Source::AllPods).unwrap();
    assert_eq!(why, "some objects cannot be decoded");
}
