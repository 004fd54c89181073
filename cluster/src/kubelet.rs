//! Requests to the kubelets themselves, past the API server.
//!
//! Nothing that the caller holds is sent to a node: a kubelet gets a short token of an account that may
//! read configurations of kubelets and nothing else, once its certificate has shown that it is the
//! kubelet of that very node. Addresses are what nodes say of themselves.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use x509_parser::parse_x509_certificate;

use crate::client::USER_AGENT;
use crate::error::ApiResult;
use crate::request::{Call, MAX_TEXT, beginning};
use crate::resource::Resource;
use crate::{Cluster, json};

/// How the configurations of kubelets are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Configz {
    /// Through the API server
    // By a permission to get nodes/proxy: whoever has it may run commands in every pod.
    #[default]
    Proxy,
    /// From the kubelet itself, at its node's address
    // With a token of an account that may get nodes/configz and nothing else (feature gate `KubeletFineGrainedAuthz`: on since 1.33, locked since 1.36; v1.37.2,
    // `pkg/kubelet/server/auth.go`).
    Direct,
}

/// The account whose token kubelets get (`manifests/controller/configz`).
const NAMESPACE: &str = "nodelife-system";
const ACCOUNT: &str = "nodelife-controller-configz";

/// How long the token is valid: the shortest that the API server issues (v1.37.2,
/// `pkg/apis/authentication/validation/validation.go`).
const TOKEN_SECONDS: u32 = 600;

/// The port of a kubelet that does not tell its own (v1.37.2, `pkg/cluster/ports/ports.go`).
const PORT: u16 = 10250;

/// The longest configuration that is read. Defaults take 4 KiB.
const MAX_BODY: usize = 1 << 20;

/// What a server in Go says to a request without TLS (go1.26, `net/http/server.go`, `conn.serve`). A proxy on
/// the way, which answers for machines that are off, does not.
const NOT_TLS: &str = "Client sent an HTTP request to an HTTPS server";

/// How long a kubelet has to answer that it speaks TLS.
const ANSWER: Duration = Duration::from_secs(2);

pub(crate) struct Kubelets {
    token: SecretString,
    authority: Arc<RootCertStore>,
}

impl Kubelets {
    /// Asks the API server for a token. The error says why there can be no such client.
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self, String> {
        let config = &cluster.config;
        let advice = "use --configz=proxy";
        let roots = match &config.root_cert {
            Some(roots) if !config.accept_invalid_certs => roots,
            _ => {
                return Err(format!(
                    "the kubeconfig has no certificate authority, by which kubelets could be told: {advice}"
                ));
            }
        };
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(
            roots
                .iter()
                .map(|root| CertificateDer::from(root.as_slice())),
        );
        let token = token(cluster).await.map_err(|error| {
            format!(
                "no token of the account {NAMESPACE}/{ACCOUNT} for kubelets (manifests/controller/configz): {error}; \
                 or {advice}"
            )
        })?;
        let authority = store.into();
        Ok(Self { token, authority })
    }

    /// The configuration of the kubelet of this node, at this address. The error says why it was not read.
    pub(crate) async fn configuration(
        &self,
        node: &str,
        (host, port): (String, u16),
    ) -> Result<KubeletConfiguration, String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("failed to read from the kubelet at {host}:{port}: {error}")
        };
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.map_err(|error| failed(&error))?;
        let name = ServerName::try_from(host.clone()).map_err(|error| failed(&error))?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(Arc::clone(&self.authority))
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let refused = |why: &str| {
            format!(
                "the kubelet at {host}:{port} got no credentials: {why}; set serverTLSBootstrap in its \
                 configuration, or use --configz=proxy"
            )
        };
        let stream = connector.connect(name, stream).await.map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(why)) => refused(&format!(
                    "the cluster's certificate authority did not sign its certificate: {why}"
                )),
                _ => failed(&error),
            }
        })?;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let certificate = certificates.first().map_or(&[][..], |first| first);
        if let Some(why) = objection(certificate, node) {
            return Err(refused(&why));
        }
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(&error))?;
        let mut task = JoinSet::new();
        task.spawn(connection);
        let request = Request::get("/configz")
            .header(header::HOST, format!("{host}:{port}"))
            .header(header::USER_AGENT, USER_AGENT)
            .header(
                header::AUTHORIZATION,
                format!("Bearer {}", self.token.expose_secret()),
            )
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(&error))?;
        let response = sender.send_request(request).await;
        let (parts, body) = response.map_err(|error| failed(&error))?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await;
        let body = body.map_err(|error| failed(&error))?.to_bytes();
        match parts.status {
            StatusCode::OK => {
                let document = json::read(&body).map_err(|error| failed(&error))?;
                KubeletConfiguration::from_configz(document).map_err(|error| error.to_string())
            }
            StatusCode::UNAUTHORIZED => Err(format!(
                "the kubelet at {host}:{port} does not accept tokens: set authentication.webhook in its \
                 configuration, or use --configz=proxy"
            )),
            StatusCode::FORBIDDEN => Err(format!("forbidden: {}", beginning(&body).trim())),
            status => {
                let text = beginning(&body);
                Err(failed(&format_args!("{status}: {}", text.trim())))
            }
        }
    }
}

/// A short token that kubelets can review, and that the API server lets do nothing.
async fn token(cluster: &Cluster) -> ApiResult<SecretString> {
    #[derive(Deserialize)]
    struct Issued {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        token: String,
    }
    let accounts = Resource::core("serviceaccounts").all();
    let target = accounts.in_namespace(NAMESPACE).named(ACCOUNT).at("token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    });
    let call = Call::create(target, &request)?;
    let issued: Issued = cluster.call(&call).await?.json(&call)?;
    Ok(issued.status.token.into())
}

/// Why a certificate is not that of the node's kubelet, as `kubernetes.io/kubelet-serving` issues them.
fn objection(certificate: &[u8], node: &str) -> Option<String> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else {
        return Some("its certificate cannot be read".to_owned());
    };
    let subject = certificate.subject();
    let names: Vec<&str> = subject
        .iter_common_name()
        .filter_map(|name| name.as_str().ok())
        .collect();
    let user = format!("system:node:{node}");
    let mut groups = subject
        .iter_organization()
        .filter_map(|name| name.as_str().ok());
    (names != [user.as_str()] || !groups.any(|group| group == "system:nodes"))
        .then(|| format!("its certificate is of {subject}, and not of {user} in system:nodes"))
}

/// Knocks at the address of a kubelet: what answers, or what came instead of an answer.
///
/// A connection alone is none: the machine makes it for a kubelet that stands still.
pub async fn knock(node: &Node) -> Result<String, String> {
    let (host, port) = address(node)?;
    let ip: IpAddr = host
        .parse()
        .map_err(|_| format!("the node has no address but {host}"))?;
    let at = SocketAddr::new(ip, port);
    let ask = async {
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        let mut answer = Vec::new();
        match stream.take(MAX_TEXT as u64).read_to_end(&mut answer).await {
            Err(error) if answer.is_empty() => Err(error),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    };
    match timeout(ANSWER, ask).await {
        Ok(Ok(answer)) if answer.contains(NOT_TLS) => Ok(format!("its kubelet answers at {at}")),
        Ok(Ok(answer)) => {
            let first = answer.lines().next().unwrap_or("nothing");
            Err(format!("what answers at {at} is not a kubelet: {first:?}"))
        }
        Ok(Err(error)) => Err(format!("nobody answers at {at}: {error}")),
        Err(_elapsed) => Err(format!("nobody answers at {at} within {ANSWER:?}")),
    }
}

pub(crate) fn address(node: &Node) -> Result<(String, u16), String> {
    let address = |kind: &str| {
        let mut addresses = node.status.addresses.iter();
        addresses.find(|address| address.kind == kind)
    };
    let kinds = ["InternalIP", "ExternalIP", "Hostname"];
    let found = kinds.into_iter().find_map(address);
    let found = found.ok_or("the node has no address")?;
    let port = match node.status.daemon_endpoints.kubelet_endpoint.port {
        0 => PORT,
        port => u16::try_from(port).map_err(|_| format!("the node has the port {port}"))?,
    };
    Ok((found.address.to_string(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodelife_core::object::NodeAddress;

    fn node(addresses: &[(&str, &str)], port: i32) -> Node {
        let mut node = Node::default();
        node.status.daemon_endpoints.kubelet_endpoint.port = port;
        node.status.addresses = addresses
            .iter()
            .map(|(kind, address)| NodeAddress {
                kind: (*kind).into(),
                address: (*address).into(),
            })
            .collect();
        node
    }

    #[test]
    fn a_kubelet_is_asked_at_its_internal_address() {
        let both = [("Hostname", "a"), ("InternalIP", "10.0.0.1")];
        let at = |addresses, port| address(&node(addresses, port)).unwrap();
        assert_eq!(at(&both, 10260), ("10.0.0.1".to_owned(), 10260));
        let six = [("InternalIP", "fd00::1")];
        assert_eq!(at(&six, 0), ("fd00::1".to_owned(), 10250));
        assert_eq!(at(&both[..1], 0), ("a".to_owned(), 10250));
        assert!(address(&node(&[], 0)).is_err());
        assert!(address(&node(&six, 70000)).is_err());
    }
}
