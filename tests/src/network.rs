//! A network namespace, and the way into it from the test process.
//!
//! A socket stays in the namespace of the thread that made it. One thread of the test process is in
//! the namespace and makes connections there; the others listen on loopback and hand over what they
//! accept. So a client of the test reaches a server in the namespace at 127.0.0.1.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// A network namespace of a process.
#[derive(Debug, Clone)]
pub struct Network {
    pid: i32,
    forward: UnboundedSender<Forward>,
}

/// Connections that `listener` accepts go to `target` in the namespace.
struct Forward {
    listener: std::net::TcpListener,
    target: SocketAddr,
}

impl Network {
    /// The network namespace of the process `pid`.
    pub fn of(pid: i32) -> Result<Self> {
        let file = File::open(format!("/proc/{pid}/ns/net"))
            .with_context(|| format!("failed to open the network namespace of {pid}"))?;
        let (forward, orders) = unbounded_channel();
        let (tell, told) = std::sync::mpsc::channel();
        thread::Builder::new()
            .name(format!("network-{pid}"))
            .spawn(move || {
                let entered = enter(&file);
                drop(file);
                let runtime = entered.and_then(|()| {
                    Ok(tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()?)
                });
                let (runtime, result) = match runtime {
                    Ok(runtime) => (Some(runtime), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // The one who asked may have gone.
                let _ = tell.send(result);
                if let Some(runtime) = runtime {
                    runtime.block_on(carry_out(orders));
                }
            })
            .context("failed to start a thread")?;
        told.recv().context("the thread of a network ended")??;
        Ok(Self { pid, forward })
    }

    /// The command that runs another in this namespace.
    pub fn enter(&self) -> Vec<String> {
        let target = format!("--target={}", self.pid);
        ["nsenter", &target, "--net", "--"]
            .map(str::to_owned)
            .into()
    }

    /// Listens on 127.0.0.1 and the port of `target`, an address in the namespace, until the last
    /// clone of this network is dropped.
    pub fn forward(&self, port: u16, target: (Ipv4Addr, u16)) -> Result<()> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("failed to listen on 127.0.0.1:{port}"))?;
        listener.set_nonblocking(true)?;
        let target = SocketAddr::from(target);
        self.forward
            .send(Forward { listener, target })
            .ok()
            .context("the thread of a network has ended")
    }
}

fn enter(file: &File) -> Result<()> {
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .context("failed to enter a network namespace")
}

/// Runs until nobody can give an order any more.
async fn carry_out(mut orders: UnboundedReceiver<Forward>) {
    let mut forwards = JoinSet::new();
    while let Some(Forward { listener, target }) = orders.recv().await {
        // The listener has the namespace of the thread that made it.
        if let Ok(listener) = TcpListener::from_std(listener) {
            forwards.spawn(accept(listener, target));
        }
    }
}

async fn accept(listener: TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((mut near, _)) = accepted else { continue };
                connections.spawn(async move {
                    // A server that is not there is an end of the connection: as good as a refusal.
                    if let Ok(mut far) = TcpStream::connect(target).await {
                        let _ = near.set_nodelay(true);
                        let _ = far.set_nodelay(true);
                        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
