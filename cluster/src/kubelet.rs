//! Requests to the kubelets themselves, past the API server.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use nodelife_core::allocatable::KubeletConfiguration;
use nodelife_core::object::Node;
use tower::{BoxError, ServiceBuilder};

use crate::error::ApiError;
use crate::{Cluster, json, retry};

/// How the configurations of kubelets are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Configz {
    /// Through the API server, by a permission to get nodes/proxy: whoever has it may run commands in
    /// every pod.
    #[default]
    Proxy,
    /// From each kubelet, by a permission to get nodes/configz and nothing else (feature gate
    /// `KubeletFineGrainedAuthz`: on since 1.33, locked since 1.36; v1.37.2,
    /// `pkg/kubelet/server/auth.go`).
    Direct,
}

/// The port of a kubelet that does not tell its own (v1.37.2, `pkg/cluster/ports/ports.go`).
const PORT: i32 = 10250;

/// The longest configuration that is read. Defaults take 4 KiB.
const MAX_BODY: usize = 1 << 20;

/// How much of a refusal is told.
const MAX_TEXT: usize = 512;

/// A client of all kubelets of a cluster, with the credentials for its API server.
pub(crate) struct Kubelets {
    client: kube::Client,
}

impl Kubelets {
    /// A kubelet has to prove by its certificate that it belongs to the cluster: it gets the
    /// credentials. The error says why there can be no such client.
    pub(crate) fn of(cluster: &Cluster) -> Result<Self, String> {
        if cluster.impersonates {
            return Err("kubelets ignore --as: use --configz=proxy".to_owned());
        }
        let mut config = kube::Config::clone(&cluster.config);
        // That is the API server's.
        config.tls_server_name = None;
        let client = || -> kube::Result<kube::Client> {
            let connector = config.rustls_https_connector()?;
            let http = HttpClient::builder(TokioExecutor::new()).build(connector);
            let service = ServiceBuilder::new()
                .layer(config.extra_headers_layer()?)
                .option_layer(config.auth_layer()?)
                .map_err(BoxError::from)
                .service(http);
            Ok(kube::Client::new(service, "default"))
        };
        let client = client().map_err(|error| error.to_string())?;
        Ok(Self { client })
    }

    /// The configuration of the kubelet at this URL. The error says why it was not read.
    pub(crate) async fn configuration(&self, url: &str) -> Result<KubeletConfiguration, String> {
        let request = Request::get(format!("{url}/configz")).body(Body::empty());
        let request = request.map_err(|error| format!("{url}: {error}"))?;
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| match retry::transport_error(url, &error) {
            ApiError::Untrusted { reason, .. } => format!(
                "the kubelet at {url} got no credentials, since the cluster's certificate authority did not sign its \
                 certificate: {reason}; set serverTLSBootstrap in its configuration, or use --configz=proxy"
            ),
            ApiError::Unreachable { reason, .. } => format!("failed to reach the kubelet at {url}: {reason}"),
            error => error.to_string(),
        })?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await;
        let body = body.map_err(|error| format!("failed to read from {url}: {error}"))?;
        let body = body.to_bytes();
        match parts.status {
            StatusCode::OK => {
                let document = json::read(&body).map_err(|error| format!("{url}: {error}"))?;
                KubeletConfiguration::from_configz(document).map_err(|error| error.to_string())
            }
            StatusCode::UNAUTHORIZED => Err(format!(
                "the kubelet at {url} does not accept the credentials: set authentication.webhook \
                 or authentication.x509 in its configuration, or use --configz=proxy"
            )),
            StatusCode::FORBIDDEN => Err(format!("forbidden: {}", text(&body))),
            status => Err(format!("{url} answered {status}: {}", text(&body))),
        }
    }
}

/// The start of an answer, for people.
fn text(body: &Bytes) -> String {
    let start = body.get(..MAX_TEXT).unwrap_or(body);
    String::from_utf8_lossy(start).trim().to_owned()
}

/// Where the kubelet of a node listens.
pub(crate) fn url(node: &Node) -> Result<String, String> {
    let address = |kind: &str| {
        let mut addresses = node.status.addresses.iter();
        addresses.find(|address| address.kind == kind)
    };
    let kinds = ["InternalIP", "ExternalIP", "Hostname"];
    let address = kinds.into_iter().find_map(address);
    let address = &address.ok_or("the node has no address")?.address;
    let port = match node.status.daemon_endpoints.kubelet_endpoint.port {
        0 => PORT,
        port => port,
    };
    Ok(if address.contains(':') {
        format!("https://[{address}]:{port}")
    } else {
        format!("https://{address}:{port}")
    })
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
        assert_eq!(url(&node(&both, 10260)).unwrap(), "https://10.0.0.1:10260");
        let six = [("InternalIP", "fd00::1")];
        assert_eq!(url(&node(&six, 0)).unwrap(), "https://[fd00::1]:10250");
        assert_eq!(url(&node(&both[..1], 0)).unwrap(), "https://a:10250");
        assert!(url(&node(&[], 0)).is_err());
    }
}
