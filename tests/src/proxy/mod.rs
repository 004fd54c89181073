//! Fault-injecting TLS proxy in front of the API server.
//!
//! It serves with a certificate of the control plane's CA and forwards to the API server as one
//! identity. Watches and logs stream through. It runs on a thread of its own, so a test may block.

mod gate;
mod rule;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use kube::Client;
use kube::client::Body;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::control_plane::{ControlPlane, Identity, client_of, write_kubeconfig};
use crate::pki::KeyAndCertificate;

pub use gate::Gate;
pub use rule::{Fault, FaultRule};

/// A running proxy; dropping it ends it and cuts what goes through.
pub struct Proxy {
    runtime: Option<Runtime>,
    state: Arc<State>,
    address: SocketAddr,
    kubeconfig: String,
    folder: PathBuf,
}

struct State {
    upstream: Client,
    rules: Mutex<Vec<FaultRule>>,
    counts: Mutex<BTreeMap<(String, String), usize>>,
    struck: AtomicUsize,
    ahead: AtomicI64,
}

impl Proxy {
    /// Starts a proxy that asks the API server as `identity`, regardless of its client.
    pub fn start(plane: &ControlPlane, identity: &Identity) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .context("failed to make the proxy's runtime")?;
        let upstream = plane.kubeconfig(identity)?;
        let acceptor = acceptor(&plane.authority().server(&["localhost"], &[])?)?;
        // A test may call this from its own runtime, where blocking on another is not allowed.
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let state = async {
                let upstream = client_of(&upstream).await?;
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let address = listener.local_addr()?;
                let state = Arc::new(State {
                    upstream,
                    rules: Mutex::default(),
                    counts: Mutex::default(),
                    struck: AtomicUsize::new(0),
                    ahead: AtomicI64::new(0),
                });
                anyhow::Ok((state, listener, address))
            }
            .await;
            match state {
                Ok((state, listener, address)) => {
                    let _ = sender.send(Ok((Arc::clone(&state), address)));
                    accept(listener, acceptor, state).await;
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        });
        let (state, address) = receiver.recv().context("the proxy did not start")??;
        let kubeconfig =
            plane.kubeconfig_for(&format!("https://{address}"), &Identity::Anonymous)?;
        Ok(Self {
            runtime: Some(runtime),
            state,
            address,
            kubeconfig,
            folder: plane.folder().to_owned(),
        })
    }

    /// Adds a rule; the first rule that strikes a request decides.
    pub fn fault(&self, rule: FaultRule) {
        lock(&self.state.rules).push(rule);
    }

    /// Forgets all rules: everything passes.
    pub fn heal(&self) {
        lock(&self.state.rules).clear();
    }

    /// Dates all answers from now on so many seconds later, as after a sleep of the client's machine.
    pub fn date_later(&self, seconds: i64) {
        self.state.ahead.store(seconds, Ordering::Relaxed);
    }

    /// How many requests came with this method whose path contains `part`.
    pub fn count(&self, method: &Method, part: &str) -> usize {
        let counts = lock(&self.state.counts);
        counts
            .iter()
            .filter(|((seen, path), _)| seen == method.as_str() && path.contains(part))
            .map(|(_, count)| count)
            .sum()
    }

    /// How many requests a rule has struck.
    pub fn struck(&self) -> usize {
        self.state.struck.load(Ordering::Relaxed)
    }

    /// How many requests came, by method and path.
    pub fn counts(&self) -> BTreeMap<(String, String), usize> {
        lock(&self.state.counts).clone()
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A client that goes through the proxy.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.kubeconfig).await
    }

    /// Writes a kubeconfig that goes through the proxy and gives its path.
    pub fn kubeconfig_file(&self) -> Result<PathBuf> {
        write_kubeconfig(&self.folder, &self.kubeconfig)
    }

    /// The folder that the kubeconfig is written to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // A runtime must not be waited for on a thread of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn acceptor(pair: &KeyAndCertificate) -> Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((socket, _)) = listener.accept() => {
                connections.spawn(serve(socket, acceptor.clone(), Arc::clone(&state)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(socket: TcpStream, acceptor: TlsAcceptor, state: Arc<State>) {
    let Ok(socket) = acceptor.accept(socket).await else {
        return;
    };
    let service = service_fn(|request| answer(request, &state));
    // How a connection ends is for its client to notice.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .await;
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Cut>> + Send>>;

/// The connection is to be closed without (the rest of) an answer.
#[derive(Debug, thiserror::Error)]
#[error("the proxy cuts this connection")]
struct Cut;

async fn answer(
    request: Request<Incoming>,
    state: &State,
) -> Result<Response<StreamBody<Chunks>>, Cut> {
    let key = (
        request.method().to_string(),
        request.uri().path().to_owned(),
    );
    *lock(&state.counts).entry(key).or_default() += 1;
    let fault = lock(&state.rules)
        .iter_mut()
        .find_map(|rule| rule.strikes(&request).then(|| rule.fault.clone()));
    if fault.is_some() {
        state.struck.fetch_add(1, Ordering::Relaxed);
    }
    match fault {
        None => forward(request, state).await,
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(time).await;
            forward(request, state).await
        }
        Some(Fault::Hold(gate)) => {
            gate.pass().await;
            forward(request, state).await
        }
        Some(Fault::HoldBody(gate)) => {
            Ok(forward(request, state).await?.map(|body| held(body, gate)))
        }
        Some(Fault::Link(gate)) => {
            gate.pass().await;
            Ok(forward(request, state).await?.map(|body| held(body, gate)))
        }
        Some(Fault::Drop) => Err(Cut),
        Some(Fault::DropAnswer) => {
            let answer = forward(request, state).await?;
            // The API server is done when its answer is complete.
            let _ = BodyExt::collect(answer.into_body()).await;
            Err(Cut)
        }
        Some(Fault::Answer {
            status,
            headers,
            body,
        }) => invented(status, headers, body),
        Some(Fault::Truncate(bytes)) => Ok(forward(request, state)
            .await?
            .map(|body| truncated(body, bytes))),
        Some(Fault::Throttle(bytes)) => Ok(forward(request, state)
            .await?
            .map(|body| throttled(body, bytes))),
    }
}

async fn forward(
    request: Request<Incoming>,
    state: &State,
) -> Result<Response<StreamBody<Chunks>>, Cut> {
    let (mut head, body) = request.into_parts();
    // Both are the client's matter with the proxy: the proxy's own client sets them anew.
    head.headers.remove(header::HOST);
    head.headers.remove(header::AUTHORIZATION);
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let request = Request::from_parts(head, Body::from(body.to_vec()));
    let response = state.upstream.send(request).await.map_err(|_| Cut)?;
    let (mut head, body) = response.into_parts();
    // The body passes in chunks of its own, and maybe not whole.
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(header::TRANSFER_ENCODING);
    date_later(&mut head.headers, state.ahead.load(Ordering::Relaxed));
    let chunks: Chunks = Box::pin(
        body.into_data_stream()
            .map(|chunk| chunk.map(Frame::data).map_err(|_| Cut)),
    );
    Ok(Response::from_parts(head, StreamBody::new(chunks)))
}

fn date_later(headers: &mut HeaderMap, seconds: i64) {
    let date = headers
        .get(header::DATE)
        .and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let Some(date) = date.filter(|_| seconds != 0) else {
        return;
    };
    let later = date.timestamp() + SignedDuration::from_secs(seconds);
    let later = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later);
    if let Some(later) = later.ok().and_then(|text| text.parse().ok()) {
        headers.insert(header::DATE, later);
    }
}

fn invented(
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
) -> Result<Response<StreamBody<Chunks>>, Cut> {
    let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(body)));
    let chunks: Chunks = Box::pin(stream::once(async { frame.map_err(|_| Cut) }));
    let mut response = Response::new(StreamBody::new(chunks));
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Cut)?;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    for (name, value) in headers {
        let value = HeaderValue::from_str(&value).map_err(|_| Cut)?;
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), value);
    }
    Ok(response)
}

fn truncated(body: StreamBody<Chunks>, limit: usize) -> StreamBody<Chunks> {
    let mut left = limit;
    let chunks = body.into_data_stream().flat_map(move |chunk| {
        let chunk = chunk.unwrap_or_default();
        let kept = chunk.slice(..chunk.len().min(left));
        left -= kept.len();
        let mut frames = vec![Ok(Frame::data(kept))];
        if left == 0 {
            frames.push(Err(Cut));
        }
        stream::iter(frames)
    });
    StreamBody::new(Box::pin(chunks))
}

fn held(body: StreamBody<Chunks>, gate: Gate) -> StreamBody<Chunks> {
    let chunks = body.then(move |chunk| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            chunk
        }
    });
    StreamBody::new(Box::pin(chunks))
}

fn throttled(body: StreamBody<Chunks>, bytes_a_second: usize) -> StreamBody<Chunks> {
    /// So often a second a piece is sent.
    const PIECES: usize = 10;
    let size = (bytes_a_second / PIECES).max(1);
    let pieces = body.into_data_stream().flat_map(move |chunk| {
        let pieces: Vec<_> = match chunk {
            Ok(chunk) => chunk
                .chunks(size)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect(),
            Err(cut) => vec![Err(cut)],
        };
        stream::iter(pieces)
    });
    // A piece takes its share of a second, however small the chunks are that come.
    let slow = pieces.then(move |piece| async move {
        if let Ok(piece) = &piece {
            #[expect(clippy::cast_precision_loss, reason = "far fewer bytes than 2⁵²")]
            let share = piece.len() as f64 / bytes_a_second.max(1) as f64;
            tokio::time::sleep(Duration::from_secs_f64(share)).await;
        }
        piece.map(Frame::data)
    });
    StreamBody::new(Box::pin(slow))
}
