//! Tests of overload and slow clients.

use futures::StreamExt as _;
use futures::future::join_all;
use nodelife_tests::https::{HttpsResponse, NAME, TlsClient, head};
use nodelife_tests::{TIMEOUT, until};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{PATH, Server};

/// What the manifests give the container.
const LIMIT_KIB: u64 = 128 * 1024;

impl Server {
    /// Waits until a metric is at least `count`.
    async fn counted(&self, metric: &str, count: usize) {
        until(metric, async || {
            let text = self.plain("/metrics").await?;
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix(metric)?.trim().parse().ok());
            anyhow::ensure!(
                value.is_some_and(|value: usize| value >= count),
                "{value:?}"
            );
            Ok(Some(()))
        })
        .await;
    }
}

/// A review that names refuse, with `padding` bytes in its object.
pub(super) fn review(padding: usize) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "UPDATE", "name": "n2",
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "object": {"metadata": {"annotations": {"a": "x".repeat(padding)}}}, "oldObject": {},
        "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]}}})
    .to_string()
    .into_bytes()
}

/// A verdict, or what brings the API server back (client-go v0.36.3 `rest/with_retry.go`: a
/// 5xx with Retry-After).
fn is_verdict(answer: &HttpsResponse) -> bool {
    match answer.status {
        200 => {
            let refused = answer.body.contains("is not allowed to modify node");
            assert!(refused, "{answer:?}");
            true
        }
        503 => {
            assert!(answer.head.contains("\nretry-after: 1\r\n"), "{answer:?}");
            assert!(!answer.head.contains("connection: close"), "{answer:?}");
            false
        }
        _ => panic!("{answer:?}"),
    }
}

/// Slow strangers, 30 objects of 3 MiB at once, and 300 small ones. A client that retries as told
/// gets a verdict; memory stays below what the manifests give the container, and so do file
/// descriptors where a container begins with few of them.
#[tokio::test]
async fn a_flood_costs_no_memory_and_no_response() {
    const SLOW: usize = 500;
    // More than fit in memory, and few enough to arrive within the two seconds of a call.
    const LARGE: usize = 30;
    const SMALL: usize = 300;
    let server = Server::start_with_few_files(&[]).await;
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // The first byte of a handshake that never goes on.
        stream.write_all(&[22]).await.unwrap();
        slow.push(stream);
    }
    let trust = TlsClient::new(&server.authority.certificate(), None).unwrap();
    let (large, small) = (review(3 << 20), review(6_000));
    let bodies = (0..LARGE).map(|_| &large).chain((0..SMALL).map(|_| &small));
    // An API server keeps its connections. Handshakes beside the flood would wait for longer than
    // the server allows on a slow machine.
    let mut connected = Vec::new();
    for body in bodies {
        connected.push((trust.connect(server.address).await.unwrap(), body));
    }
    let (trust, server) = (&trust, &server);
    let calls = connected.into_iter().map(|(mut connection, body)| {
        async move {
            let mut turned_away = 0_usize;
            let end = Instant::now() + TIMEOUT;
            loop {
                // A body that takes more than two seconds on a slow machine ends its connection.
                match connection.post(PATH, body).await {
                    Ok(answer) if answer.status != 408 => {
                        if is_verdict(&answer) {
                            break;
                        }
                    }
                    _ => connection = trust.connect(server.address).await.unwrap(),
                }
                turned_away += 1;
                assert!(Instant::now() < end, "turned away {turned_away} times");
                // What Retry-After says.
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
            turned_away
        }
    });
    let calls = calls.collect::<Vec<_>>();
    let count = calls.len();
    let turned_away: Vec<usize> = futures::stream::iter(calls)
        .buffer_unordered(count)
        .collect()
        .await;
    let peak = server.program.peak().unwrap();
    println!(
        "{count} verdicts after {} times 503, peak {peak} KiB",
        turned_away.iter().sum::<usize>()
    );
    assert!(peak < LIMIT_KIB, "{peak} KiB");
    // The strangers are shown out, and nothing of it was a defect.
    let metric = "nodelife_tls_handshakes_total{result=\"slow\"}";
    server.counted(metric, SLOW).await;
    let metrics = server.plain("/metrics").await.unwrap();
    assert!(metrics.contains("\nnodelife_panics_total 0\n"), "{metrics}");
    drop(slow);
}

/// A body has the time that the API server gives the call, a head ten seconds from its first
/// byte; a connection that says nothing is idle and may stay.
#[tokio::test]
async fn slow_senders_are_disconnected_and_idle_clients_kept() {
    let server = Server::start(&[]).await;
    let mut idle = server.connect(None).await.unwrap();
    assert_eq!(idle.post(PATH, &review(0)).await.unwrap().status, 200);

    let mut body = server.connect(None).await.unwrap();
    let begun = head("/validate?timeout=1s", "application/json", 100);
    let answer = body.send(&begun, b"{").await.unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    assert!(answer.head.contains("connection: close"), "{answer:?}");

    let heads = (0..20).map(|_| async {
        let mut connection = server.connect(None).await.unwrap();
        let begun = format!("POST {PATH} HTTP/1.1\r\nhost: {NAME}\r\n");
        connection.write(begun.as_bytes()).await.unwrap();
        // Ends without an answer.
        let ended = tokio::time::timeout(TIMEOUT, connection.answer()).await;
        assert!(ended.expect("it is let go").is_err());
    });
    join_all(heads).await;
    assert_eq!(idle.post(PATH, &review(0)).await.unwrap().status, 200);
}
