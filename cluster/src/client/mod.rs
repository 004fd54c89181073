//! Connects to a cluster, from kubectl's flags and the kubeconfig.

mod clock;
mod connect;
pub(crate) mod credentials;
mod options;
mod server_url;
mod session;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

pub use clock::ServerClock;
pub use options::{ClientOptions, Identity};
pub use server_url::without_user;

use crate::warning::ServerWarnings;
use crate::watch_state::WatchStates;
use clock::SharedClock;
use credentials::Credentials;
use session::Session;

pub const USER_AGENT: &str = concat!("nodelife/", env!("CARGO_PKG_VERSION"));

/// A connection to one cluster. Cheap to clone.
///
/// kube's own retries are off: they repeat a POST that a budget refused with 429,
/// up to 15 times and unseen. Reads are repeated by [`Cluster::read`] instead,
/// writes are sent once.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) session: Session,
    pub(crate) config: Arc<kube::Config>,
    pub(crate) server: Arc<str>,
    pub(crate) timeout: Option<Duration>,
    /// The server's clock by its answers. Once it has answered, a refused connection is a
    /// restart worth waiting for, and not a wrong address.
    pub(crate) reached: SharedClock,
    /// When the server last could not be reached. One that has just started forbids everything
    /// until its authorizer has read the roles.
    pub(crate) lost: Arc<Mutex<Option<Instant>>>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) warnings: ServerWarnings,
    pub(crate) watches: WatchStates,
    pub(crate) impersonates: bool,
    pub(crate) user: Arc<OnceCell<Value>>,
    /// Room for pages that are asked for before the one in front of them is here: of all the
    /// lists that go on at once, the longest gains by it, and each page is some megabytes.
    pub(crate) ahead: Arc<Semaphore>,
    /// Room for Events that are written at once: each has a connection meanwhile.
    pub(crate) events: Arc<Semaphore>,
    namespace: Arc<str>,
    version: Option<Arc<ServerVersion>>,
    /// The proxy on the way, without its user and password.
    proxy: Option<Arc<str>>,
}

/// `GET /version`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerVersion {
    /// `v1.36.3`
    pub git_version: String,
    /// `1`
    #[serde(default)]
    pub major: String,
    /// `36`, or `36+` of some providers.
    #[serde(default)]
    pub minor: String,
}

impl Cluster {
    /// URL of the API server, without a slash at its end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of the flags or of the context.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn server_version(&self) -> Option<&ServerVersion> {
        self.version.as_deref()
    }

    /// The server's time; ours before its first answer.
    pub fn clock(&self) -> ServerClock {
        self.reached.get().unwrap_or_default()
    }

    pub fn warnings(&self) -> &ServerWarnings {
        &self.warnings
    }

    pub fn watches(&self) -> &WatchStates {
        &self.watches
    }

    /// The client underneath, for what is not covered here. It repeats nothing by itself.
    pub fn client(&self) -> Client {
        self.session.client()
    }
}
