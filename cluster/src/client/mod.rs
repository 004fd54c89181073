//! From kubectl's flags to a connection.

mod clock;
pub(crate) mod credentials;
mod options;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use kube::Client;
use serde::Deserialize;
use tokio::sync::Semaphore;

pub use clock::ServerClock;
pub use options::ClientOptions;

use crate::error::{ApiError, ConnectError};
use crate::request::Call;
use crate::warning::ServerWarnings;
use credentials::Credentials;

/// How long a single request may take where `--request-timeout` says nothing. The
/// API server itself gives up after 60 s (`--request-timeout`), bar watches.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How many pages of all lists may be asked for early.
const PAGES_AHEAD: usize = 1;

/// What every request says of its sender.
pub const USER_AGENT: &str = concat!("nodelife/", env!("CARGO_PKG_VERSION"));

/// A connection to one cluster. Cheap to clone.
///
/// kube's own retries are off: they repeat a POST that a budget refused with 429,
/// up to 15 times and unseen. Reads are repeated by [`Cluster::read`] instead,
/// writes are sent once.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
    pub(crate) server: Arc<str>,
    pub(crate) timeout: Option<Duration>,
    /// The server's clock by its first answer. Once it has answered, a refused connection is a
    /// restart worth waiting for, and not a wrong address.
    pub(crate) reached: Arc<OnceLock<ServerClock>>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) warnings: ServerWarnings,
    /// Whether every request is sent as somebody else already.
    pub(crate) impersonates: bool,
    /// Room for pages that are asked for before the one in front of them is here: of all the
    /// lists that go on at once, the longest gains by it, and each page is some megabytes.
    pub(crate) ahead: Arc<Semaphore>,
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
    /// Connects, and asks the server for its version.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says what is missing or wrong; nothing is retried here, so a
    /// wrong address shows at once.
    pub async fn connect(options: &ClientOptions) -> Result<Self, ConnectError> {
        let config = options.config().await?;
        Self::with_config(config, options.request_timeout).await
    }

    /// Connects without asking for the version: the first request shows whether the server is
    /// there, and [`Cluster::unmet`] says what it means if not.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says what is missing or wrong on this side.
    pub async fn unannounced(options: &ClientOptions) -> Result<Self, ConnectError> {
        let config = options.config().await?;
        Self::set_up(config, options.request_timeout)
    }

    /// Connects by a ready configuration: what tests and the webhook have at hand.
    ///
    /// `request_timeout` is `None` for the default, zero for no limit at all.
    ///
    /// # Errors
    ///
    /// As [`Cluster::connect`].
    pub async fn with_config(
        config: kube::Config,
        request_timeout: Option<Duration>,
    ) -> Result<Self, ConnectError> {
        let mut cluster = Self::set_up(config, request_timeout)?;
        match cluster.greet().await {
            Ok(()) => Ok(cluster),
            Err(error) => Err(cluster.unmet(error)),
        }
    }

    fn set_up(
        mut config: kube::Config,
        request_timeout: Option<Duration>,
    ) -> Result<Self, ConnectError> {
        let server: Arc<str> = config.cluster_url.to_string().trim_end_matches('/').into();
        let namespace = config.default_namespace.as_str().into();
        let impersonates = config.auth_info.impersonate.is_some();
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.headers.push((
            HeaderName::from_static("user-agent"),
            HeaderValue::from_static(USER_AGENT),
        ));
        let credentials = Arc::new(Credentials::of(&config.auth_info));
        let exec = config.auth_info.exec.clone();
        let proxy = config.proxy_url.as_ref().map(|proxy| {
            let port = proxy.port().map(|port| format!(":{port}"));
            let host = proxy.host().unwrap_or_default();
            format!("{host}{}", port.unwrap_or_default()).into()
        });
        // Runs the credential plugin, if there is one.
        let client = Client::try_from(config).map_err(|error| match error {
            kube::Error::Auth(error) => ConnectError::Api(ApiError::Credentials {
                server: server.to_string(),
                reason: credentials::reason(&error, exec.as_ref()),
            }),
            error => ConnectError::Setup {
                server: server.to_string(),
                reason: options::innermost(&error),
            },
        })?;
        Ok(Self {
            client,
            server,
            timeout: match request_timeout {
                None => Some(DEFAULT_REQUEST_TIMEOUT),
                Some(Duration::ZERO) => None,
                Some(limit) => Some(limit),
            },
            reached: Arc::default(),
            credentials,
            warnings: ServerWarnings::default(),
            impersonates,
            ahead: Arc::new(Semaphore::new(PAGES_AHEAD)),
            namespace,
            version: None,
            proxy,
        })
    }

    /// What the failure of a first request means.
    pub fn unmet(&self, error: ApiError) -> ConnectError {
        match (error, &self.proxy) {
            (ApiError::Unreachable { server, reason }, Some(proxy)) => ConnectError::Proxy {
                server,
                proxy: proxy.to_string(),
                reason,
            },
            (error, _) => error.into(),
        }
    }

    /// Asks for the version. An authorizer may hide it; a failure of any other kind means
    /// that nothing else would work either.
    async fn greet(&mut self) -> Result<(), ApiError> {
        let call = Call::path("/version");
        let answer = self.exchange(&call).await?;
        if answer.code() == 403 {
            return Ok(());
        }
        let answer = self.accept(&call, answer)?;
        self.version = Some(Arc::new(answer.json(&call)?));
        Ok(())
    }

    /// URL of the API server, without a slash at its end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of the flags or of the context.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The server's version; absent if it is hidden from us.
    pub fn server_version(&self) -> Option<&ServerVersion> {
        self.version.as_deref()
    }

    /// The server's time; ours before its first answer.
    pub fn clock(&self) -> ServerClock {
        self.reached.get().copied().unwrap_or_default()
    }

    /// What the server warns of, from the first request on.
    pub fn warnings(&self) -> &ServerWarnings {
        &self.warnings
    }

    /// The client underneath, for what is not covered here. It repeats nothing by itself.
    pub fn client(&self) -> &Client {
        &self.client
    }
}
