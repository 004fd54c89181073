//! `Session`: the client with the credentials of the moment.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kube::{Client, Config};
use tokio::sync::Mutex;

/// How often a credential plugin runs at most: an API server that takes none of its tokens is no
/// reason to run it for each request.
const PAUSE: Duration = Duration::from_secs(5);

/// A client; clones share it, and its successor.
#[derive(Clone)]
pub(crate) struct Session {
    client: Arc<RwLock<Client>>,
    plugin: Option<Arc<Plugin>>,
}

/// The inputs of a client with new credentials.
struct Plugin {
    config: Config,
    /// When it ran again last.
    ran: Mutex<Option<Instant>>,
}

impl Session {
    /// Runs the credential plugin, if there is one.
    pub(crate) fn new(config: Config, has_plugin: bool) -> kube::Result<Self> {
        let plugin = has_plugin.then(|| Plugin {
            config: config.clone(),
            ran: Mutex::default(),
        });
        Ok(Self {
            client: Arc::new(RwLock::new(Client::try_from(config)?)),
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
        match tokio::task::spawn_blocking(|| Client::try_from(config)).await {
            Ok(Ok(client)) => {
                *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
            }
            Ok(Err(error)) => tracing::debug!(%error, "the credential plugin failed"),
            Err(error) => tracing::debug!(%error, "the credential plugin was lost"),
        }
    }
}
