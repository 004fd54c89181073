//! Tests of the installed webhook: requests that it allows, denies and never receives.

mod agents;
mod cold_start;
mod drain_safety;
mod exported;
mod filters;
mod lookups;
mod mirror_pods;
mod own_labels;
mod parity;
mod peers;
mod requests;
mod scales;
mod soundness;
mod takeover;

use anyhow::Result;
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use nodelife_tests::installation::Replica;
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, supervise, wait_until};
use serde_json::{Value, json};

/// Seconds for a call with lookups on a machine that has much else to do; verdicts are compared
/// here, not times.
const PATIENT: u8 = 30;
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// A request to the API server, and as whom.
#[derive(Clone, Debug)]
struct Call {
    method: &'static str,
    path: String,
    body: Value,
    /// Content type.
    kind: String,
    headers: Vec<(String, String)>,
}

impl Call {
    fn new(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self {
            method,
            path: path.into(),
            body,
            kind: "application/json".to_owned(),
            headers: Vec::new(),
        }
    }

    fn patch(path: impl Into<String>, body: Value) -> Self {
        Self::patch_as("merge-patch", path, body)
    }

    /// A patch of another kind: `json-patch`, `strategic-merge-patch`.
    fn patch_as(kind: &str, path: impl Into<String>, body: Value) -> Self {
        let mut call = Self::new("PATCH", path, body);
        call.kind = format!("application/{kind}+json");
        call
    }

    /// Server-side apply.
    fn apply(path: impl Into<String>, body: Value) -> Self {
        let path = format!("{}?fieldManager=test&force=true", path.into());
        let mut call = Self::new("PATCH", path, body);
        "application/apply-patch+yaml".clone_into(&mut call.kind);
        call
    }

    /// Nothing is stored.
    fn dry(mut self) -> Self {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        self.path = format!("{}{separator}dryRun=All", self.path);
        self
    }

    /// Sent by an admin on behalf of another.
    fn by_user(mut self, name: &str, groups: &[&str]) -> Self {
        self.headers
            .push(("Impersonate-User".to_owned(), name.to_owned()));
        let groups = groups
            .iter()
            .map(|group| ("Impersonate-Group".to_owned(), (*group).to_owned()));
        self.headers.extend(groups);
        self
    }

    /// Sent by the kubelet of `node`.
    fn by_node(self, node: &str) -> Self {
        self.by_user(
            &format!("system:node:{node}"),
            &["system:nodes", "system:authenticated"],
        )
    }

    fn with_extra(mut self, key: &str, value: &str) -> Self {
        let key = key.replace('/', "%2f");
        self.headers
            .push((format!("Impersonate-Extra-{key}"), value.to_owned()));
        self
    }

    /// Code and message of the answer.
    async fn send(&self, client: &Client) -> Result<PolicyResponse> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(&self.path)
            .header("content-type", &self.kind)
            .header("accept", "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = if self.body.is_null() {
            Vec::new()
        } else {
            self.body.to_string().into_bytes()
        };
        let answer = client.send(request.body(Body::from(body))?).await?;
        let code = answer.status().as_u16();
        let warnings = answer.headers().get_all("warning").into_iter();
        let warnings = warnings.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
        let warnings = warnings.collect();
        let bytes = answer.into_body().collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let message = match body["message"].as_str() {
            Some(message) if code >= 400 => message.to_owned(),
            _ => String::new(),
        };
        Ok(PolicyResponse {
            code,
            message,
            body,
            warnings,
        })
    }
}

/// An answer of the API server.
#[derive(Clone, Debug)]
struct PolicyResponse {
    code: u16,
    message: String,
    body: Value,
    /// Its headers `Warning`.
    warnings: Vec<String>,
}

/// Makes the certificates, starts a replica, and waits until the API server calls it: `probe`
/// has to be refused by it.
async fn start(
    plane: &ControlPlane,
    installation: &Installation<'_>,
    flags: &[&str],
    probe: &Call,
) -> Result<Replica> {
    install(installation).await?;
    let replica = installation.replica(None, flags).await?;
    is_called(plane, probe).await?;
    Ok(replica)
}

async fn install(installation: &Installation<'_>) -> Result<()> {
    installation.apply().await?;
    let mut certs = installation.certs(&["--once"]).await?;
    let status = certs.wait(TIMEOUT).await?;
    anyhow::ensure!(status == 0, "certs: {}", supervise::tail(certs.log()));
    Ok(())
}

async fn is_called(plane: &ControlPlane, probe: &Call) -> Result<()> {
    let admin = plane.admin().await?;
    wait_until("the webhook to be called", TIMEOUT, async || {
        let response = probe.send(&admin).await?;
        anyhow::ensure!(
            response.message.starts_with("admission webhook"),
            "{response:?}"
        );
        Ok(Some(()))
    })
    .await
}

/// Creates objects that a test starts from, in their order.
async fn make<P: AsRef<str>>(admin: &Client, objects: &[(P, Value)]) {
    for (path, object) in objects {
        let response = Call::new("POST", path.as_ref(), object.clone())
            .send(admin)
            .await
            .unwrap();
        assert!(response.code < 300, "{}: {response:?}", path.as_ref());
    }
}

fn pod(namespace: &str, name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}],
        },
    })
}
