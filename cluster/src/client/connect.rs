//! Connects to the API server and reads its version.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use tokio::sync::Semaphore;

use super::clock::SharedClock;
use super::credentials::{self, Credentials};
use super::options::{self, ClientOptions};
use super::server_url::without_user;
use super::session::Session;
use super::{Cluster, ServerVersion, USER_AGENT};
use crate::error::{ApiError, ApiResult, ConnectError};
use crate::request::Call;
use crate::warning::ServerWarnings;
use crate::watch_state::WatchStates;

/// How long a single request may take where `--request-timeout` says nothing. The
/// API server itself gives up after 60 s (`--request-timeout`), bar watches.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

const PAGES_AHEAD: usize = 1;

const EVENTS_AT_ONCE: usize = 10;

impl Cluster {
    /// Connects, and asks the server for its version.
    /// The error says what is missing or wrong; nothing is retried here, so a
    /// wrong address shows at once.
    pub async fn connect(options: &ClientOptions) -> Result<Self, ConnectError> {
        let config = options.config().await?;
        Self::with_config(config, options.request_timeout).await
    }

    /// Connects without asking for the version: the first request shows whether the server is
    /// there, and [`Cluster::connect_error`] says what it means if not.
    pub async fn without_handshake(options: &ClientOptions) -> Result<Self, ConnectError> {
        let config = options.config().await?;
        Self::build(config, options.request_timeout)
    }

    /// Connects by a ready configuration: what tests have at hand.
    ///
    /// `request_timeout` is `None` for the default, zero for no limit at all.
    pub async fn with_config(
        config: kube::Config,
        request_timeout: Option<Duration>,
    ) -> Result<Self, ConnectError> {
        let mut cluster = Self::build(config, request_timeout)?;
        match cluster.fetch_version().await {
            Ok(version) => {
                cluster.version = version.map(Arc::new);
                Ok(cluster)
            }
            Err(error) => Err(cluster.connect_error(error)),
        }
    }

    /// As [`Cluster::with_config`], without asking for the version.
    pub fn build(
        mut config: kube::Config,
        request_timeout: Option<Duration>,
    ) -> Result<Self, ConnectError> {
        let server = without_user(&config.cluster_url.to_string());
        let server: Arc<str> = server.trim_end_matches('/').into();
        let namespace = config.default_namespace.as_str().into();
        let impersonates = config.auth_info.impersonate.is_some();
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.headers.push((
            HeaderName::from_static("user-agent"),
            HeaderValue::from_static(USER_AGENT),
        ));
        let credentials = Arc::new(Credentials::of(&config.auth_info));
        let proxy = config.proxy_url.as_ref().map(|proxy| {
            let port = proxy.port().map(|port| format!(":{port}"));
            let host = proxy.host().unwrap_or_default();
            format!("{host}{}", port.unwrap_or_default()).into()
        });
        let session = session(&config, &credentials, &server)?;
        Ok(Self {
            session,
            config: Arc::new(config),
            server,
            timeout: match request_timeout {
                None => Some(DEFAULT_REQUEST_TIMEOUT),
                Some(Duration::ZERO) => None,
                Some(limit) => Some(limit),
            },
            reached: SharedClock::default(),
            lost: Arc::default(),
            credentials,
            warnings: ServerWarnings::default(),
            watches: WatchStates::default(),
            impersonates,
            user: Arc::default(),
            ahead: Arc::new(Semaphore::new(PAGES_AHEAD)),
            events: Arc::new(Semaphore::new(EVENTS_AT_ONCE)),
            namespace,
            version: None,
            proxy,
        })
    }

    /// The same cluster, by its own connection, which belongs to the runtime of the first request.
    pub fn with_own_connection(&self) -> Result<Self, ConnectError> {
        Ok(Self {
            session: session(&self.config, &self.credentials, &self.server)?,
            ..self.clone()
        })
    }

    pub fn connect_error(&self, error: ApiError) -> ConnectError {
        match (error, &self.proxy) {
            (ApiError::Unreachable { server, reason }, Some(proxy)) => ConnectError::Proxy {
                server,
                proxy: proxy.to_string(),
                reason,
            },
            // The API server's own answers are a Status, but for a path of a group that it does not serve.
            (ApiError::NotFound(answer), _)
                if answer.status.is_none()
                    && answer.text.as_deref().map(str::trim) != Some("404 page not found") =>
            {
                ConnectError::NotAnApiServer {
                    server: self.server.to_string(),
                    reason: ApiError::NotFound(answer).to_string(),
                }
            }
            (ApiError::Malformed { path, reason }, _) => ConnectError::NotAnApiServer {
                server: self.server.to_string(),
                reason: format!("{path}: {reason}"),
            },
            (error, _) => error.into(),
        }
    }

    /// Asks for the version, which an upgrade may have changed since the connection; none if an
    /// authorizer hides it.
    /// A failure of any other kind means that nothing else would work either.
    pub async fn fetch_version(&self) -> ApiResult<Option<ServerVersion>> {
        let call = Call::path("/version");
        let answer = self.exchange(&call).await?;
        if answer.code() == 403 {
            return Ok(None);
        }
        self.accept(&call, answer)?.json(&call).map(Some)
    }
}

fn session(
    config: &kube::Config,
    credentials: &Credentials,
    server: &str,
) -> Result<Session, ConnectError> {
    let has_plugin = matches!(credentials, Credentials::Plugin(_));
    Session::new(config.clone(), has_plugin).map_err(|error| match error {
        kube::Error::Auth(error) => ConnectError::Api(ApiError::Credentials {
            server: server.to_owned(),
            reason: credentials::reason(&error, config.auth_info.exec.as_ref()),
        }),
        error => ConnectError::Setup {
            server: server.to_owned(),
            reason: without_user(&options::innermost(&error)),
        },
    })
}
