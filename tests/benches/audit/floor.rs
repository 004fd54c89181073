//! Lower bounds of the bench: downloads the audit's lists, or watches, and discards what comes.

use std::io::{Write as _, stderr};
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use nodelife_cluster::listing::{self, Listing};
use nodelife_cluster::resource::Target;
use nodelife_cluster::{ClientOptions, Cluster};

/// Objects a page, as the audit asks for.
const PAGE: usize = 500;

/// The encoding of a watch that the controller asks for.
const WATCHED: &str = "application/json";

/// Between two watches.
const PAUSE: Duration = Duration::from_secs(1);

/// Of each page this much is kept: the list's metadata stands in front.
const HEAD: usize = 4096;

/// Downloads all lists at the same time and gives the bytes that came, after unpacking.
pub(crate) async fn download(kubeconfig: std::path::PathBuf) -> Result<usize> {
    let options = ClientOptions {
        kubeconfig: Some(kubeconfig),
        ..ClientOptions::default()
    };
    let cluster = Cluster::connect(&options).await?;
    let lists = paths().into_iter().map(|path| list(&cluster, path));
    Ok(futures::future::try_join_all(lists).await?.iter().sum())
}

/// Watches what the controller watches, and discards what comes. Ends only by an error.
pub(crate) async fn watch(kubeconfig: std::path::PathBuf) -> Result<()> {
    let options = ClientOptions {
        kubeconfig: Some(kubeconfig),
        ..ClientOptions::default()
    };
    let cluster = Cluster::connect(&options).await?;
    let watches = paths().into_iter().map(|path| follow(&cluster, path));
    futures::future::try_join_all(watches).await.map(drop)
}

/// Watches from now on, again and again: the API server ends each watch after some minutes.
async fn follow(cluster: &Cluster, path: String) -> Result<()> {
    loop {
        if let Err(error) = follow_once(cluster, &path).await {
            writeln!(stderr(), "{path}: {error:#}")?;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow_once(cluster: &Cluster, path: &str) -> Result<()> {
    let all = format!("limit={PAGE}");
    let first = Request::get(path.replace(&all, "limit=1")).body(Vec::new())?;
    let list: serde_json::Value = cluster.client().request(first).await?;
    let version = list.pointer("/metadata/resourceVersion");
    let version = version.and_then(|version| version.as_str());
    let version = version.context("a list has a version")?;
    // A watch has no pages.
    let watch = path.replace(&all, &format!("watch=true&resourceVersion={version}"));
    let request = Request::get(watch).header(header::ACCEPT, WATCHED);
    let answer = cluster.client().send(request.body(Body::empty())?).await?;
    anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        frame.map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    Ok(())
}

fn paths() -> Vec<String> {
    fn path<T>(listing: &Listing<T>) -> String {
        let all = listing.resource.all();
        let target: Target = match listing.namespace {
            Some(namespace) => all.in_namespace(namespace),
            None => all,
        };
        format!("{}?limit={PAGE}", target.path())
    }
    let events = path(&listing::EVENTS);
    let mut paths = vec![
        path(&listing::PODS),
        path(&listing::NODES),
        path(&listing::LEASES),
        path(&listing::BUDGETS),
        path(&listing::VOLUMES),
        path(&listing::VOLUME_ATTACHMENTS),
        path(&listing::CSI_NODES),
        path(&listing::SIGNING_REQUESTS),
        path(&listing::CLUSTER_ROLES),
        path(&listing::CLUSTER_ROLE_BINDINGS),
        path(&listing::AUTOSCALERS),
        format!("{events}&fieldSelector=involvedObject.kind%3DNode"),
    ];
    paths.extend(listing::WORKLOADS.iter().map(path));
    paths
}

async fn list(cluster: &Cluster, path: String) -> Result<usize> {
    let mut bytes = 0;
    let mut next = String::new();
    loop {
        let uri = if next.is_empty() {
            path.clone()
        } else {
            format!("{path}&continue={next}")
        };
        let request = Request::get(uri)
            .header(header::ACCEPT, "application/vnd.kubernetes.protobuf")
            .body(Body::empty())?;
        let answer = cluster.client().send(request).await?;
        anyhow::ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        let mut body = answer.into_body();
        let mut head = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame
                .map_err(|error| anyhow::anyhow!("{error}"))?
                .into_data()
            else {
                continue;
            };
            bytes += data.len();
            let wanted = HEAD.saturating_sub(head.len()).min(data.len());
            head.extend_from_slice(data.get(..wanted).unwrap_or_default());
        }
        next = token(&head).with_context(|| format!("{path}: a page without metadata"))?;
        if next.is_empty() {
            return Ok(bytes);
        }
    }
}

/// `continue` (3) of the metadata (1) of the list in `raw` (2) of the envelope. Tokens are
/// base64 for URLs: nothing in them needs escaping.
fn token(page: &[u8]) -> Option<String> {
    let list = field(page.strip_prefix(b"k8s\0")?, 2)?;
    let token = field(field(list, 1)?, 3).unwrap_or_default();
    Some(String::from_utf8_lossy(token).into_owned())
}

/// The payload of the first field of this tag that has a length, as far as it is here.
fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    loop {
        let key = varint(&mut message)?;
        let number = varint(&mut message)?;
        // A number: no field that is looked for is one.
        if key % 8 == 0 {
            continue;
        }
        let length = usize::try_from(number).ok()?.min(message.len());
        let (payload, rest) = message.split_at_checked(length)?;
        if key >> 3 == wanted {
            return Some(payload);
        }
        message = rest;
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
