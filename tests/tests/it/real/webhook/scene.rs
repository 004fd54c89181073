//! A cluster of real nodes with an installation of the webhook.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use nodelife_tests::installation::NODE_RESTRICTION;
use nodelife_tests::real_nodes::{NodeOptions, ProgramImage, RealNode, RealNodes, is_left_out};
use nodelife_tests::{ControlPlane, Installation, until};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::monitoring::API_SERVER;

/// A cluster without the admission plugins that the webhook replaces.
pub(super) struct Scene {
    pub(super) cluster: RealNodes,
    image: PathBuf,
    _folder: TempDir,
    turn: Mutex<()>,
}

/// Failed calls of the webhook by the API server's own count, by metric and labels.
pub(super) type Failures = BTreeMap<String, u64>;

impl Scene {
    /// The cluster of these tests, with two nodes and the manifests as they are. Each test has it
    /// for itself, one after the other, and begins with a sound installation.
    pub(super) async fn shared() -> Option<(&'static Self, MutexGuard<'static, ()>)> {
        static SHARED: OnceCell<Scene> = OnceCell::const_new();
        if is_left_out() {
            return None;
        }
        let scene = SHARED
            .get_or_init(async || {
                let scene = Self::start(2).await;
                scene
                    .installation(NODE_RESTRICTION)
                    .await
                    .apply()
                    .await
                    .unwrap();
                scene
            })
            .await;
        let turn = scene.turn.lock().await;
        scene
            .sound(&scene.installation(NODE_RESTRICTION).await)
            .await;
        Some((scene, turn))
    }

    /// A cluster with so many Ready nodes, each in a zone of its own.
    pub(super) async fn start(nodes: u32) -> Self {
        let options = ControlPlane::options()
            .without_admission("NodeRestriction")
            .without_admission("DefaultTolerationSeconds");
        let cluster = RealNodes::start(options, nodes).await.unwrap();
        let folder = tempfile::tempdir_in(cluster.plane.folder()).unwrap();
        let image = ProgramImage::WEBHOOK.write(folder.path()).unwrap();
        for node in cluster.nodes() {
            node.load_image(&image).await.unwrap();
        }
        Self {
            image,
            cluster,
            _folder: folder,
            turn: Mutex::default(),
        }
    }

    pub(super) fn nodes(&self) -> &[RealNode] {
        self.cluster.nodes()
    }

    /// One node more, with the webhook's image.
    pub(super) async fn power_on(&self, options: NodeOptions) -> RealNode {
        let node = self.cluster.power_on(options).await.unwrap();
        node.load_image(&self.image).await.unwrap();
        node
    }

    /// The installation of a folder of the manifests, which may be there already.
    pub(super) async fn installation(&self, base: &str) -> Installation<'_> {
        let installation = Installation::prepare(&self.cluster.plane, base).await;
        let (name, tag) = (ProgramImage::WEBHOOK.name, ProgramImage::TAG);
        installation.unwrap().image(name, tag).unwrap()
    }

    /// Waits until `webhook status` says ok of every link.
    pub(super) async fn sound(&self, installation: &Installation<'_>) {
        until("a sound installation", async || {
            let words = ["nodelife", "webhook", "status", "-o", "json"];
            let output = installation.kubectl.run(words).await?;
            let report: Value = serde_json::from_str(&output.stdout)?;
            let links = report["links"].as_array().unwrap();
            let wrong: Vec<_> = links.iter().filter(|one| one["health"] != "ok").collect();
            anyhow::ensure!(wrong.is_empty() && links.len() > 7, "{wrong:#?}");
            Ok(Some(()))
        })
        .await;
    }

    /// When each node that is Ready became so.
    pub(super) async fn ready_since(
        &self,
        installation: &Installation<'_>,
    ) -> Vec<(String, String)> {
        let nodes: Api<Node> = Api::all(installation.admin.clone());
        let nodes = nodes.list(&ListParams::default()).await.unwrap();
        let since = |node: Node| {
            let conditions = node.status?.conditions?;
            let ready = conditions.into_iter().find(|one| one.type_ == "Ready")?;
            let since = ready
                .last_transition_time
                .filter(|_| ready.status == "True")?;
            Some((node.metadata.name?, since.0.to_string()))
        };
        nodes.items.into_iter().filter_map(since).collect()
    }
}

/// How many calls of the webhook have failed; refusals are not among them.
pub(super) async fn failures(installation: &Installation<'_>) -> Failures {
    let metrics = installation.kubectl.run(["get", "--raw", "/metrics"]).await;
    let metrics = metrics.unwrap().success().unwrap();
    let counted = metrics.lines().filter(|line| {
        API_SERVER.iter().any(|metric| line.starts_with(metric))
            && line.contains(".nodelife.dev")
            && !line.contains("error_type=\"no_error\"")
    });
    let counted = counted.map(|line| {
        let (what, count) = line.rsplit_once(' ').unwrap();
        (what.to_owned(), count.parse().unwrap())
    });
    counted.collect()
}
