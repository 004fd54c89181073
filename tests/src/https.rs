//! Minimal webhook client: one TLS connection and handwritten HTTP/1.1, so that tests can send
//! malformed requests and benches measure nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::pki::KeyAndCertificate;

/// The name in the webhook's certificate: its Service's.
pub const NAME: &str = "nodelife-webhook.nodelife-system.svc";

/// What a client trusts and who it is.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
}

impl TlsClient {
    /// Trusts the PEM certificate `ca`, and presents `own` if there is one.
    pub fn new(ca: &str, own: Option<&KeyAndCertificate>) -> Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match own {
            None => config.with_no_client_auth(),
            Some(own) => config.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(own.certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes())?,
            )?,
        };
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Opens a connection to the webhook at `address`.
    pub async fn connect(&self, address: SocketAddr) -> Result<Connection> {
        self.over(TcpStream::connect(address).await?).await
    }

    /// A TLS connection over `stream`.
    pub async fn over(&self, stream: TcpStream) -> Result<Connection> {
        self.to(NAME, stream).await
    }

    /// The same to a server of this name.
    pub async fn to(&self, name: &'static str, stream: TcpStream) -> Result<Connection> {
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(name)?;
        let stream = self.connector.connect(name, stream).await?;
        Ok(Connection {
            stream,
            rest: Vec::new(),
        })
    }
}

pub struct Connection {
    stream: TlsStream<TcpStream>,
    /// Read, and not used yet.
    rest: Vec<u8>,
}

/// Status, head (in lower case) and body of an answer.
#[derive(Debug)]
pub struct HttpsResponse {
    pub status: u16,
    /// The head in lower case, status line included.
    pub head: String,
    pub body: String,
}

impl Connection {
    /// Writes head and body and reads the answer.
    pub async fn send(&mut self, head: &str, body: &[u8]) -> Result<HttpsResponse> {
        self.write(head.as_bytes()).await?;
        self.write(body).await?;
        self.answer().await
    }

    /// Posts a JSON document to `path`.
    pub async fn post(&mut self, path: &str, body: &[u8]) -> Result<HttpsResponse> {
        self.send(&head(path, "application/json", body.len()), body)
            .await
    }

    /// Writes bytes, whatever they are.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// The next answer.
    pub async fn answer(&mut self) -> Result<HttpsResponse> {
        let end = loop {
            if let Some(at) = self.rest.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8_lossy(self.rest.get(..end).unwrap_or_default()).to_lowercase();
        self.rest.drain(..end);
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(Ok(0), str::parse::<usize>)?;
        while self.rest.len() < length {
            self.more().await?;
        }
        let body: Vec<u8> = self.rest.drain(..length).collect();
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(HttpsResponse { status, head, body })
    }

    async fn more(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.rest).await?;
        anyhow::ensure!(read > 0, "the connection ended");
        Ok(())
    }
}

/// The head of a POST of `length` bytes, with the time that the API server gives.
pub fn head(path: &str, kind: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    )
}
