//! Fills an API server with a large cluster within seconds.
//!
//! One object of each kind is created through the API, so that it is stored as a real one is,
//! with defaults and managedFields; its clones are written straight into etcd. What differs
//! between clones is as wide as what it takes the place of, so that no length inside the stored
//! protobuf changes.

mod churn;
mod kind;
mod object;
mod size;
mod template;

use anyhow::{Context, Result};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

pub use churn::Churn;
pub use kind::node_name;
pub use size::Size;
pub use template::Template;

use crate::control_plane::ControlPlane;
use crate::etcd::Etcd;
use crate::request::request;
use crate::wait::{TIMEOUT, wait_until};
use kind::{KINDS, Kind};
use size::{LARGEST, REPLICAS};

/// Objects held ready before they are written.
const AT_ONCE: usize = 1000;

/// What a filled cluster holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// How many objects of each kind were written, and how long one is in etcd, in bytes.
    pub kinds: Vec<(&'static str, usize, usize)>,
}

/// Writes the objects. They are there for every client when this returns.
pub async fn fill(plane: &ControlPlane, size: Size) -> Result<Contents> {
    anyhow::ensure!(
        (1..LARGEST).contains(&size.nodes) && size.pods < LARGEST * REPLICAS,
        "names have room for 1 to {LARGEST} nodes and as many workloads"
    );
    let (client, etcd) = (plane.admin().await?, plane.etcd().await?);
    for namespace in ["team-99", "kube-node-lease"] {
        ensure_namespace(&client, namespace).await?;
    }
    let mut kinds = Vec::new();
    for kind in &KINDS {
        let template = template(&client, &etcd, kind, size).await?;
        let mut entries = Vec::new();
        let mut count = 0;
        for number in kind.numbers(size) {
            let words = (kind.words)(number, size);
            entries.push((kind.key(&words), template.with(&words)?));
            count += 1;
            if entries.len() == AT_ONCE {
                etcd.put(std::mem::take(&mut entries)).await?;
            }
        }
        etcd.put(entries).await?;
        kinds.push((kind.name, count, template.len()));
    }
    Ok(Contents { kinds })
}

/// Creates the object that the clones are made of, reads it from etcd and removes it again.
async fn template(client: &Client, etcd: &Etcd, kind: &Kind, size: Size) -> Result<Template> {
    let mut words = (kind.words)(kind.template(), size);
    let object = (kind.object)(&words);
    let created = request(client, Method::POST, kind.path, Some(&object))
        .await
        .with_context(|| format!("failed to create the template of {}", kind.name))?;
    let created = |field: &str| created.pointer(field).and_then(Value::as_str);
    let path = format!(
        "{}/{}",
        kind.path,
        created("/metadata/name").unwrap_or_default()
    );
    if kind.name == "nodes" {
        // Admission taints every new node as not ready; its controller is not here.
        let untainted = json!({"spec": {"taints": null}});
        request(client, Method::PATCH, &path, Some(&untainted)).await?;
    }
    if let Some(status) = object.get("status") {
        let status = json!({"status": status});
        request(
            client,
            Method::PATCH,
            &format!("{path}/status"),
            Some(&status),
        )
        .await
        .with_context(|| format!("failed to write the status of {}", kind.name))?;
    }
    let key = kind.key(&words);
    let stored = etcd.get(&key).await?;
    etcd.delete(&key).await?;
    // The UID is the API server's choice.
    if let (Some(uid), Some(word)) = (created("/metadata/uid"), words.first_mut()) {
        uid.clone_into(word);
    }
    Template::new(stored, &words)
}

/// The API server makes `kube-node-lease` by itself, but not at once.
pub async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let path = "/api/v1/namespaces";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    wait_until(&format!("namespace {name}"), TIMEOUT, async || {
        if request(client, Method::POST, path, Some(&namespace))
            .await
            .is_ok()
        {
            return Ok(Some(()));
        }
        request(client, Method::GET, &format!("{path}/{name}"), None)
            .await
            .map(|_| Some(()))
    })
    .await
}
