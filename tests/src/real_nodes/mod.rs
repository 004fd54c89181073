//! Real nodes: kubelets with containerd, runc, CNI and kube-proxy beside a control plane, on one
//! machine.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use nodelife_tests::real_nodes::{Agent, NodeOptions, RealNodes};
//!
//! // Two nodes, for the whole test binary. Where they cannot be, the test is left out by name.
//! let Some(cluster) = RealNodes::shared().await else { return Ok(()) };
//! // What a test stops or powers off is its own:
//! let node = cluster.add(NodeOptions::default().zone("a")).await?;
//! node.stop(Agent::Kubelet).await?;
//! # Ok(()) }
//! ```
//!
//! The cluster has a pid, mount, network, UTS and IPC namespace of its own, and each node has a set
//! below it. Nothing is set on the machine but empty cgroups, which the supervisor of the cluster's
//! init removes. That process is the end of everything: when it dies, or the test process does,
//! kubelets, containers, mounts and interfaces are gone. The API server is reached at
//! [`ControlPlane::url`] as any other, and pods by [`RealNode::run`].

mod config;
mod image;
mod logind;
mod manners;
mod missing;
mod namespaces;
mod node;
mod program_image;
mod scene;
mod traces;

use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, PostParams};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

pub use config::GRACE;
pub use image::Image;
pub use manners::{MANNERS, PAUSE};
pub use missing::missing;
pub use node::{Agent, NodeOptions, RealNode};
pub use program_image::ProgramImage;
pub use scene::{Scene, deployment, manners};
pub use traces::Traces;

use crate::control_plane::{ControlPlane, Identity, Options, Part, Site};
use crate::network::Network;
use crate::program::GoProgram;
use crate::supervise::{Spec, Supervised};
use crate::wait::{TIMEOUT, wait_until};
use namespaces::Namespaces;
use node::Common;

/// How many nodes run at once in a test process: each takes nine inotify instances, its share of a
/// control plane some more, and a user may have 128 on most machines.
static ROOM: Semaphore = Semaphore::const_new(7);

/// Waits until so many nodes more may run. What starts them in another process holds this.
pub async fn room(nodes: u32) -> Result<SemaphorePermit<'static>> {
    Ok(ROOM.acquire_many(nodes).await?)
}

/// A control plane with real nodes. Dropping it ends all of it; so does the end of the test
/// process, however that comes.
pub struct RealNodes {
    /// Dropped first, and the others in this order.
    nodes: Vec<RealNode>,
    /// For what the API server calls through Services.
    _kube_proxy: Supervised,
    pub plane: ControlPlane,
    namespaces: Namespaces,
    common: Common,
    next: AtomicU8,
    folder: TempDir,
    _room: SemaphorePermit<'static>,
}

impl RealNodes {
    /// The cluster of this test binary, with two Ready nodes in two zones, `node-1` and `node-2`.
    /// A test keeps to its own namespace, and to nodes of its own where it stops them.
    ///
    /// None where the machine cannot run real nodes: the test is left out, and a line on stderr
    /// says so with the test's name and the reason.
    pub async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<RealNodes> = OnceCell::const_new();
        if is_left_out() {
            return None;
        }
        let start = || Self::start(ControlPlane::options(), 2);
        Some(expect(SHARED.get_or_try_init(start).await))
    }

    /// A cluster of one's own, with so many Ready nodes.
    pub async fn start(options: Options, nodes: u32) -> Result<Self> {
        if let Some(reason) = missing() {
            bail!("real nodes are not possible here: {reason}");
        }
        for program in [GoProgram::Kubelet, GoProgram::KubeProxy] {
            program.path()?;
        }
        let room = room(nodes).await?;
        let folder = tempfile::Builder::new().prefix("nodelife-").tempdir()?;
        let cgroup = folder.path().file_name().context("a folder has a name")?;
        let cgroup = cgroup.to_str().context("it is UTF-8")?.to_owned();
        let manners = manners::build()?;
        let log = folder.path().join("init.log");
        let namespaces = Namespaces::start(None, &manners, &log, |spec| {
            spec.remove_cgroup(&cgroup).remove_at_end(folder.path())
        })
        .await?;
        let own = config::CONTROL_PLANE.to_string();
        let setup = include_str!("../../real-nodes/cluster.sh");
        namespaces
            .script(setup, &[&own, config::SERVICES])
            .await
            .context("failed to set the cluster's network up")?;
        let plane = control_plane(options, &namespaces).await?;
        let common = Common {
            authority: plane.ca_file().to_owned(),
            images: manners::write_images(&manners, &folder.path().join("images"))?,
            manners,
            proxy_kubeconfig: proxy_kubeconfig(&plane, folder.path())?,
            cgroup,
        };
        let kube_proxy = kube_proxy(&namespaces, &common, folder.path())?;
        let mut this = Self {
            nodes: Vec::new(),
            _kube_proxy: kube_proxy,
            plane,
            namespaces,
            common,
            next: AtomicU8::new(1),
            folder,
            _room: room,
        };
        for zone in ["a", "b", "c"].iter().cycle().take(nodes.try_into()?) {
            let node = this.make(NodeOptions::default().zone(zone)).await?;
            this.nodes.push(node);
        }
        for node in &this.nodes {
            this.ready(node).await?;
        }
        Ok(this)
    }

    /// The nodes that it began with.
    pub fn nodes(&self) -> &[RealNode] {
        &self.nodes
    }

    /// One node more, of the test's own, when it is Ready. Dropping it cuts its power; the Node
    /// stays.
    pub async fn add(&self, options: NodeOptions) -> Result<RealNode> {
        let node = self.power_on(options).await?;
        self.ready(&node).await?;
        Ok(node)
    }

    /// One node more, as soon as its programs run: its Node need not be there.
    pub async fn power_on(&self, options: NodeOptions) -> Result<RealNode> {
        let room = room(1).await?;
        Ok(self.make(options).await?.with_room(room))
    }

    async fn make(&self, options: NodeOptions) -> Result<RealNode> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let identity = if options.begins_as_bootstrapper() {
            Identity::User {
                name: format!("system:bootstrap:node-{index}"),
                groups: vec!["system:bootstrappers".to_owned()],
            }
        } else {
            Identity::Node(format!("node-{index}"))
        };
        let kubeconfig = self.kubeconfig(&identity)?;
        let node = RealNode::new(
            index,
            self.folder.path(),
            &self.common,
            options,
            &kubeconfig,
        )?;
        node.power_on(&self.namespaces).await?;
        Ok(node)
    }

    /// Turns on a node whose power was cut, with what is on its disk.
    pub async fn power_on_again(&self, node: &RealNode) -> Result<()> {
        node.power_on(&self.namespaces).await
    }

    /// Cuts a node's power and turns it on again.
    pub async fn reboot(&self, node: &RealNode) -> Result<()> {
        node.power_off().await?;
        self.power_on_again(node).await
    }

    /// Lets bootstrappers have the client certificates that they ask for, as kubeadm does. Serving
    /// certificates are for the test to approve.
    pub async fn allow_bootstrap(&self) -> Result<()> {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.plane.admin().await?);
        for role in [
            "system:node-bootstrapper",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        ] {
            let binding = serde_json::from_value(json!({
                "metadata": {"name": format!("bootstrap-{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}],
            }))?;
            match bindings.create(&PostParams::default(), &binding).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                created => drop(created?),
            }
        }
        Ok(())
    }

    /// The text of a kubeconfig for use on a node.
    pub fn kubeconfig(&self, identity: &Identity) -> Result<String> {
        let url = self.plane.url_at(config::CONTROL_PLANE);
        self.plane.kubeconfig_for(&url, identity)
    }

    /// Waits until a node is Ready.
    pub async fn ready(&self, node: &RealNode) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.plane.admin().await?);
        let what = format!("{} to be Ready", node.name);
        let ready = wait_until(&what, TIMEOUT, async || {
            let node = nodes.get(&node.name).await?;
            let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
            let ready = conditions.and_then(|all| all.iter().find(|one| one.type_ == "Ready"));
            match ready {
                Some(condition) if condition.status == "True" => Ok(Some(node)),
                other => bail!("its condition is {other:?}"),
            }
        });
        ready.await.with_context(|| {
            let log = crate::supervise::tail(&node.log(Agent::Kubelet));
            format!("the kubelet's log ends:\n{log}")
        })
    }

    /// A port of 127.0.0.1 that leads to a port of a node, for example to its kubelet's 10250.
    pub fn forward(&self, node: &RealNode, port: u16) -> Result<u16> {
        let near = crate::port::free()?;
        self.network()?.forward(near, (node.address, port))?;
        Ok(near)
    }

    fn network(&self) -> Result<&Network> {
        self.plane
            .network()
            .context("the control plane has a network")
    }
}

/// Whether this machine cannot run real nodes; says so on stderr, with the name of the running test.
pub fn is_left_out() -> bool {
    let reason = missing();
    if let Some(reason) = reason {
        leave_out(reason);
    }
    reason.is_some()
}

/// Says on stderr that the running test is left out, and why.
pub fn leave_out(reason: &str) {
    // The harness names the thread of a test by the test. It captures what print macros write.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(stderr(), "left out: {test}: {reason}");
}

/// A cluster that does not start fails the test that asked first, and each later one tries again.
#[allow(clippy::panic)]
fn expect(cluster: Result<&'static RealNodes>) -> &'static RealNodes {
    match cluster {
        Ok(cluster) => cluster,
        Err(error) => panic!("failed to start the shared cluster: {error:#}"),
    }
}

async fn control_plane(options: Options, namespaces: &Namespaces) -> Result<ControlPlane> {
    options
        .with(Part::ControllerManager)
        .with(Part::Scheduler)
        .controller_manager_flag("--node-monitor-period=1s")
        .controller_manager_flag(&format!("--node-monitor-grace-period={GRACE}"))
        .at(Site {
            network: Network::of(namespaces.init())?,
            address: config::CONTROL_PLANE,
            services: config::SERVICES.to_owned(),
            kubernetes: config::KUBERNETES,
        })
        .start()
        .await
}

fn proxy_kubeconfig(plane: &ControlPlane, folder: &Path) -> Result<std::path::PathBuf> {
    let identity = Identity::User {
        name: "system:kube-proxy".to_owned(),
        groups: Vec::new(),
    };
    let url = plane.url_at(config::CONTROL_PLANE);
    let path = folder.join("kube-proxy.kubeconfig");
    fs::write(&path, plane.kubeconfig_for(&url, &identity)?)?;
    Ok(path)
}

/// The kube-proxy of the control plane's host. It waits for a Node of its name with an address, so
/// it borrows that of the first.
fn kube_proxy(namespaces: &Namespaces, common: &Common, folder: &Path) -> Result<Supervised> {
    let config = config::kube_proxy("node-1", config::CONTROL_PLANE, &common.proxy_kubeconfig);
    let path = folder.join("kube-proxy.json");
    fs::write(&path, config.to_string())?;
    Spec::new(GoProgram::KubeProxy.path()?, folder.join("kube-proxy.log"))
        .args([format!("--config={}", path.display())])
        .run_by(&namespaces.enter())
        .start()
        .context("failed to start kube-proxy")
}
