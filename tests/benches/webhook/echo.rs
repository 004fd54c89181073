//! Lower bound of the bench: a bare axum + rustls server that echoes its input.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

struct Listener {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = self.listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Answers at `address` until it is killed.
pub(crate) fn run(address: SocketAddr, folder: &Path) -> Result<()> {
    let certificate = fs::read(folder.join("tls.crt"))?;
    let key = fs::read(folder.join("tls.key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(&certificate)?],
            PrivateKeyDer::from_pem_slice(&key)?,
        )?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = Listener {
            listener: TcpListener::bind(address).await?,
            tls: TlsAcceptor::from(Arc::new(config)),
        };
        let router: Router = Router::new().route("/echo", post(async |body: Bytes| body));
        Ok(axum::serve(listener, router).await?)
    })
}
