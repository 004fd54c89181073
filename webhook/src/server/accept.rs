//! The accept loop: one task per connection, each with its limits.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::CONNECTION;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nodelife_process::{ConnectionState, Connections, EXHAUSTED};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::deadline::{DeadlineStream, Deadlines};
use super::handler::{State, answer};

/// Longest TLS handshake; the API server gives itself as long.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Deadlines of clients. The API server closes idle connections after 90 s (Go's default
/// transport); a server that closes them earlier races with a call.
const DEADLINES: Deadlines = Deadlines {
    head: Duration::from_secs(10),
    idle: Duration::from_mins(2),
    // A client connects for a request that is there.
    settled: Duration::from_secs(2),
    body: Duration::from_secs(1),
};
/// The last words on an idle connection. A POST that Go's transport writes to a connection while the
/// server closes it fails; but it sends it again, elsewhere, after an unexpected response if it has
/// not written anything of it (net/http/transport.go, `nothingWrittenError`), and client-go after
/// this response if it takes it for that to its request (client-go `rest/with_retry.go`).
const FAREWELL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
/// Time for the client to read the farewell and to close.
const LINGER: Duration = Duration::from_secs(2);
/// Concurrent connections: an API server keeps 25 idle ones, and opens as many as it has
/// requests in flight. An idle one takes 20 to 30 KiB.
const CONNECTIONS: usize = 1024;
/// File descriptors for everything else: lookups, logs, the health port.
const OTHER_FILES: u64 = 256;
/// Largest head of a request; the API server sends a few hundred bytes.
const LARGEST_HEAD: usize = 16 << 10;

pub(crate) struct Acceptor {
    pub(crate) tls: Arc<ArcSwap<ServerConfig>>,
    pub(crate) state: Arc<State>,
    pub(crate) connections: TaskTracker,
}

/// Raises the soft limit of open files for so many connections, up to the hard limit. containerd 2
/// starts containers with a soft limit of 1024, and a listener without a free file descriptor keeps
/// the API server waiting.
pub(crate) fn raise_file_limit() {
    let wanted = CONNECTIONS as u64 + OTHER_FILES;
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let limit = wanted.min(hard);
        if soft >= limit {
            return Ok(());
        }
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard)
    });
    if let Err(error) = raised {
        tracing::warn!(%error, wanted, "failed to raise the limit of open files");
    }
}

impl Acceptor {
    /// Accepts until the shutdown stops it. Open connections continue in their tracker.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let open = Connections::new(CONNECTIONS);
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.state.shutdown.stopped.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (this, state) = (Arc::clone(&self), ConnectionState::default());
                    let slot = open.enter(peer.ip().to_canonical(), state.clone());
                    self.connections.spawn(async move {
                        tokio::select! {
                            () = this.serve(stream, peer, state) => {}
                            () = slot.closed() => {
                                tracing::debug!(%peer, "closed for a new connection");
                            }
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(EXHAUSTED).await;
                }
            }
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr, state: ConnectionState) {
        // Responses are small and urgent.
        let _ = stream.set_nodelay(true);
        let tls = TlsAcceptor::from(self.tls.load_full());
        let handshake = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await;
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.state.metrics.handshake("failed");
                tracing::debug!(%peer, %error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                self.state.metrics.handshake("slow");
                tracing::debug!(%peer, "TLS handshake took too long");
                return;
            }
        };
        self.state.metrics.handshake("done");
        let stream = DeadlineStream::new(stream, DEADLINES, state.clone());
        let peer_ip = peer.ip().to_canonical();
        let service = service_fn(async |request| {
            state.begin_request();
            let mut answer = answer(&self.state, request, peer_ip).await;
            state.end_request();
            if self.state.shutdown.leaving.load(Ordering::Relaxed) {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(answer)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            // It starts at the last response; `DeadlineStream` has separate deadlines.
            .header_read_timeout(None)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .without_shutdown();
        let mut connection = pin!(connection);
        let served = tokio::select! {
            biased;
            served = &mut connection => served,
            () = self.state.shutdown.idle.cancelled() => {
                state.close_when_idle();
                connection.await
            }
        };
        match served {
            Ok(parts) => {
                let mut stream = parts.io.into_inner();
                if stream.was_closed_idle() {
                    say_farewell(stream.into_inner()).await;
                } else {
                    let _ = stream.shutdown().await;
                }
            }
            Err(error) => tracing::debug!(%peer, %error, "connection ended"),
        }
    }
}

/// Ends an idle connection so that no request is lost. A client whose request is on its way has to
/// be able to send it: closing the socket with unread bytes would reset the connection, and the
/// client might not read the farewell.
async fn say_farewell(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let farewell = async {
        stream.write_all(FAREWELL).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(LINGER, farewell).await;
}
