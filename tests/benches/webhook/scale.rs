//! What the policy drainSafety adds to a scale of a Deployment: a person, and the autoscaler, whose scales
//! are not judged, take turns.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nodelife_tests::https::{Connection, TlsClient};
use nodelife_tests::installation::manifests;
use nodelife_tests::{ControlPlane, Installation, TIMEOUT};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Deployments of a namespace.
const DEPLOYMENTS: usize = 10;
const NAMESPACE: &str = "bench";
const PERSON: &str = "bench";
/// The API server does not call the webhook for it.
const AUTOSCALER: &str = "system:serviceaccount:kube-system:horizontal-pod-autoscaler";

/// The milliseconds of each scale, sorted: of the autoscaler, and of the person.
pub(crate) async fn times(plane: &ControlPlane, count: usize) -> Result<[Vec<f64>; 2]> {
    let overlay = "overlays/drain-safety";
    let installation = Installation::prepare(plane, overlay).await?;
    installation.apply().await?;
    let mut certs = installation.certs(&["--once"]).await?;
    ensure!(certs.wait(TIMEOUT).await? == 0, "certs failed");
    let config = manifests().join(overlay).join("config.yaml");
    let flags = ["--config", &config.display().to_string()];
    let _replica = installation.replica(None, &flags).await?;
    let mut client = connect(plane).await?;
    fill(&mut client).await?;
    let begun = Instant::now();
    while !scale(&mut client, PERSON, 1).await?.1 {
        ensure!(begun.elapsed() < TIMEOUT, "no warning came");
        scale(&mut client, AUTOSCALER, 3).await?;
    }
    let mut times = [Vec::new(), Vec::new()];
    for i in 0..count {
        for ((user, replicas), times) in [(AUTOSCALER, 3), (PERSON, 4)].into_iter().zip(&mut times)
        {
            let (took, told) = scale(&mut client, user, replicas).await?;
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

/// Without kube's client, which leaves Nagle's algorithm on.
async fn connect(plane: &ControlPlane) -> Result<Connection> {
    let own = plane.authority().client("bench", "system:masters")?;
    let client = TlsClient::new(&plane.authority().certificate(), Some(&own))?;
    let port = plane
        .url()
        .rsplit(':')
        .next()
        .map(str::parse)
        .context("a port")??;
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    client.to("localhost", TcpStream::connect(at).await?).await
}

async fn fill(client: &mut Connection) -> Result<()> {
    let mut post = async |path: &str, object| send(client, ("POST", path), PERSON, object).await;
    post(
        "/api/v1/namespaces",
        json!({"metadata": {"name": NAMESPACE}}),
    )
    .await?;
    let path = |group: &str, resource| format!("/apis/{group}/namespaces/{NAMESPACE}/{resource}");
    for i in 0..DEPLOYMENTS {
        let labels = json!({"app": format!("app-{i}")});
        let template = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = json!({"metadata": {"name": format!("app-{i}")},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}});
        post(&path("apps/v1", "deployments"), deployment).await?;
    }
    let budget = json!({"metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "app-0"}}}});
    post(&path("policy/v1", "poddisruptionbudgets"), budget).await?;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app-1"});
    let autoscaler = json!({"metadata": {"name": "app-1"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 9}});
    post(
        &path("autoscaling/v1", "horizontalpodautoscalers"),
        autoscaler,
    )
    .await?;
    Ok(())
}

/// Milliseconds, and whether the answer has a warning.
async fn scale(client: &mut Connection, user: &str, replicas: i32) -> Result<(f64, bool)> {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/app-0/scale");
    let scale = json!({"spec": {"replicas": replicas}});
    send(client, ("PATCH", &path), user, scale).await
}

async fn send(
    client: &mut Connection,
    (method, path): (&str, &str),
    user: &str,
    body: Value,
) -> Result<(f64, bool)> {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.to_string();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Impersonate-User: {user}\r\nImpersonate-Group: system:masters\r\n\r\n",
        body.len()
    );
    let begun = Instant::now();
    let answer = client.send(&head, body.as_bytes()).await?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(answer.status < 300, "{path}: {}", answer.body);
    Ok((took, answer.head.contains("\r\nwarning: ")))
}
