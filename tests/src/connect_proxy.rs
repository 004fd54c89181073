//! HTTP CONNECT proxy, as in company networks.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running proxy; it ends when it is dropped. It belongs to the runtime of the test.
pub struct ConnectProxy {
    address: SocketAddr,
    opened: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl ConnectProxy {
    /// Starts it on loopback. It connects to whatever it is asked for.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((socket, _)) = listener.accept() => {
                        let count = Arc::clone(&count);
                        connections.spawn(async move { drop(carry(socket, &count).await) });
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self {
            address,
            opened,
            _task: task,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }
}

async fn carry(socket: TcpStream, opened: &AtomicUsize) -> Result<()> {
    let mut client = BufReader::new(socket);
    let mut first = String::new();
    client.read_line(&mut first).await?;
    let mut line = String::new();
    while client.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let mut words = first.split_whitespace();
    let (Some("CONNECT"), Some(target)) = (words.next(), words.next()) else {
        client
            .write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
            .await?;
        return Ok(());
    };
    let mut server = TcpStream::connect(target).await?;
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    opened.fetch_add(1, Ordering::Relaxed);
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
