//! `Session`: the client with the credentials of the moment.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio::sync::Mutex;
use tower::{BoxError, ServiceBuilder};
use tower_http::decompression::DecompressionLayer;

/// How often a credential plugin runs at most, also where the API server takes none of its tokens.
const PAUSE: Duration = Duration::from_secs(5);

/// How much of an answer is read at once: one record of TLS.
const READ_SIZE: usize = 16 << 10;

#[derive(Clone)]
pub(crate) struct Session {
    client: Arc<RwLock<Client>>,
    plugin: Option<Arc<Plugin>>,
}

struct Plugin {
    config: Config,
    /// When it ran again last.
    ran: Mutex<Option<Instant>>,
}

impl Session {
    pub(crate) fn new(config: Config, has_plugin: bool) -> kube::Result<Self> {
        let plugin = has_plugin.then(|| Plugin {
            config: config.clone(),
            ran: Mutex::default(),
        });
        Ok(Self {
            client: Arc::new(RwLock::new(client(config)?)),
            plugin: plugin.map(Arc::new),
        })
    }

    pub(crate) fn client(&self) -> Client {
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner);
        client.clone()
    }

    /// Runs the credential plugin again, since the API server does not take what it said last.
    /// kube keeps a token without `expirationTimestamp` for ever; client-go runs the plugin anew
    /// after each 401 (v0.36.3, `plugin/pkg/client/auth/exec/exec.go`, `maybeRefreshCreds`).
    pub(crate) async fn renew(&self) {
        let Some(plugin) = self.plugin.clone() else {
            return;
        };
        // Requests that were refused together wait for one run.
        let mut ran = plugin.ran.lock().await;
        if ran.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        *ran = Some(Instant::now());
        let config = plugin.config.clone();
        // A plugin may take its time, and kube waits for it.
        match tokio::task::spawn_blocking(|| client(config)).await {
            Ok(Ok(client)) => {
                *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the credential plugin failed"),
            Err(error) => tracing::debug!(%error, "the credential plugin was lost"),
        }
    }
}

/// What kube makes of a configuration (kube-client 5.0.0, `src/client/builder.rs`), but for the room that each
/// connection reads into: hyper's grows to 400 KiB with the first large answer, and a watch keeps it. Where a
/// proxy is on the way the client is kube's own.
fn client(config: Config) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let auth = config.auth_layer()?;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .http1_read_buf_exact_size(READ_SIZE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(DecompressionLayer::new().gzip(!config.disable_compression))
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
