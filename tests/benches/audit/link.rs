//! Slow link to the API server: limits the total bytes per second of all connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Bytes that are passed on at once: 6 ms of 10 MB/s.
const PIECE: usize = 64 << 10;

/// A running relay; it ends when it is dropped.
pub(crate) struct Link {
    address: SocketAddr,
    /// Bytes that came from the server so far.
    carried: Arc<Mutex<Pace>>,
    _task: JoinSet<()>,
}

/// When the line is free again, and what went over it.
struct Pace {
    bytes_a_second: u32,
    free: Instant,
    carried: u64,
}

impl Link {
    /// Listens on loopback and passes everything on to `server`; what comes from there passes
    /// at `bytes_a_second`.
    pub(crate) async fn start(server: String, bytes_a_second: u32) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let pace = Arc::new(Mutex::new(Pace {
            bytes_a_second,
            free: Instant::now(),
            carried: 0,
        }));
        let carried = Arc::clone(&pace);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((client, _)) = listener.accept() => {
                        let (server, pace) = (server.clone(), Arc::clone(&pace));
                        connections.spawn(async move {
                            // How a connection ends is for its two ends to notice.
                            drop(carry(client, &server, &pace).await);
                        });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            carried,
            _task: task,
        })
    }

    /// The text of a kubeconfig, with this link in place of the server at `url`.
    pub(crate) fn kubeconfig(&self, text: &str, url: &str) -> Result<String> {
        anyhow::ensure!(text.contains(url), "the kubeconfig does not name {url}");
        Ok(text.replace(url, &format!("https://{}", self.address)))
    }

    /// Bytes that came from the server since this was last asked.
    pub(crate) async fn carried(&self) -> u64 {
        std::mem::take(&mut self.carried.lock().await.carried)
    }
}

async fn carry(client: TcpStream, server: &str, pace: &Mutex<Pace>) -> Result<()> {
    let server = TcpStream::connect(server)
        .await
        .with_context(|| format!("failed to reach {server}"))?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let down = async {
        let mut piece = vec![0; PIECE];
        loop {
            let length = from_server.read(&mut piece).await?;
            if length == 0 {
                return to_client.shutdown().await;
            }
            let free = {
                let mut pace = pace.lock().await;
                let length = u32::try_from(length).unwrap_or(u32::MAX);
                let takes = Duration::from_secs(1) * length / pace.bytes_a_second;
                pace.free = pace.free.max(Instant::now()) + takes;
                pace.carried += u64::from(length);
                pace.free
            };
            sleep_until(free).await;
            to_client
                .write_all(piece.get(..length).unwrap_or_default())
                .await?;
        }
    };
    tokio::try_join!(up, down)?;
    Ok(())
}
