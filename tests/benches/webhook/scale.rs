//! What the policy drainSafety adds to a scale of a Deployment: two namespaces of one API server take
//! turns, one of which is exempt.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use nodelife_tests::installation::manifests;
use nodelife_tests::{ControlPlane, Installation, TIMEOUT, wait_until};
use serde_json::{Value, json};

/// Deployments of a namespace.
const DEPLOYMENTS: usize = 10;
const SENT: &str = "bench-sent";
const EXEMPT: &str = "bench-exempt";

/// The milliseconds of each scale, sorted: of the exempt namespace, and of the other.
pub(crate) async fn times(plane: &ControlPlane, count: usize) -> Result<[Vec<f64>; 2]> {
    let overlay = "overlays/drain-safety";
    let installation = Installation::prepare(plane, overlay).await?;
    installation.apply().await?;
    let mut certs = installation.certs(&["--once"]).await?;
    ensure!(certs.wait(TIMEOUT).await? == 0, "certs failed");
    let config = manifests().join(overlay).join("config.yaml");
    let flags = ["--config", &config.display().to_string()];
    let _replica = installation.replica(None, &flags).await?;
    let client = plane.admin().await?;
    fill(&client, EXEMPT, json!({"nodelife.dev/webhook": "exempt"})).await?;
    fill(&client, SENT, json!({})).await?;
    wait_until("a warning", TIMEOUT, async || {
        let (_, told) = scale(&client, SENT, 1).await?;
        Ok(told.then_some(()))
    })
    .await?;
    let mut times = [Vec::new(), Vec::new()];
    for i in 0..count {
        for (namespace, times) in [EXEMPT, SENT].into_iter().zip(&mut times) {
            let replicas = 3 + i32::from(i % 2 == 0);
            let (took, told) = scale(&client, namespace, replicas).await?;
            ensure!(!told, "{replicas} replicas allow evictions");
            // The first warm up.
            if i >= 50 {
                times.push(took);
            }
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    Ok(times)
}

async fn fill(client: &Client, namespace: &str, labels: Value) -> Result<()> {
    let object = json!({"metadata": {"name": namespace, "labels": labels}});
    send(client, "POST", "/api/v1/namespaces", object).await?;
    let path = |group: &str, resource| format!("/apis/{group}/namespaces/{namespace}/{resource}");
    for i in 0..DEPLOYMENTS {
        let labels = json!({"app": format!("app-{i}")});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = json!({"metadata": {"name": format!("app-{i}")},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}});
        send(client, "POST", &path("apps/v1", "deployments"), deployment).await?;
    }
    let budget = json!({"metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "app-0"}}}});
    send(
        client,
        "POST",
        &path("policy/v1", "poddisruptionbudgets"),
        budget,
    )
    .await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-1"});
    let autoscaler = json!({"metadata": {"name": "app-1"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 9}});
    send(
        client,
        "POST",
        &path("autoscaling/v1", "horizontalpodautoscalers"),
        autoscaler,
    )
    .await?;
    Ok(())
}

/// Milliseconds, and whether the answer has a warning.
async fn scale(client: &Client, namespace: &str, replicas: i32) -> Result<(f64, bool)> {
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/app-0/scale");
    send(
        client,
        "PATCH",
        &path,
        json!({"spec": {"replicas": replicas}}),
    )
    .await
}

async fn send(client: &Client, method: &str, path: &str, body: Value) -> Result<(f64, bool)> {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, kind);
    let request = request.body(Body::from(body.to_string().into_bytes()))?;
    let begun = Instant::now();
    let answer = client.send(request).await?;
    let (status, told) = (answer.status(), answer.headers().contains_key("warning"));
    let body = answer.into_body().collect().await.context("no answer")?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(
        status.is_success(),
        "{path}: {}",
        String::from_utf8_lossy(&body.to_bytes())
    );
    Ok((took, told))
}
