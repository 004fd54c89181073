//! An attacker in the pod network, against writers whose reviews must all get a verdict in time.
//!
//! The attacker has an address of its own (127.0.0.2), as a pod has. `NODELIFE_ATTACK=60` attacks
//! for so many seconds with each method.

use std::net::Ipv4Addr;
use std::time::Duration;

use nodelife_tests::https::{NAME, head};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::flood::{LIMIT_KIB, review};
use super::{PATH, Server};

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const WRITERS: usize = 20;
/// Between two reviews of a writer.
const PAUSE: Duration = Duration::from_millis(20);

fn duration() -> Duration {
    let text = std::env::var("NODELIFE_ATTACK").ok();
    let seconds = text.and_then(|text| text.parse().ok()).unwrap_or(5);
    Duration::from_secs(seconds)
}

async fn from_attacker(to: std::net::SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((ATTACKER, 0).into())?;
    socket.connect(to).await
}

impl Server {
    /// Reviews by writers until `end`, each on a connection of its own that it opens anew now and
    /// then; returns how long they took, the longest last.
    async fn writers(&self, end: Instant) -> Vec<Duration> {
        let small = review(6_000);
        let writers = (0..WRITERS).map(|_| async {
            let mut took = Vec::new();
            while Instant::now() < end {
                let mut connection = self.connect(None).await.unwrap();
                for _ in 0..20 {
                    let begun = Instant::now();
                    let answer = connection.post(PATH, &small).await.unwrap();
                    assert_eq!(answer.status, 200, "{answer:?}");
                    took.push(begun.elapsed());
                    tokio::time::sleep(PAUSE).await;
                }
            }
            took
        });
        let took = futures::future::join_all(writers).await;
        let mut took: Vec<Duration> = took.into_iter().flatten().collect();
        took.sort_unstable();
        took
    }

    /// Runs `attackers` copies of an attack beside the writers.
    async fn withstands<F>(
        &self,
        name: &str,
        attackers: usize,
        attack: impl Fn(std::net::SocketAddr, std::net::SocketAddr) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        for _ in 0..attackers {
            let attack = attack(self.address, self.health);
            tasks.spawn(attack);
        }
        let took = self.writers(Instant::now() + duration()).await;
        tasks.shutdown().await;
        let peak = self.peak();
        let p99 = took[took.len() * 99 / 100];
        println!(
            "{name}: {} verdicts, p99 {p99:?}, peak {peak} KiB",
            took.len()
        );
        assert!(peak < LIMIT_KIB, "{name}: {peak} KiB");
        // The program was not restarted, and the kubelet would find it alive.
        self.says("/readyz", "200").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_mutes_the_webhook() {
    let server = Server::start(&[]).await;
    let ca = server.authority.certificate();
    let tls = nodelife_tests::https::TlsClient::new(&ca, None).unwrap();
    server
        .withstands("silent connections", 2_000, |address, _| async move {
            loop {
                let Ok(stream) = from_attacker(address).await else {
                    continue;
                };
                // Held until the server closes it.
                let _ = stream.readable().await;
            }
        })
        .await;
    let promise = tls.clone();
    server
        .withstands("promised bodies", 200, move |address, _| {
            let tls = promise.clone();
            async move {
                loop {
                    let Ok(stream) = from_attacker(address).await else {
                        continue;
                    };
                    let Ok(mut connection) = tls.over(stream).await else {
                        continue;
                    };
                    let promise = head("/validate?timeout=30s", "application/json", 7 << 20);
                    let _ = connection.send(&promise, b"{").await;
                }
            }
        })
        .await;
    let slow = tls.clone();
    server
        .withstands("one byte a second", 200, move |address, _| {
            let tls = slow.clone();
            async move {
                loop {
                    let Ok(stream) = from_attacker(address).await else {
                        continue;
                    };
                    let Ok(mut connection) = tls.over(stream).await else {
                        continue;
                    };
                    let head = format!("POST {PATH} HTTP/1.1\r\nhost: {NAME}\r\n");
                    for byte in head.bytes() {
                        if connection.write(&[byte]).await.is_err() {
                            break;
                        }
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        })
        .await;
    let large = review(7 << 20);
    server
        .withstands("large bodies", 10, move |address, _| {
            let (tls, large) = (tls.clone(), large.clone());
            async move {
                loop {
                    let Ok(stream) = from_attacker(address).await else {
                        continue;
                    };
                    let Ok(mut connection) = tls.over(stream).await else {
                        continue;
                    };
                    while connection.post(PATH, &large).await.is_ok() {}
                }
            }
        })
        .await;
    server
        .withstands("health port", 2_000, |_, health| async move {
            loop {
                let Ok(mut stream) = from_attacker(health).await else {
                    continue;
                };
                let _ = stream.write_all(b"GET /metr").await;
                let _ = stream.readable().await;
            }
        })
        .await;
}
