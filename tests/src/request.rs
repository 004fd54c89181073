//! A request of the API server or of etcd as JSON.

use anyhow::Result;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

/// A status other than success is an error.
pub(crate) async fn request(
    client: &Client,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<Value> {
    let content_type = if method == Method::PATCH {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(body.map_or_else(Body::empty, |body| {
            Body::from(body.to_string().into_bytes())
        }))?;
    let response = client.send(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    anyhow::ensure!(
        status.is_success(),
        "{path} answers {status}: {}",
        String::from_utf8_lossy(&body)
    );
    Ok(serde_json::from_slice(&body)?)
}
