//! Load balancer in front of several replicas, as kube-proxy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How often the replicas' readiness is looked at.
const PROBE: Duration = Duration::from_millis(200);
/// Unanswered probes until a replica is not ready: the kubelet's `failureThreshold`.
const FAILURES: u8 = 3;

#[derive(Clone)]
struct Backend {
    address: SocketAddr,
    health: SocketAddr,
    ready: bool,
    /// Probes in succession without an answer.
    unanswered: u8,
}

/// Sends each new connection to the next ready replica; those that are open stay.
pub struct Balancer {
    backends: Arc<Mutex<Vec<Backend>>>,
    _tasks: JoinSet<()>,
}

impl Balancer {
    pub async fn listen(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("failed to listen on {address}"))?;
        let backends: Arc<Mutex<Vec<Backend>>> = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&backends)));
        tasks.spawn(probe(Arc::clone(&backends)));
        Ok(Self {
            backends,
            _tasks: tasks,
        })
    }

    /// Adds a replica: where it serves, and where it answers probes.
    pub fn add(&self, address: SocketAddr, health: SocketAddr) {
        lock(&self.backends).push(Backend {
            address,
            health,
            ready: true,
            unanswered: 0,
        });
    }

    /// Takes a replica out, as the end of its pod does.
    pub fn remove(&self, address: SocketAddr) {
        lock(&self.backends).retain(|one| one.address != address);
    }
}

async fn accept(listener: TcpListener, backends: Arc<Mutex<Vec<Backend>>>) {
    let mut connections = JoinSet::new();
    let mut turn = 0_usize;
    loop {
        let Ok((mut client, _)) = listener.accept().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let ready: Vec<SocketAddr> = lock(&backends)
            .iter()
            .filter(|one| one.ready)
            .map(|one| one.address)
            .collect();
        turn = turn.wrapping_add(1);
        // With no endpoint kube-proxy refuses the connection, which is a reset here.
        let Some(backend) = ready.get(turn % ready.len().max(1)).copied() else {
            continue;
        };
        connections.spawn(async move {
            if let Ok(mut server) = TcpStream::connect(backend).await {
                // Whoever closes first ends the connection for both.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

async fn probe(backends: Arc<Mutex<Vec<Backend>>>) {
    loop {
        let all: Vec<Backend> = lock(&backends).clone();
        for one in all {
            let answer = probe_once(one.health).await;
            let mut all = lock(&backends);
            let backend = all.iter_mut().find(|other| other.address == one.address);
            let Some(backend) = backend else {
                continue;
            };
            backend.unanswered = match answer {
                Some(_) => 0,
                None => backend.unanswered.saturating_add(1),
            };
            backend.ready = answer.unwrap_or(backend.unanswered < FAILURES && backend.ready);
        }
        tokio::time::sleep(PROBE).await;
    }
}

/// Whether `/readyz` answers 200.
pub(super) async fn ready(health: SocketAddr) -> bool {
    probe_once(health).await == Some(true)
}

/// Whether `/readyz` answers 200; nothing if it does not answer in time.
async fn probe_once(health: SocketAddr) -> Option<bool> {
    let answer = tokio::time::timeout(Duration::from_secs(1), get(health, "/readyz")).await;
    Some(answer.ok()?.ok()?.starts_with("HTTP/1.1 200 "))
}

/// The whole answer of the plain port, head and body.
pub(super) async fn get(health: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(health).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: replica\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn lock(backends: &Mutex<Vec<Backend>>) -> std::sync::MutexGuard<'_, Vec<Backend>> {
    backends.lock().unwrap_or_else(PoisonError::into_inner)
}
