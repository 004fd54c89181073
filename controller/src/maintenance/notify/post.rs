//! One request to a channel.

use std::sync::Arc;

use http::{Request, Uri, header};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

const USER_AGENT: &str = concat!("nodelife-controller/", env!("CARGO_PKG_VERSION"));

/// Whether the receiver took the document. Redirects are not followed, and the answer's body is not read.
pub(super) async fn post(url: Uri, body: String) -> anyhow::Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(TLS_SERVER_ROOT_CERTS.iter().cloned());
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let is_https = url.scheme_str() == Some("https");
    let proxy = Matcher::from_env().intercept(&url).filter(|_| is_https);
    let request = Request::post(url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, USER_AGENT)
        .body(body)?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    let Some(proxy) = proxy else {
        return send(HttpsConnector::from((connector, tls)), request).await;
    };
    let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
    if let Some(auth) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(auth.clone());
    }
    send(HttpsConnector::from((tunnel, tls)), request).await
}

async fn send<C>(connector: C, request: Request<String>) -> anyhow::Result<()>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let status = client.request(request).await?.status();
    anyhow::ensure!(status.is_success(), "it answered {status}");
    Ok(())
}
