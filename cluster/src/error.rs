//! Errors, grouped by what the caller can do about them.

use std::path::PathBuf;
use std::time::Duration;

use nodelife_core::response::ApiResponse;
use thiserror::Error;

use crate::resource::Target;

#[derive(Debug, Error)]
pub enum ConnectError {
    #[error(
        "no cluster configured: no kubeconfig at {}, and not running in a pod; use --kubeconfig \
         FILE or --server URL, or read files with -f", .looked.display()
    )]
    NoKubeconfig { looked: PathBuf },
    #[error("failed to read the kubeconfig: {reason}")]
    Kubeconfig { reason: String },
    #[error("the kubeconfig has no {what} \"{name}\"; {}", known_names(.known))]
    NotInKubeconfig {
        /// `context`, `cluster` or `user`.
        what: &'static str,
        name: String,
        known: Vec<String>,
    },
    #[error(
        "{} \"{server}\" {reason}",
        if *.by_flag { "-s (--server)" } else { "the server of the kubeconfig's cluster" }
    )]
    ServerAddress {
        by_flag: bool,
        server: String,
        reason: String,
    },
    #[error("the kubeconfig has no current context; use --context NAME ({})", known_names(.known))]
    NoContext { known: Vec<String> },
    #[error("--as-group, --as-uid and --as-user-extra require --as USER")]
    ImpersonationWithoutUser,
    #[error("failed to set up the connection to {server}: {reason}")]
    Setup { server: String, reason: String },
    #[error(
        "failed to reach the API server {server} through the proxy {proxy}: {reason}; \
         check --proxy-url, proxy-url of the kubeconfig, HTTPS_PROXY and NO_PROXY"
    )]
    Proxy {
        server: String,
        proxy: String,
        reason: String,
    },
    /// Something else listens there: a load balancer's page, another service.
    #[error(
        "{server} answers as no Kubernetes API server: {reason}; check -s (--server) or the server of \
         the kubeconfig's cluster"
    )]
    NotAnApiServer { server: String, reason: String },
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl ConnectError {
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::ImpersonationWithoutUser | Self::ServerAddress { by_flag: true, .. }
        )
    }
}

fn known_names(known: &[String]) -> String {
    if known.is_empty() {
        return "it has none".to_owned();
    }
    format!("it has: {}", known.join(", "))
}

pub type ApiResult<T> = Result<T, ApiError>;

#[derive(Clone, Debug, Error)]
pub enum ApiError {
    #[error("failed to reach the API server {server}: {reason}")]
    Unreachable { server: String, reason: String },
    /// The server's certificate has another CA than we were given or another name, or is out of date.
    #[error(
        "failed to verify the certificate of the API server {server}: {reason}; \
         check certificate-authority and tls-server-name of the kubeconfig"
    )]
    Untrusted { server: String, reason: String },
    #[error("the API server {server} did not answer within {} s", .after.as_secs_f32())]
    Timeout {
        server: String,
        /// The limit (`--request-timeout` or the default).
        after: Duration,
    },
    #[error("failed to get credentials for {server}: {reason}")]
    Credentials { server: String, reason: String },
    /// 401.
    #[error("the API server {server} rejected the credentials (401): {advice}")]
    Unauthorized { server: String, advice: String },
    /// 403 by RBAC or another authorizer, or by admission.
    #[error("{0}")]
    Forbidden(Box<Forbidden>),
    /// 404.
    #[error("{}", message(.0))]
    NotFound(Box<ApiResponse>),
    /// 409.
    #[error("{}", message(.0))]
    Conflict(Box<ApiResponse>),
    /// 410: the version to go on from is no longer kept.
    #[error("{}", message(.0))]
    Expired(Box<ApiResponse>),
    #[error("the API server answered {}: {}", .0.code, message(.0))]
    Refused(Box<ApiResponse>),
    #[error("the response to {path} is longer than {limit} bytes")]
    TooLarge { path: String, limit: usize },
    #[error("failed to decode the response to {path}: {reason}")]
    Malformed { path: String, reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// `list`, `create`, …
    pub verb: &'static str,
    pub target: Target,
    pub answer: ApiResponse,
}

impl Forbidden {
    pub fn can_i(&self) -> String {
        let Target {
            resource,
            namespace,
            name,
            subresource,
        } = &self.target;
        let mut line = format!("kubectl auth can-i {} {resource}", self.verb);
        if let Some(name) = name {
            line.extend(["/", name]);
        }
        if let Some(subresource) = subresource {
            // What follows a proxy's slash is the kubelet's path; RBAC stops before it.
            let subresource = subresource.split_once('/').map_or(*subresource, |(s, _)| s);
            line.extend([" --subresource=", subresource]);
        }
        match namespace {
            Some(namespace) => line.extend([" -n ", namespace]),
            None if name.is_none() => line.push_str(" --all-namespaces"),
            None => {}
        }
        line
    }
}

impl std::fmt::Display for Forbidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let resource = self.target.resource;
        write!(f, "not allowed to {} {resource}", self.verb)?;
        if let Some(subresource) = self.target.subresource {
            write!(f, "/{subresource}")?;
        }
        write!(
            f,
            ": {}; check with: {}",
            message(&self.answer),
            self.can_i()
        )
    }
}

impl ApiError {
    pub fn answer(&self) -> Option<&ApiResponse> {
        match self {
            Self::Forbidden(forbidden) => Some(&forbidden.answer),
            Self::NotFound(answer)
            | Self::Conflict(answer)
            | Self::Expired(answer)
            | Self::Refused(answer) => Some(answer),
            _ => None,
        }
    }

    /// Whether the same request may succeed a little later with nothing changed by us.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Refused(answer) => matches!(answer.code, 429 | 500 | 502..=504),
            _ => false,
        }
    }
}

fn message(answer: &ApiResponse) -> String {
    if let Some(status) = &answer.status
        && !status.message.is_empty()
    {
        return status.message.clone();
    }
    match &answer.text {
        Some(text) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => format!("status {}", answer.code),
    }
}
